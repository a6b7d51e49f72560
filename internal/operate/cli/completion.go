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
		"workspace":          a.workspaceNames,
		"definition":         a.definitionNames,
		"plan":               a.planNames,
		"limit-key":          a.limitKeys,
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

// suggest returns the names that read finds. It suggests nothing if the database does not answer.
func (a *App) suggest(command *cobra.Command,
	read func(context.Context, *operate.Store) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx := command.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, completionTimeout, errors.New("completion timed out"))
	defer cancel()
	var names []string
	command.SetContext(ctx)
	_ = a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
		found, err := read(ctx, store)
		for _, name := range found {
			if shown := view.Printable(name); !slices.Contains(names, shown) && len(names) < mostSuggestions {
				names = append(names, shown)
			}
		}
		return err
	})(command, nil)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// workspaceNames suggests names of workspaces.
func (a *App) workspaceNames(command *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.suggest(command, func(ctx context.Context, store *operate.Store) ([]string, error) {
		found, err := store.CompleteWorkspaces(ctx, begun, mostSuggestions)
		names := make([]string, len(found))
		for n, w := range found {
			names[n] = w.Name
		}
		return names, err
	})
}

// definitionNames suggests names of workflow definitions, of one workspace if the flag --workspace says so.
func (a *App) definitionNames(command *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.suggest(command, func(ctx context.Context, store *operate.Store) ([]string, error) {
		workspace, err := ofWorkspace(ctx, command, store)
		if err != nil {
			return nil, err
		}
		if workspace != "" {
			return store.CompleteDefinitions(ctx, workspace, begun, mostSuggestions)
		}
		found, err := store.ListDefinitions(ctx, "", begun, "", definitionsRead)
		names := make([]string, len(found))
		for n, d := range found {
			names[n] = d.Name
		}
		return beginning(names, begun), err
	})
}

// planNames suggests plans.
func (a *App) planNames(command *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.suggest(command, func(ctx context.Context, store *operate.Store) ([]string, error) {
		plans, err := store.Plans(ctx)
		names := make([]string, len(plans))
		for n, plan := range plans {
			names[n] = plan.Name
		}
		return beginning(names, begun), err
	})
}

// limitKeys suggests keys that have a limit, in one workspace if the flag --workspace says so.
func (a *App) limitKeys(command *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.suggest(command, func(ctx context.Context, store *operate.Store) ([]string, error) {
		workspace, err := ofWorkspace(ctx, command, store)
		if err != nil {
			return nil, err
		}
		limits, err := store.KeyLimits(ctx, operate.KeyLimitFilter{WorkspaceID: workspace}, limitsRead)
		keys := make([]string, len(limits))
		for n, limit := range limits {
			keys[n] = limit.Key
		}
		return beginning(keys, begun), err
	})
}

// Completion looks at so many definitions and limits for those that begin with the text.
const definitionsRead, limitsRead = 1000, 1000

// ofWorkspace returns the ID of the workspace in the flag --workspace, or "".
func ofWorkspace(ctx context.Context, command *cobra.Command, store *operate.Store) (string, error) {
	flag := command.Flags().Lookup("workspace")
	if flag == nil {
		return "", nil
	}
	found, err := givenWorkspace(ctx, store, flag.Value.String())
	return found.ID, err
}

// beginning returns the names that begin with a text, ignoring case.
func beginning(names []string, text string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(strings.ToLower(name), strings.ToLower(text))
	})
}
