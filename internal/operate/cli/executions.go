package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

func (a *App) executionsCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "executions",
		Short: "Show, signal and stop executions: the workflows and activities that items started",
		Long: "Show, signal and stop executions: the workflows and activities that items started.\n" +
			"A REF is an execution ID, a workflow ID (execution-...), an item ID, or the workflow ID that an item names,\n" +
			"which finds it until it has ended.",
	}
	group.AddCommand(a.executionsShowCommand(), a.executionsCancelCommand(), a.executionsTerminateCommand(),
		a.executionsSignalCommand(), a.executionsSignalsCommand(), a.executionsResendCommand(),
		a.executionsGiveUpCommand())
	return group
}

// askTimeout limits a request to Temporal.
const askTimeout = 5 * time.Second

// executionJSON is the JSON of `executions show`: an item, with other meanings of some of its names.
type executionJSON struct {
	operate.Item
	ID              string     `json:"id"`
	Status          string     `json:"status,omitempty"` // empty if the item was never claimed
	Error           string     `json:"error,omitempty"`
	QueueItemID     int64      `json:"queue_item_id"`
	QueueItemStatus string     `json:"queue_item_status"`
	CreatedAt       *time.Time `json:"created_at"`
	FinishedAt      *time.Time `json:"finished_at"`
	Stop            string     `json:"stop,omitempty"`            // who requested its stop, and the outcome
	TemporalStatus  string     `json:"temporal_status,omitempty"` // empty if Temporal was not asked
}

func (a *App) executionsShowCommand() *cobra.Command {
	var ask bool
	command := &cobra.Command{Use: "show REF", Short: "Show an execution with its item", Args: cobra.ExactArgs(1)}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		items, err := itemsOf(ctx, store, args, true)
		if err != nil {
			return err
		}
		i, answer := items[0], ""
		if ask {
			c, err := config.ReadVerified(command.Flags(), a.LookupEnv, config.DoctorOptions)
			if err != nil {
				return err
			}
			if answer, err = temporalStatus(ctx, c, i.Namespace, i.WorkflowID, i.Kind); err != nil {
				return err
			}
		}
		if a.output == "json" {
			shown := executionJSON{Item: i, ID: i.ExecutionID, Status: i.ExecutionStatus,
				Error: i.ExecutionError, QueueItemID: i.ID, QueueItemStatus: i.Status, CreatedAt: i.PreparedAt,
				FinishedAt: i.ExecutionFinishedAt, TemporalStatus: answer}
			if i.Stop != "" {
				shown.Stop = view.StopOf(i)
			}
			return a.printJSON(shown)
		}
		known, err := historyOf(ctx, store, i)
		if err != nil {
			return err
		}
		return a.printItem(i, known, answer)
	})
	command.Flags().BoolVar(&ask, "ask-temporal", false, "also ask Temporal for its status")
	config.AddFlags(command.Flags(), config.DoctorOptions)
	return a.reads(command)
}

// temporalStatus returns Temporal's status of a workflow or an activity. An empty namespace means the configured one.
func temporalStatus(ctx context.Context, c config.Config, namespace, id string, kind temporal.Kind) (string, error) {
	client, own, err := c.Temporal.Dial(slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	defer client.Close()
	namespace = cmp.Or(namespace, own)
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("no answer from Temporal within %s", askTimeout))
	defer cancel()
	var status fmt.Stringer
	if kind == temporal.Activity {
		described, fails := client.WorkflowService().DescribeActivityExecution(ctx,
			&workflowservice.DescribeActivityExecutionRequest{Namespace: namespace, ActivityId: id})
		status, err = described.GetInfo().GetStatus(), fails
	} else {
		described, fails := client.WorkflowService().DescribeWorkflowExecution(ctx,
			&workflowservice.DescribeWorkflowExecutionRequest{
				Namespace: namespace, Execution: &common.WorkflowExecution{WorkflowId: id},
			})
		status, err = described.GetWorkflowExecutionInfo().GetStatus(), fails
	}
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return "not found: never started, or deleted by retention", nil
	case err != nil:
		return "", fmt.Errorf("ask Temporal about %s: %w; omit --ask-temporal to show only the database's state", id,
			postgres.Redact(err))
	}
	return strings.ToUpper(status.String()), nil
}

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
	var reason string
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
				temporal.Stop{Execution: temporal.Execution{ID: item.ExecutionID}, How: how, Reason: reason, RequestedBy: a.who})
			if err = stopErr; err != nil {
				break
			}
			outcome = append(outcome, stopped{item.ExecutionID, item.ID, answer, item.WorkflowID})
		}
		return errors.Join(err, a.show(outcome, func() error {
			for _, o := range outcome {
				fmt.Fprintf(a.Stdout, "%d  %s  %s\n", o.QueueItemID, view.Printable(o.workflowID), stopWords[o.Answer])
			}
			return nil
		}))
	})
	command.Flags().StringVar(&reason, "reason", "",
		"reason for the log of changes and for Temporal, up to 500 characters")
	command.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	return a.changes(command)
}

func (a *App) executionsGiveUpCommand() *cobra.Command {
	return a.itemActionCommand(itemAction{
		verb: "give-up", past: "gave up", skips: "found or ended in the meantime",
		short: "Give up executions that Temporal does not find",
		long: "Give-up says that executions which run according to the database, and which Temporal does not find,\n" +
			"are gone. A replica asks once more: if Temporal still does not find the workflow, the item is FAILED.\n" +
			"Check first that TEMPORAL_ADDRESS leads to the right cluster. Filters select only such executions.",
		found: operate.ItemFilter{States: []string{"DISPATCHED"}, Missing: true},
		named: func(_ context.Context, _ *operate.Store, item operate.Item, _ string, _ *outcome) (bool, error) {
			if item.MissingSince == nil {
				return false, fmt.Errorf("item %d is %s, and Temporal does not miss its workflow: use `pgdispatch executions "+
					"terminate %d`", item.ID, item.Status, item.ID)
			}
			return true, nil
		},
		act: done((*operate.Store).GiveUpExecutions),
	})
}

func checkReason(reason string) error {
	if !operate.ValidReason(reason) {
		return fmt.Errorf("--reason is %.80q: it must have at most 500 characters and no control characters", reason)
	}
	return nil
}

var stopWords = map[string]string{
	"WITHDRAWN": "withdrawn: it was not started yet", "REQUESTED": "requested: a replica will carry it out",
	"ALREADY_REQUESTED": "already requested", "ALREADY_ENDED": "already ended",
}
