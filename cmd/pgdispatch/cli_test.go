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

// shared are the flags that the page explains once: those of every command with a connection, of every command with an
// answer, and of every command that makes a change.
var shared = []string{"config", "database-url", "allow-insecure-database", "output", "by"}

// The page of commands is written from the commands.
func TestThePageOfCommandsSaysWhatTheyAre(t *testing.T) {
	t.Parallel()
	commands := slices.DeleteFunc(everyCommand(root()), (*cobra.Command).HasSubCommands)
	var page strings.Builder
	fmt.Fprintf(&page, "# Commands\n\nGenerated from the commands: `make golden`. [Operating](operating.md) shows them "+
		"in use.\n\n## Shared flags\n\n"+
		"Every command but `version` takes the first three, every command with an answer `--output`, every change\n"+
		"`--by`. Where a command reaches Temporal, it also takes the [flags of `run`](settings.md#replica) for that.\n\n"+
		"```text\n%s```\n", sharedFlags(t, commands).FlagUsagesWrapped(120))
	for _, command := range commands {
		fmt.Fprintf(&page, "\n## %s\n\n", command.CommandPath())
		fmt.Fprintf(&page, "%s\n", cmp.Or(command.Long, command.Short+"."))
		if command.Name() == "run" {
			page.WriteString("\nIts flags are the [settings of a replica](settings.md#replica).\n")
		}
		arguments := strings.TrimSuffix(command.UseLine(), " [flags]")
		usage := ownFlags(command).FlagUsagesWrapped(120)
		if arguments != command.CommandPath() {
			usage = arguments + "\n" + usage
		}
		if usage != "" {
			fmt.Fprintf(&page, "\n```text\n%s```\n", usage)
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

// sharedFlags returns the shared flags. Each must mean the same wherever a command has it.
func sharedFlags(t *testing.T, commands []*cobra.Command) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, command := range commands {
		for n, name := range shared {
			f := command.Flags().Lookup(name)
			require.True(t, f != nil || n > 2 || command.Name() == "version", "%s: --%s", command.CommandPath(), name)
			if f == nil || command.Name() == "list" && name == "by" { // there it is a filter
				continue
			}
			if first := flags.Lookup(name); first != nil {
				require.Equal(t, first.Usage+first.DefValue, f.Usage+f.DefValue, "%s: --%s", command.CommandPath(), name)
				continue
			}
			flags.AddFlag(f)
		}
	}
	return flags
}

// ownFlags returns a command's flags, except the shared ones and those of docs/settings.md.
func ownFlags(command *cobra.Command) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	command.Flags().VisitAll(func(f *pflag.Flag) {
		setting := slices.ContainsFunc(config.RunOptions, func(o config.Option) bool { return o.Flag == f.Name })
		elsewhere := setting || slices.Contains(shared, f.Name) && (f.Name != "by" || command.Name() != "list")
		if f.Name != "help" && !elsewhere {
			flags.AddFlag(f)
		}
	})
	return flags
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
		reads := slices.Contains([]string{"list", "show", "get", "status", "doctor"}, command.Name())
		changes := slices.Contains([]string{"set", "cancel", "terminate", "retry", "replay", "discard", "enqueue",
			"set-plan", "set-limit", "set-rate", "pause", "resume", "create"}, command.Name()) ||
			path == "definitions version"
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
