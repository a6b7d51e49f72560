package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

func (a *App) limitsCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "limits",
		Short: "Limit how many items with a limit key run at once, and how often they start",
		Long: "Limit the items with a limit key, in a workspace or over all workspaces. A change applies from the next\n" +
			"claim; running workflows continue.",
	}
	group.AddCommand(a.limitsListCommand(), a.limitsSetCommand(), a.limitsRemoveCommand(),
		a.limitsPauseCommand(true), a.limitsPauseCommand(false))
	return group
}

func (a *App) limitsListCommand() *cobra.Command {
	var workspace, key string
	var after int64
	command := &cobra.Command{
		Use: "list", Short: "List limits and how much of each is used", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			if err := clean("key", key); err != nil {
				return err
			}
			in, err := givenWorkspace(ctx, store, workspace)
			if err != nil {
				return err
			}
			limits, err := store.KeyLimits(ctx, operate.KeyLimitFilter{WorkspaceID: in.ID, Key: key, After: after}, a.limit)
			if err == nil {
				err = store.ReadHistory(ctx, limits)
			}
			if err != nil {
				return err
			}
			return list[operate.KeyLimit]{
				rows: limits, none: "no limits match; set one with `pgdispatch limits set`",
				more: func(last operate.KeyLimit) string { return fmt.Sprintf("continue with --after %d", last.ID) },
				heads: "KEY\tWORKSPACE\tACTIVE/MAX\tRATES\tSTARTS LEFT\tWAITING\tOLDEST\tFULL\tRUNNING, LAST HOUR\t" +
					"WAITING, LAST HOUR",
				cells: func(l operate.KeyLimit) string {
					workspace := "(all)"
					if l.WorkspaceID != "" {
						workspace = view.Printable(l.Workspace)
					}
					use, waiting := view.KeyLimitHistory(l, time.Now())
					return fmt.Sprintf("%s\t%s\t%d/%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", view.Printable(l.Key), workspace, l.Active,
						numberOr(l.MaxConcurrent, "-"), cmp.Or(l.Rates.String(), "-"), numberOr(l.StartsLeft, "-"),
						view.AtLeast(l.Waiting, l.WaitingExact), view.SpanOf(l.OldestWaiting), fullWord(l), use.Lined(),
						waiting.Lined())
				},
			}.print(a)
		}),
	}
	flags := command.Flags()
	flags.StringVar(&workspace, "workspace", "", "only this workspace, by ID or name")
	flags.StringVar(&key, "key", "", "only limits of this key")
	flags.Int64Var(&after, "after", 0, "only rows after this one, for the next page")
	a.complete(command, map[string]completion{"key": a.limitKeys()})
	return a.lists(command)
}

func (a *App) limitsSetCommand() *cobra.Command {
	var workspace string
	command := &cobra.Command{
		Use: "set KEY", Short: "Set or add the limit of a key", Args: cobra.ExactArgs(1),
		Long: "Set or add the limit of a key, in a workspace or, without --workspace, over all workspaces. What is not\n" +
			"given stays as it is.",
		Example: "  pgdispatch limits set smtp --max 10 --rates 10/s,100/1m\n" +
			"  pgdispatch limits set customer-17 --workspace Acme --max 2",
		ValidArgsFunction: arguments(a.limitKeys()),
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		patch, err := operate.ReadTerms(operate.KeyTerms, "--%s: %w", func(name string) (string, bool) {
			flag := command.Flags().Lookup(name)
			return flag.Value.String(), flag.Changed
		})
		if err == nil && len(patch) == 0 {
			err = errors.New("nothing to set: give --max, --rates, or both")
		}
		if err != nil {
			return err
		}
		return a.changeKey(ctx, store, workspace, args[0], patch, "limits set")
	})
	flags := command.Flags()
	flags.StringVar(&workspace, "workspace", "", "limit the key in this workspace, by ID or name, instead of over all")
	flags.String("max", "off", "how many items with the key may run at once; off: no limit")
	flags.String("rates", "off", "how many may start in any period, such as 10/s,100/1m; off: no limit")
	return a.changes(command)
}

// changeKey changes the limit of a key in the workspace that the flag gives, or over all.
func (a *App) changeKey(ctx context.Context, store *operate.Store, workspace, key string, patch operate.Patch,
	command string) error {
	if err := operate.CheckKey(key); err != nil {
		return err
	}
	in, err := givenWorkspace(ctx, store, workspace)
	if err != nil {
		return err
	}
	changed, err := store.SetKeyLimit(ctx, in.ID, key, patch, command, a.who)
	if err != nil {
		return err
	}
	return a.printChange(operate.WorkspaceName{ID: in.ID, Name: key}, changed)
}

func (a *App) limitsRemoveCommand() *cobra.Command {
	var workspace string
	command := &cobra.Command{
		Use: "remove KEY", Short: "Remove the limit of a key", Args: cobra.ExactArgs(1),
		Long: "Remove the limit of a key in a workspace or, without --workspace, the one over all workspaces. Items keep\n" +
			"their keys.",
		ValidArgsFunction: arguments(a.limitKeys()),
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
			if err := operate.CheckKey(args[0]); err != nil {
				return err
			}
			in, err := givenWorkspace(ctx, store, workspace)
			if err != nil {
				return err
			}
			removed, err := store.RemoveKeyLimit(ctx, in.ID, args[0], a.who)
			if err == nil && !removed {
				err = noLimit(ctx, store, args[0])
			}
			if err != nil {
				return err
			}
			return a.say(map[string]string{"workspace_id": in.ID, "removed": args[0]}, "removed the limit of %s",
				view.Printable(args[0]))
		}),
	}
	command.Flags().StringVar(&workspace, "workspace", "", "the limit of this workspace, by ID or name")
	return a.changes(command)
}

// noLimit is the error about a key without a limit.
func noLimit(ctx context.Context, store *operate.Store, key string) error {
	names, err := store.Names(ctx, operate.NamedKey, key)
	if err != nil {
		return err
	}
	return fmt.Errorf("%.80q has no limit there: see `pgdispatch limits list --key`%s", key,
		didYouMean(key, append(names.Same, names.Near...)))
}

func (a *App) limitsPauseCommand(paused bool) *cobra.Command {
	var workspace string
	command := &cobra.Command{
		Use: "pause KEY", Short: "Start no items with a key, until resumed", Args: cobra.ExactArgs(1),
		Long: "Start no items with a key, in a workspace or, without --workspace, in any. What runs goes on. If the\n" +
			"key has no limit there, one is added.",
		ValidArgsFunction: arguments(a.limitKeys()),
	}
	if !paused {
		command.Use, command.Short, command.Long = "resume KEY", "Start items with a paused key again", ""
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		return a.changeKey(ctx, store, workspace, args[0], operate.Patch{"paused": paused},
			"limits "+strings.TrimSuffix(command.Use, " KEY"))
	})
	command.Flags().StringVar(&workspace, "workspace", "", "only in this workspace, by ID or name")
	return a.changes(command)
}

func numberOr(n *int, none string) string {
	if n == nil {
		return none
	}
	return strconv.Itoa(*n)
}

func fullWord(l operate.KeyLimit) string {
	word := yesNo(l.Full())
	if l.Paused {
		word = "paused"
	}
	if l.FullFor != nil {
		word += ", for " + view.Span(*l.FullFor)
	}
	return word
}
