package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

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
	var page strings.Builder
	page.WriteString("# Commands\n\nWritten from the commands themselves: `make golden` rewrites it.\n" +
		"[operating.md](operating.md) says what they are for, [settings.md](settings.md) has the variables that stand for " +
		"flags.\n")
	for _, command := range everyCommand(root()) {
		if command.HasSubCommands() {
			continue
		}
		fmt.Fprintf(&page, "\n## %s\n\n", command.CommandPath())
		if command.Long != "" {
			fmt.Fprintf(&page, "%s\n", command.Long)
		} else {
			fmt.Fprintf(&page, "%s.\n", command.Short)
		}
		fmt.Fprintf(&page, "\n```text\n%s\n%s```\n", command.UseLine(), withoutHelp(command).FlagUsagesWrapped(120))
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

func everyCommand(command *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{command}
	for _, child := range command.Commands() {
		all = append(all, everyCommand(child)...)
	}
	return all
}

func withoutHelp(command *cobra.Command) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			flags.AddFlag(f)
		}
	})
	return flags
}

// Every command that reads supports JSON, and every command that changes something records who ran it.
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
