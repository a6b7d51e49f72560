package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

const (
	// completionTimeout limits a database query for shell completion.
	completionTimeout = 2 * time.Second
	// mostSuggestions is how many names a shell gets at most.
	mostSuggestions = 50
	// namesRead is how many definitions and limits are read for those that begin with the text.
	namesRead = 1000
)

// completion returns a shell's suggestions for partial text.
type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// complete registers completions for flag values of one command. completeShared handles those of all commands.
func (a *App) complete(command *cobra.Command, flags map[string]completion) {
	for flag, function := range flags {
		if err := command.RegisterFlagCompletionFunc(flag, function); err != nil {
			panic(err) // the flag does not exist, which any test detects
		}
	}
}

// completeShared registers completions for flags that mean the same on every command that has them.
func (a *App) completeShared(command *cobra.Command) {
	for flag, function := range map[string]completion{
		"output":             fixed("table", "json"),
		"workspace":          a.workspaceNames(),
		"definition":         a.definitionNames(),
		"plan":               a.planNames(),
		"limit-key":          a.limitKeys(),
		"on-conflict":        fixed("skip", "replace", "debounce"),
		"input":              fixed("envelope", "params", "args", "payloads"),
		"workflow-id-policy": fixed("reject", "reuse", "use_existing"),
	} {
		if command.Flags().Lookup(flag) != nil {
			a.complete(command, map[string]completion{flag: function})
		}
	}
	for _, child := range command.Commands() {
		a.completeShared(child)
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

// arguments completes each argument of a command with its own function, and further ones with nothing.
func arguments(functions ...completion) completion {
	return func(command *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(functions) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return functions[len(args)](command, args, begun)
	}
}

// suggest returns a completion by names of what read finds, in the workspace of the flag --workspace, if it is given.
// It suggests nothing if the database does not answer.
func suggest[T any](a *App, read func(ctx context.Context, store *operate.Store, workspace, begun string) ([]T, error),
	name func(T) string) completion {
	return func(command *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx := command.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeoutCause(ctx, completionTimeout, errors.New("completion timed out"))
		defer cancel()
		var names []string
		command.SetContext(ctx)
		_ = a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			in := operate.WorkspaceName{}
			if flag := command.Flags().Lookup("workspace"); flag != nil {
				var err error
				if in, err = givenWorkspace(ctx, store, flag.Value.String()); err != nil {
					return err
				}
			}
			found, err := read(ctx, store, in.ID, begun)
			for _, one := range found {
				shown := view.Printable(name(one))
				begins := strings.HasPrefix(strings.ToLower(shown), strings.ToLower(begun))
				if begins && !slices.Contains(names, shown) && len(names) < mostSuggestions {
					names = append(names, shown)
				}
			}
			return err
		})(command, nil)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// workspaceNames suggests names of workspaces.
func (a *App) workspaceNames() completion {
	return suggest(a, func(ctx context.Context, store *operate.Store, _, begun string) ([]operate.WorkspaceName, error) {
		return store.CompleteWorkspaces(ctx, begun, mostSuggestions)
	}, func(w operate.WorkspaceName) string { return w.Name })
}

// definitionNames suggests names of workflow definitions.
func (a *App) definitionNames() completion {
	return suggest(a, func(ctx context.Context, store *operate.Store, in, begun string) ([]operate.WorkspaceDefinition,
		error) {
		return store.ListDefinitions(ctx, in, begun, "", namesRead)
	}, func(d operate.WorkspaceDefinition) string { return d.Name })
}

// planNames suggests plans.
func (a *App) planNames() completion {
	return suggest(a, func(ctx context.Context, store *operate.Store, _, _ string) ([]operate.Plan, error) {
		return store.Plans(ctx)
	}, func(p operate.Plan) string { return p.Name })
}

// limitKeys suggests keys that have a limit.
func (a *App) limitKeys() completion {
	return suggest(a, func(ctx context.Context, store *operate.Store, in, _ string) ([]operate.KeyLimit, error) {
		return store.KeyLimits(ctx, operate.KeyLimitFilter{WorkspaceID: in}, namesRead)
	}, func(l operate.KeyLimit) string { return l.Key })
}
