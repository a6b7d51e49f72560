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
			"A REF is an execution ID, a workflow ID (execution-...), or an item ID.",
	}
	group.AddCommand(a.executionsShowCommand(), a.executionsCancelCommand(), a.executionsTerminateCommand(),
		a.executionsSignalCommand(), a.executionsSignalsCommand(), a.executionsResendCommand())
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
	var output string
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
		if output == "json" {
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
	addOutput(command.Flags(), &output)
	config.AddFlags(command.Flags(), config.DoctorOptions)
	return command
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
