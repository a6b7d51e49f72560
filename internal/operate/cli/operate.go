package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completionTimeout limits a database query for shell completion.
const completionTimeout = 2 * time.Second

// addWho adds the flag that says who makes a change.
func addWho(flags *pflag.FlagSet, who *string) {
	flags.StringVar(who, "by", defaultWho(), "name for the log of changes (default: this user and machine)")
	flags.Lookup("by").DefValue = "" // differs per machine; the usage text describes it
}

func checkWho(who string) error {
	if !operate.ValidWho(who) {
		return fmt.Errorf("--by is %.80q: it must have 1 to 200 characters and no control characters", who)
	}
	return nil
}

func checkLimit(limit int) error {
	if limit < 1 || limit > 10000 {
		return fmt.Errorf("--limit is %d: it must be a whole number from 1 to 10000", limit)
	}
	return nil
}

func checkBefore(before int64) error {
	if before < 0 {
		return fmt.Errorf("--before is %d: it must be an ID", before)
	}
	return nil
}

// workspaceOf finds the workspace with this ID or name. It returns an error unless exactly one matches.
func workspaceOf(ctx context.Context, store *operate.Store, idOrName string) (operate.WorkspaceName, error) {
	none := operate.WorkspaceName{}
	if postgres.Clean(idOrName) != strings.TrimSpace(idOrName) || strings.TrimSpace(idOrName) == "" {
		return none, fmt.Errorf("%.80q is not a workspace ID (a UUID) or name", idOrName)
	}
	found, suggestion, err := workspaceNamed(ctx, store, idOrName)
	switch {
	case err != nil:
		return none, err
	case len(found) == 0:
		return none, fmt.Errorf("no workspace has the ID or name %.80q: see `pgdispatch workspaces list`%s", idOrName,
			suggestion)
	case len(found) > 1:
		ids := make([]string, len(found))
		for n, w := range found {
			ids[n] = w.ID
		}
		return none, fmt.Errorf("%d workspaces are named %.80q: use an ID, one of %s", len(found), idOrName,
			strings.Join(ids, ", "))
	}
	return found[0], nil
}

// completion returns a shell's suggestions for partial text.
type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// complete registers completions for flag values. completeOutputs handles --output.
func (a *App) complete(command *cobra.Command, flags map[string]completion) {
	for flag, function := range flags {
		if err := command.RegisterFlagCompletionFunc(flag, function); err != nil {
			panic(err) // the flag does not exist, which any test detects
		}
	}
}

// completeOutputs registers completions for --output on every command that has it.
func (a *App) completeOutputs(command *cobra.Command) {
	if command.Flags().Lookup("output") != nil {
		a.complete(command, map[string]completion{"output": fixed("table", "json")})
	}
	for _, child := range command.Commands() {
		a.completeOutputs(child)
	}
}

func fixed(values ...string) completion {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

func completeSetting(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	values := settingNames
	if len(args) > 0 {
		values = map[string][]string{"paused": {"true", "false"}, "retention": {"off", "30d"},
			"dead-letter-retention": {"off", "365d"}, "notify-ended": {"true", "false"}}[args[0]]
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}

// workspaceNames suggests workspace names. It suggests nothing if the database does not answer.
func (a *App) workspaceNames(command *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx := command.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, completionTimeout, errors.New("completion timed out"))
	defer cancel()
	var names []string
	command.SetContext(ctx)
	_ = a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
		found, err := store.CompleteWorkspaces(ctx, begun, 50)
		for _, w := range found {
			names = append(names, view.Printable(w.Name))
		}
		return err
	})(command, nil)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// firstIsWorkspace suggests workspaces for a command's first argument.
func (a *App) firstIsWorkspace(command *cobra.Command, args []string,
	begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.workspaceNames(command, args, begun)
}
