package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// shownSignals is how many signals of an item are shown, the newest.
const shownSignals = 50

// signalled is the output of `executions signal`.
type signalled struct {
	ID          string `json:"id,omitempty"`
	QueueItemID int64  `json:"queue_item_id,omitempty"`
	WorkflowID  string `json:"workflow_id"`
	Signal      int64  `json:"signal"`
}

func (a *App) executionsSignalCommand() *cobra.Command {
	var payload, workspace string
	command := &cobra.Command{
		Use: "signal REF NAME", Short: "Send a signal to a workflow", Args: cobra.ExactArgs(2),
		Long: "Send a signal to an item's workflow, as pgdispatch.signal does, or with --workspace as\n" +
			"pgdispatch.signal_workflow does.",
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := checkPayload(payload); err != nil {
			return err
		}
		sent, err := sendSignal(ctx, store, workspace, args[0], args[1], payload, a.who)
		if err != nil {
			return err
		}
		item := ""
		if sent.QueueItemID > 0 {
			item = fmt.Sprintf("%d  ", sent.QueueItemID)
		}
		return a.say(sent, "%s%s  sent as signal %d: a replica will deliver it", item,
			view.Printable(sent.WorkflowID), sent.Signal)
	})
	command.Flags().StringVar(&workspace, "workspace", "",
		"workspace whose item names the workflow ID REF, by ID or name")
	command.Flags().StringVar(&payload, "payload", "", "argument of the signal, as JSON (default: none)")
	return a.changes(command)
}

// sendSignal sends a signal to the item that ref names or, in a workspace, that names the workflow ID ref.
func sendSignal(ctx context.Context, store *operate.Store, workspace, ref, name, payload, who string) (signalled,
	error) {
	if workspace == "" {
		items, err := itemsOf(ctx, store, []string{ref}, false)
		if err != nil {
			return signalled{}, err
		}
		id, err := store.SendSignal(ctx, items[0].ExecutionID, name, payload, who)
		return signalled{items[0].ExecutionID, items[0].ID, items[0].WorkflowID, id}, err
	}
	found, err := givenWorkspace(ctx, store, workspace)
	if err != nil {
		return signalled{}, err
	}
	id, err := store.SendSignalTo(ctx, found.ID, ref, name, payload, who)
	return signalled{WorkflowID: ref, Signal: id}, err
}

func checkPayload(payload string) error {
	if payload != "" && !json.Valid([]byte(payload)) {
		return fmt.Errorf("--payload is %.80q: it must be JSON; quote a string twice, as in '\"text\"'", payload)
	}
	return nil
}

var signalStates = []string{"open", "delivered", "given-up"}

func (a *App) executionsSignalsCommand() *cobra.Command {
	var states []string
	command := &cobra.Command{
		Use: "signals [REF]", Short: "List signals to workflows, newest first", Args: cobra.MaximumNArgs(1),
		Long: "List the signals to a workflow, or to all workflows, newest first.",
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		for n, state := range states {
			if !slices.Contains(signalStates, state) {
				return fmt.Errorf("--state is %.80q: it must be one or more of %s", state, strings.Join(signalStates, ", "))
			}
			states[n] = strings.ToUpper(strings.ReplaceAll(state, "-", "_"))
		}
		execution := ""
		if len(args) == 1 {
			items, err := itemsOf(ctx, store, args, false)
			if err != nil {
				return err
			}
			execution = items[0].ExecutionID
		}
		signals, err := store.Signals(ctx, execution, states, a.limit)
		if err != nil {
			return err
		}
		return list[operate.Signal]{
			rows: signals, none: "no signals match", heads: "ID\tSENT\tWORKFLOW\tNAME\tSTATE\tTRIES\tNOTE",
			cells: func(s operate.Signal) string {
				note := cut(view.OrNone(s.Error))
				if s.Waits {
					note = "waits for the workflow's start or for an earlier signal"
				}
				return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%d\t%s", s.ID, stamp(s.SentAt), view.Printable(s.WorkflowID),
					view.Printable(s.Name), s.State, s.Tries, note)
			},
		}.print(a)
	})
	command.Flags().StringSliceVar(&states, "state", nil, "only in these states: "+strings.Join(signalStates, ", "))
	a.complete(command, map[string]completion{"state": fixed(signalStates...)})
	return a.lists(command)
}

func (a *App) executionsResendCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "resend SIGNAL", Short: "Send a signal that was given up again", Args: cobra.ExactArgs(1),
		Long: "Send a given-up signal again, by its ID in `executions signals --state given-up`, after all earlier ones:\n" +
			"to its workflow or, if its item was replayed, to that of the newest replay. If the workflow has ended, replay\n" +
			"its item first, with `dead replay`.",
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id < 1 {
			return fmt.Errorf("the signal is %.80q: it must be an ID of `pgdispatch executions signals --state given-up`",
				args[0])
		}
		sent, _, err := store.ResendSignal(ctx, id, "", a.who)
		if err != nil {
			return err
		}
		return a.say(sent, "signal %d was sent again as signal %d, to execution-%s", id, sent.ID, sent.ExecutionID)
	})
	return a.changes(command)
}
