package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md and the table of docs/settings.md")

const cliPage = "../../docs/cli.md"

// docs/cli.md is generated from the commands.
func TestThePageOfCommandsSaysWhatTheyAre(t *testing.T) {
	t.Parallel()
	commands := slices.DeleteFunc(everyCommand(root()), (*cobra.Command).HasSubCommands)
	shared, settings := sharedFlags(commands)
	var page strings.Builder
	fmt.Fprintf(&page, "# Commands\n\nGenerated from the commands: `make golden`. [Operating](operating.md) shows them "+
		"in use.\n\n## Shared flags\n\nEvery command but `version` takes these; commands that reach Temporal also take "+
		"the flags of `run` for that.\n\n```text\n%s```\n\nThe usage of a command names those of these flags that it "+
		"takes:\n\n```text\n%s```\n", settings.FlagUsagesWrapped(120), shared.FlagUsagesWrapped(120))
	for _, command := range commands {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n", command.CommandPath(), cmp.Or(command.Long, command.Short+"."))
		if command.Name() == "run" {
			page.WriteString("\nIts flags are the [settings of a replica](settings.md#replica).\n")
		}
		usage, own := strings.TrimSuffix(command.UseLine(), " [flags]"), pflag.NewFlagSet("", pflag.ContinueOnError)
		command.Flags().VisitAll(func(f *pflag.Flag) {
			switch first := shared.Lookup(f.Name); {
			case f.Name == "help" || isSetting(f.Name):
			case first != nil && first.Usage == f.Usage && first.DefValue == f.DefValue:
				usage += " [--" + f.Name + "]"
			default:
				own.AddFlag(f)
			}
		})
		if usage != command.CommandPath() || own.HasFlags() {
			fmt.Fprintf(&page, "\n```text\n%s\n%s```\n", usage, own.FlagUsagesWrapped(120))
		}
		if command.Example != "" {
			fmt.Fprintf(&page, "\n```sh\n%s\n```\n", command.Example)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(cliPage, []byte(page.String()), 0o644))
	}
	written, err := os.ReadFile(cliPage)
	require.NoError(t, err)
	require.Equal(t, string(written), page.String(), "go test ./cmd/pgdispatch -run Page -update rewrites docs/cli.md")
}

// isSetting reports whether docs/settings.md has a flag, or it names the file of settings.
func isSetting(name string) bool {
	return name == "config" || slices.ContainsFunc(config.RunOptions, func(o config.Option) bool { return o.Flag == name })
}

// sharedFlags returns the flags that more than one command has with the same meaning, and apart from them the settings
// of every command that connects to Postgres.
func sharedFlags(commands []*cobra.Command) (shared, settings *pflag.FlagSet) {
	shared, settings = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	seen := map[string]bool{}
	for _, command := range commands {
		command.Flags().VisitAll(func(f *pflag.Flag) {
			switch meaning := f.Name + f.Usage + f.DefValue; {
			case f.Name == "help" || isSetting(f.Name) && (command.Name() != "up"):
			case isSetting(f.Name):
				settings.AddFlag(f)
			case seen[meaning] && shared.Lookup(f.Name) == nil:
				shared.AddFlag(f)
			default:
				seen[meaning] = true
			}
		})
	}
	return shared, settings
}

func everyCommand(command *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{command}
	for _, child := range command.Commands() {
		all = append(all, everyCommand(child)...)
	}
	return all
}

// Every command that reads supports JSON, and every command that changes something records who did it.
func TestCommandsHaveTheSameFlagsForTheSameThings(t *testing.T) {
	t.Parallel()
	for _, command := range everyCommand(root()) {
		if command.HasSubCommands() {
			continue
		}
		path := strings.TrimPrefix(command.CommandPath(), "pgdispatch ")
		reads := slices.Contains([]string{"list", "show", "get", "status", "doctor", "signals", "wait"}, command.Name())
		changes := slices.Contains([]string{"set", "cancel", "terminate", "retry", "replay", "discard", "enqueue", "set-plan",
			"set-limit", "set-burst", "set-rate", "pause", "resume", "create", "signal", "resend",
			"remove"}, command.Name()) ||
			path == "definitions version"
		require.Equal(t, path != "version", command.Flags().Lookup("database-url") != nil, "%s: --database-url", path)
		require.Equal(t, reads || changes, command.Flags().Lookup("output") != nil, "%s: --output", path)
		if command.Name() != "list" {
			require.Equal(t, changes, command.Flags().Lookup("by") != nil, "%s: --by", path)
		}
		require.False(t, strings.HasSuffix(command.Short, "."), "%s: a short description has no full stop", path)
	}
}

func TestAnUnknownCommandSaysWhichThereAre(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"statsu":       "unknown command \"statsu\" for \"pgdispatch\"\n\nDid you mean this?\n\tstatus\n",
		"items lsit":   "pgdispatch items has no command \"lsit\"; its commands are cancel, list, retry, show",
		"items show":   "accepts 1 arg(s), received 0",
		"items list x": "unknown command \"x\" for \"pgdispatch items list\"",
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(args), func(string) (string, bool) { return "", false }, &out, &errs)
		require.Contains(t, out.String()+errs.String(), want, args)
		require.Equal(t, 1, code, args)
	}
}

// root is the command tree of the binary.
func root() *cobra.Command {
	noEnv := func(string) (string, bool) { return "", false }
	return (&cli.App{LookupEnv: noEnv}).Root(runCommand(surroundings{lookupEnv: noEnv, stderr: io.Discard}))
}
