package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// skipsHandled is why an action on dead letters leaves one alone.
const skipsHandled = "already handled, or the definition was deleted"

var letterStates = []string{"open", "replayed", "discarded", "any"}

func (a *App) deadCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "dead",
		Short: "List, replay and discard dead letters: items that failed permanently",
		Long: "List, replay and discard dead letters: items that failed permanently.\n" +
			"A REF is an item ID, an execution ID, or a workflow ID (execution-...).",
	}
	group.AddCommand(a.deadListCommand(),
		a.itemShowCommand("Show a dead letter with its params, error and timeline", lettersOf),
		a.deadReplayCommand(), a.deadDiscardCommand())
	return group
}

func (a *App) deadListCommand() *cobra.Command {
	var filter filterFlags
	var state string
	command := &cobra.Command{
		Use: "list", Short: "List dead letters, latest failure first", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			if !slices.Contains(letterStates, state) {
				return fmt.Errorf("--state is %q: it must be open, replayed, discarded or any", state)
			}
			ids, err := filter.findLetters(ctx, store, state, a.limit)
			if err != nil {
				return err
			}
			letters, err := store.Items(ctx, ids, nil, true)
			if err != nil {
				return err
			}
			return list[operate.Item]{
				rows: letters, none: "no dead letters match",
				more: func(operate.Item) string {
					return fmt.Sprintf("showing the latest %d failures: see --limit", a.limit)
				},
				heads: "ID\tSTATE\tWORKSPACE\tDEFINITION\tFAILED AGO\tATTEMPTS\tWORKFLOW\tERROR",
				cells: func(l operate.Item) string {
					ended := "not started"
					if l.RunID != "" {
						ended = l.ExecutionStatus
					}
					return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s", l.ID, l.State, named(l.Workspace, l.WorkspaceID),
						named(l.WorkflowDefinition, l.WorkflowDefinitionID), view.Shortly(l.EndedAgo()), l.AttemptCount, ended,
						cut(l.LastError))
				},
			}.print(a)
		}),
	}
	filter.add(command.Flags())
	command.Flags().StringVar(&state, "state", "open", "filter by state: open, replayed, discarded or any")
	a.complete(command, map[string]completion{"state": fixed(letterStates...)})
	return a.lists(command)
}

func (a *App) deadReplayCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "replay", past: "replayed", skips: skipsHandled, dead: true,
		short: "Replay dead letters as new items with new workflow IDs",
		long: "Replay enqueues dead letters again, as new items. If one was replayed already, its latest replay is\n" +
			"replayed, if that failed too.",
		named: func(ctx context.Context, store *operate.Store, item operate.Item, who string, o *outcome) (bool, error) {
			if store == nil { // dry check
				return false, nil
			}
			return false, o.replay(ctx, store, item, who)
		},
		act: func(ctx context.Context, store *operate.Store, items []int64, who string, o *outcome) error {
			replayed, err := store.ReplayAll(ctx, items, who)
			o.Replayed = append(o.Replayed, replayed...)
			return err
		},
	})
}

func (a *App) deadDiscardCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "discard", past: "discarded", skips: skipsHandled, dead: true,
		short: "Mark dead letters as handled; they are no longer listed, but not deleted",
		long: "Discard marks dead letters as handled. They are then listed only with --state, and kept as long as other\n" +
			"finished items: see `pgdispatch settings set retention`.",
		act: func(ctx context.Context, store *operate.Store, items []int64, who string, o *outcome) error {
			discarded, err := store.Discard(ctx, items, who)
			o.Discarded = append(o.Discarded, discarded...)
			return err
		},
	})
}

// findLetters returns the IDs of the matching dead letters, latest failure first. Zero means no limit.
func (f *filterFlags) findLetters(ctx context.Context, store *operate.Store, state string,
	limit int) ([]int64, error) {
	filter, err := f.read(ctx, store)
	if err != nil {
		return nil, err
	}
	return store.FindDeadLetters(ctx, operate.DeadFilter{Filter: filter, State: state}, limit)
}

// lettersOf is itemsOf for dead letters. It is an error if an item is none.
func lettersOf(ctx context.Context, store *operate.Store, refs []string, withParams bool) ([]operate.Item, error) {
	return itemsNamed(ctx, store, refs, withParams, func(i operate.Item) bool { return i.State != "" },
		errors.New("is not a dead letter: the item does not exist or has not failed; see "+
			"`pgdispatch dead list --state any`"))
}
