package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// stopped is the outcome of a request to stop an execution.
type stopped struct {
	ID          string `json:"id"`
	QueueItemID int64  `json:"queue_item_id"`
	Answer      string `json:"answer"` // WITHDRAWN, REQUESTED, ALREADY_REQUESTED or ALREADY_ENDED
	workflowID  string
}

func (a *App) executionsCancelCommand() *cobra.Command {
	return a.executionsStopCommand("cancel", "CANCEL", "Request cancellation of workflows and activities",
		"Cancel asks workflows and activities to cancel themselves; they may clean up first, or go on. A PENDING item\n"+
			"is withdrawn instead; a CLAIMED one is stopped once it runs. Repeating has no effect, except that terminate\n"+
			"replaces cancel.")
}

func (a *App) executionsTerminateCommand() *cobra.Command {
	return a.executionsStopCommand("terminate", "TERMINATE", "Terminate workflows and activities immediately",
		"Terminate ends them immediately: their code cannot clean up. Otherwise it is like `pgdispatch executions cancel`.")
}

func (a *App) executionsStopCommand(verb, how, short, long string) *cobra.Command {
	var output, who, reason string
	var yes bool
	command := &cobra.Command{
		Use: verb + " REF...", Short: short, Long: long, Args: cobra.MinimumNArgs(1),
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := checkReason(reason); err != nil {
			return err
		}
		items, err := itemsOf(ctx, store, args, false)
		if err != nil {
			return err
		}
		if !yes {
			if err := a.confirm(command.InOrStdin(),
				fmt.Sprintf("%s the execution of %s", verb, view.Counted(len(items), "item"))); err != nil {
				return err
			}
		}
		outcome := []stopped{}
		for _, item := range items {
			answer, stopErr := store.RequestStop(ctx,
				temporal.Stop{Execution: temporal.Execution{ID: item.ExecutionID}, How: how, Reason: reason, RequestedBy: who})
			if err = stopErr; err != nil {
				break
			}
			outcome = append(outcome, stopped{item.ExecutionID, item.ID, answer, item.WorkflowID})
		}
		return errors.Join(err, a.printStopped(outcome, output))
	})
	command.Flags().StringVar(&reason, "reason", "",
		"reason for the log of changes and for Temporal, up to 500 characters")
	command.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	addWho(command.Flags(), &who)
	addOutput(command.Flags(), &output)
	return command
}

func checkReason(reason string) error {
	if !operate.ValidReason(reason) {
		return fmt.Errorf("--reason is %.80q: it must have at most 500 characters and no control characters", reason)
	}
	return nil
}

func (a *App) printStopped(outcome []stopped, output string) error {
	if output == "json" {
		return a.printJSON(outcome)
	}
	words := map[string]string{
		"WITHDRAWN": "withdrawn: it was not started yet", "REQUESTED": "requested: a replica will carry it out",
		"ALREADY_REQUESTED": "already requested", "ALREADY_ENDED": "already ended",
	}
	for _, o := range outcome {
		fmt.Fprintf(a.Stdout, "%d  %s  %s\n", o.QueueItemID, view.Printable(o.workflowID), words[o.Answer])
	}
	return nil
}
