package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/goldentest"
	"github.com/pgdispatch/pgdispatch/internal/operate/cli"
)

func TestSignalsWithinASecondAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals, cancelled, ended := make(chan os.Signal), false, false
		go func() {
			interrupt(signals, func() { cancelled = true })
			ended = true
		}()
		send := func() {
			signals <- os.Interrupt
			synctest.Wait()
		}
		send()
		require.True(t, cancelled)
		time.Sleep(sameSignal - time.Millisecond)
		send()
		require.False(t, ended, "it is the same one")
		time.Sleep(time.Millisecond)
		send()
		require.True(t, ended)
	})
}

const cliPage = "../../docs/cli.md"

// cliPageHead takes the commands without --output and the shared flags.
const cliPageHead = "# Commands\n\n" +
	"For operators: every command of `pgdispatch`, from its own help, which has examples, as has\n" +
	"[Operating](operating.md).\n\n" +
	"## Shared flags\n\n" +
	"Every command but `version` takes `--config`, `--database-url` and `--allow-insecure-database`; those that reach\n" +
	"Temporal also take the [settings](settings.md#replica) for that. All but `%s`\n" +
	"take `--output`, and those that change something `--by`. *Also* names the other shared flags of a command;\n" +
	"*filters* are `--%s`.\n\n" +
	"`--since` and `--until` go by the time of enqueueing; of `dead`, of the failure; of `audit`, of the change.\n\n" +
	"```text\n%s```\n"

// filters are the flags that select items or dead letters for a change.
var filters = []string{"all", "definition", "dry-run", "error", "since", "until", "workspace", "yes"}

// docs/cli.md is generated from the commands. It describes once a flag that several commands share.
func TestThePageOfCommandsSaysWhatTheyAre(t *testing.T) {
	t.Parallel()
	commands := slices.DeleteFunc(everyCommand(root()), (*cobra.Command).HasSubCommands)
	shared, silent := sharedFlags(commands)
	var page strings.Builder
	fmt.Fprintf(&page, cliPageHead, strings.Join(silent, "`, `"), strings.Join(filters, "`, `--"),
		flagUsages(shared))
	for _, command := range commands {
		usage := strings.TrimSuffix(strings.TrimPrefix(command.UseLine(), "pgdispatch "), " [flags]")
		fmt.Fprintf(&page, "\n## %s\n", usage)
		for paragraph := range strings.SplitSeq(cmp.Or(command.Long, command.Short+"."), "\n\n") {
			if strings.Contains(paragraph, "  ") { // the columns of `settings set`
				paragraph = "See the [settings of all replicas](settings.md#all-replicas)."
			}
			page.WriteString("\n" + paragraph + "\n")
		}
		if command.Name() == "run" {
			page.WriteString("\nIts flags are the [settings of a replica](settings.md#replica).\n")
		}
		taken, own := []string{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		command.Flags().VisitAll(func(f *pflag.Flag) {
			switch {
			case f.Name == "help" || isSetting(f.Name):
			case !has(shared, f):
				own.AddFlag(f)
			case f.Name != "by" && f.Name != "output":
				taken = append(taken, f.Name)
			}
		})
		if slices.Equal(taken, filters) {
			page.WriteString("\n*Also* filters.\n")
		} else if len(taken) > 0 {
			fmt.Fprintf(&page, "\n*Also* `--%s`.\n", strings.Join(taken, "`, `--"))
		}
		if own.HasFlags() {
			fmt.Fprintf(&page, "\n```text\n%s```\n", flagUsages(own))
		}
	}
	goldentest.Require(t, cliPage, page.String())
}

var flagType = regexp.MustCompile(`--[\w-]+ (strings?|int\d*|duration) `)

// flagUsages returns the help of flags without their types, which their descriptions imply.
func flagUsages(flags *pflag.FlagSet) string {
	return flagType.ReplaceAllStringFunc(flags.FlagUsagesWrapped(120), func(text string) string {
		name, _, _ := strings.Cut(text, " ")
		return name + strings.Repeat(" ", len(text)-len(name))
	})
}

// isSetting reports whether docs/settings.md has a flag, or it names the file of settings.
func isSetting(name string) bool {
	return name == "config" || slices.ContainsFunc(config.RunOptions, func(o config.Option) bool { return o.Flag == name })
}

// sharedFlags returns the flags that more than one command has with the same meaning, apart from settings, and the
// commands without --output.
func sharedFlags(commands []*cobra.Command) (shared *pflag.FlagSet, silent []string) {
	shared = pflag.NewFlagSet("", pflag.ContinueOnError)
	seen := map[string]bool{}
	for _, command := range commands {
		if command.Flags().Lookup("output") == nil {
			silent = append(silent, strings.TrimPrefix(command.CommandPath(), "pgdispatch "))
		}
		command.Flags().VisitAll(func(f *pflag.Flag) {
			switch meaning := f.Name + f.Usage + f.DefValue; {
			case f.Name == "help" || isSetting(f.Name):
			case !seen[meaning]:
				seen[meaning] = true
			case shared.Lookup(f.Name) == nil:
				shared.AddFlag(f)
			}
		})
	}
	return shared, silent
}

// has reports whether the flags have one like f, with the same meaning.
func has(flags *pflag.FlagSet, f *pflag.Flag) bool {
	known := flags.Lookup(f.Name)
	return known != nil && known.Usage == f.Usage && known.DefValue == f.DefValue
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
			"set-limit", "set-burst", "set-rate", "pause", "resume", "create", "signal", "resend", "purge",
			"remove", "give-up", "adopt"}, command.Name()) ||
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
		"items lsit":   "pgdispatch items has no command \"lsit\"; its commands are cancel, give-up, list, purge, ",
		"items show":   "accepts 1 arg(s), received 0",
		"items list x": "unknown command \"x\" for \"pgdispatch items list\"",
	} {
		var out, errs bytes.Buffer
		code := surroundings{lookupEnv: noEnv, stdout: &out, stderr: &errs}.run(t.Context(), strings.Fields(args))
		require.Contains(t, out.String()+errs.String(), want, args)
		require.Equal(t, 1, code, args)
	}
}

// root is the command tree of the binary.
func root() *cobra.Command {
	return (&cli.App{LookupEnv: noEnv}).Root(runCommand(surroundings{lookupEnv: noEnv, stderr: io.Discard}))
}

func noEnv(string) (string, bool) { return "", false }
