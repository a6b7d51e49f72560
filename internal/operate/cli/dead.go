package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/spf13/cobra"
)

// deadBatch is the number of dead letters that one transaction replays or discards.
const deadBatch = 500

func (a *App) deadCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "dead",
		Short: "List, replay and discard dead letters: items that failed permanently",
		Long: "List, replay and discard dead letters: items that failed permanently.\n" +
			"A REF is an item ID, an execution ID, or a workflow ID (execution-...).",
	}
	for _, command := range []*cobra.Command{a.deadListCommand(), a.deadShowCommand(), a.deadReplayCommand(),
		a.deadDiscardCommand()} {
		config.AddFlags(command.Flags(), config.DatabaseOptions)
		group.AddCommand(command)
	}
	return group
}

func (a *App) deadListCommand() *cobra.Command {
	var filter filterFlags
	var state, output string
	var limit int
	command := &cobra.Command{
		Use: "list", Short: "List dead letters, latest failure first", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if !slices.Contains([]string{"open", "replayed", "discarded", "any"}, state) {
				return fmt.Errorf("--state is %q: it must be open, replayed, discarded or any", state)
			}
			if err := checkLimit(limit); err != nil {
				return err
			}
			ids, err := filter.find(ctx, store, state, limit)
			if err != nil {
				return err
			}
			letters, err := store.DeadLetters(ctx, ids, nil)
			if err != nil {
				return err
			}
			if output == "json" {
				return a.printJSON(letters)
			}
			return a.printDeadLetters(letters, limit)
		}),
	}
	filter.add(command.Flags(), "failed")
	command.Flags().StringVar(&state, "state", "open", "filter by state: open, replayed, discarded or any")
	command.Flags().IntVar(&limit, "limit", 50, "maximum number of rows, 1 to 10000")
	addOutput(command.Flags(), &output)
	a.complete(command,
		map[string]completion{"workspace": a.workspaceNames, "state": fixed("open", "replayed", "discarded", "any")})
	return command
}

func (a *App) deadShowCommand() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use: "show REF", Short: "Show a dead letter with its params, error and failure history", Args: cobra.ExactArgs(1),
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			letters, err := lettersOf(ctx, store, args)
			if err != nil {
				return err
			}
			failures, err := store.Failures(ctx, letters[0].ID)
			if err != nil {
				return err
			}
			if output == "json" {
				return a.printJSON(struct {
					operate.DeadLetter
					Failures []operate.Failure `json:"failures"`
				}{letters[0], failures})
			}
			return a.printDeadLetter(letters[0], failures)
		}),
	}
	addOutput(command.Flags(), &output)
	return command
}

func (a *App) deadReplayCommand() *cobra.Command {
	return a.deadActionCommand("replay", "Replay dead letters as new items with new workflow IDs",
		"Replay creates a new item with the same workspace, definition, params, priority and traceparent, and\n"+
			"links the two. If a dead letter was replayed already, its latest replay is replayed, if that failed too.",
		func(ctx context.Context, store *operate.Store, letters []operate.DeadLetter, who string) (o outcome, err error) {
			for _, letter := range letters {
				replay, err := store.Replay(ctx, letter.ExecutionID, who)
				if err != nil {
					return o, err
				}
				replayed := operate.Replayed{ID: letter.ID, ReplayID: replay.ID, ReplayExecutionID: replay.ExecutionID}
				if replay.Replayed {
					o.Replayed = append(o.Replayed, replayed)
				} else {
					o.Before = append(o.Before, replayed)
				}
			}
			return o, nil
		},
		func(ctx context.Context, store *operate.Store, ids []int64, who string, o *outcome) error {
			replayed, err := store.ReplayAll(ctx, ids, who)
			o.Replayed = append(o.Replayed, replayed...)
			return err
		})
}

func (a *App) deadDiscardCommand() *cobra.Command {
	discard := func(ctx context.Context, store *operate.Store, ids []int64, who string, o *outcome) error {
		discarded, err := store.Discard(ctx, ids, who)
		o.Discarded = append(o.Discarded, discarded...)
		return err
	}
	return a.deadActionCommand("discard", "Mark dead letters as handled; they are no longer listed, but not deleted",
		"Discard marks dead letters as handled and records who did it and when. They are then listed only with --state,\n"+
			"and are kept as long as other finished items: see `pgdispatch settings set retention`.",
		func(ctx context.Context, store *operate.Store, letters []operate.DeadLetter, who string) (o outcome, err error) {
			ids := make([]int64, len(letters))
			for n, letter := range letters {
				ids[n] = letter.ID
			}
			return o, discard(ctx, store, ids, who, &o)
		}, discard)
}

type (
	// actOnNamed acts on dead letters that were named individually.
	actOnNamed func(ctx context.Context, store *operate.Store, letters []operate.DeadLetter, who string) (outcome, error)
	// actOnFound acts on one batch of the dead letters that a filter matched.
	actOnFound func(ctx context.Context, store *operate.Store, ids []int64, who string, o *outcome) error
)

func (a *App) deadActionCommand(verb, short, long string, named actOnNamed, found actOnFound) *cobra.Command {
	var filter filterFlags
	var output, who string
	var all, dryRun, yes bool
	command := &cobra.Command{Use: verb + " {REF... | filters | --all}", Short: short, Long: long}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := checkOutput(output); err != nil {
			return err
		}
		switch filtered := all || filter.given(); {
		case len(args) > 0 && filtered:
			return errors.New("give either REFs or filters, not both")
		case len(args) > 0:
			letters, err := lettersOf(ctx, store, args)
			if err != nil || dryRun {
				return errors.Join(err, a.printOutcome(verb, output, outcome{Matched: len(letters), DryRun: true}, err))
			}
			o, err := named(ctx, store, letters, who)
			o.Matched = len(letters)
			return errors.Join(err, a.printOutcome(verb, output, o, err))
		case !filtered:
			return fmt.Errorf(
				"nothing selected to %s: give REFs, filters (--workspace, --definition, --error, --since, --until), or --all", verb)
		}
		ids, err := filter.find(ctx, store, "open", 0)
		if err != nil || dryRun || len(ids) == 0 {
			return errors.Join(err, a.printOutcome(verb, output, outcome{Matched: len(ids), DryRun: dryRun}, err))
		}
		if !yes {
			if err := a.confirm(command.InOrStdin(), verb+" "+letterCount(len(ids))); err != nil {
				return err
			}
		}
		// Act only on the dead letters that were counted. Later failures, such as failed replays, were not confirmed.
		slices.Reverse(ids) // replay the oldest failure first
		o := outcome{Matched: len(ids)}
		for batch := range slices.Chunk(ids, deadBatch) {
			if err = found(ctx, store, batch, who, &o); err != nil {
				break
			}
		}
		return errors.Join(err, a.printOutcome(verb, output, o, err))
	})
	filter.add(command.Flags(), "failed")
	command.Flags().BoolVar(&all, "all", false, "all open dead letters")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "print how many would be affected, without changing anything")
	command.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	addWho(command.Flags(), &who)
	a.complete(command, map[string]completion{"workspace": a.workspaceNames})
	addOutput(command.Flags(), &output)
	return command
}

// confirm asks on standard error. Anything but yes cancels.
func (a *App) confirm(answers io.Reader, what string) error {
	fmt.Fprintf(a.Stderr, "%s? [y/N] ", what)
	answer, err := bufio.NewReader(answers).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was changed: answer y, or repeat the command with --yes")
}

// defaultWho returns the user and machine that this process runs as, as far as they can be determined.
func defaultWho() string {
	who := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		who = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		who += "@" + host
	}
	return postgres.Clean(who)
}
