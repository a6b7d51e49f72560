package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

func (a *App) executionsCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "executions",
		Short: "Show, signal and stop executions: the workflows that items started",
		Long: "Show, signal and stop executions: the workflows that items started.\n" +
			"A REF is an execution ID, a workflow ID (execution-...), or an item ID.",
	}
	group.AddCommand(a.executionsShowCommand(), a.executionsCancelCommand(), a.executionsTerminateCommand(),
		a.executionsSignalCommand(), a.executionsSignalsCommand(), a.executionsResendCommand())
	return group
}

// askTimeout limits a request to Temporal.
const askTimeout = 5 * time.Second

// shownExecution is the output of `executions show`.
type shownExecution struct {
	ID                   string          `json:"id"`
	WorkflowID           string          `json:"workflow_id"`
	RunID                string          `json:"run_id,omitempty"`    // empty if no workflow was started
	Namespace            string          `json:"namespace,omitempty"` // empty means the replica's (old rows)
	Status               string          `json:"status,omitempty"`    // empty if the item was never claimed
	Error                string          `json:"error,omitempty"`
	Result               json.RawMessage `json:"result,omitempty"`
	ResultNote           string          `json:"result_note,omitempty"` // why the result is not kept
	QueueItemID          int64           `json:"queue_item_id"`
	QueueItemStatus      string          `json:"queue_item_status"`
	WorkspaceID          string          `json:"workspace_id"`
	Workspace            string          `json:"workspace"`
	WorkflowDefinitionID string          `json:"workflow_definition_id"`
	WorkflowDefinition   string          `json:"workflow_definition"`
	Version              *int            `json:"version"`
	Watcher              string          `json:"watcher,omitempty"`
	CreatedAt            *time.Time      `json:"created_at"`
	StartedAt            *time.Time      `json:"started_at"`
	FinishedAt           *time.Time      `json:"finished_at"`
	Stop                 string          `json:"stop,omitempty"`            // who requested its stop, and the outcome
	TemporalStatus       string          `json:"temporal_status,omitempty"` // empty if Temporal was not asked
}

func (a *App) executionsShowCommand() *cobra.Command {
	var output string
	var ask bool
	command := &cobra.Command{Use: "show REF", Short: "Show an execution", Args: cobra.ExactArgs(1)}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := checkOutput(output); err != nil {
			return err
		}
		items, err := itemsOf(ctx, store, args, true)
		if err != nil {
			return err
		}
		i := items[0]
		shown := shownExecution{
			ID: i.ExecutionID, WorkflowID: i.WorkflowID(), RunID: i.RunID, Namespace: i.Namespace, Status: i.ExecutionStatus,
			Error:  i.ExecutionError,
			Result: i.Result, ResultNote: i.ResultNote,
			QueueItemID: i.ID, QueueItemStatus: i.Status, WorkspaceID: i.WorkspaceID, Workspace: i.Workspace,
			WorkflowDefinitionID: i.WorkflowDefinitionID, WorkflowDefinition: i.WorkflowDefinition, Version: i.Version,
			Watcher: i.Watcher, CreatedAt: i.PreparedAt, StartedAt: i.StartedAt, FinishedAt: i.ExecutionFinishedAt,
		}
		if i.Stop != "" {
			shown.Stop = view.StopOf(i)
		}
		if ask {
			c, err := config.ReadVerified(command.Flags(), a.LookupEnv, config.DoctorOptions)
			if err != nil {
				return err
			}
			if shown.TemporalStatus, err = temporalStatus(ctx, c, shown.Namespace, shown.WorkflowID); err != nil {
				return err
			}
		}
		if output == "json" {
			return a.printJSON(shown)
		}
		return a.printExecution(shown)
	})
	command.Flags().BoolVar(&ask, "ask-temporal", false, "also ask Temporal for the workflow's status")
	addOutput(command.Flags(), &output)
	config.AddFlags(command.Flags(), config.DoctorOptions)
	return command
}

// temporalStatus returns Temporal's status of a workflow. An empty namespace means the configured one.
func temporalStatus(ctx context.Context, c config.Config, namespace, workflowID string) (string, error) {
	temporal, own, err := c.Temporal.Dial(slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	defer temporal.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("no answer from Temporal within %s", askTimeout))
	defer cancel()
	described, err := temporal.WorkflowService().DescribeWorkflowExecution(ctx,
		&workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: cmp.Or(namespace, own), Execution: &common.WorkflowExecution{WorkflowId: workflowID},
		})
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return "not found: never started, or deleted by retention", nil
	case err != nil:
		return "", fmt.Errorf("ask Temporal about %s: %w; omit --ask-temporal to show only the database's state", workflowID,
			postgres.Redact(err))
	}
	return strings.ToUpper(described.GetWorkflowExecutionInfo().GetStatus().String()), nil
}

func (a *App) printExecution(e shownExecution) error {
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	line := lines(table)
	line("execution", "%s", e.ID)
	line("workflow", "%s", e.WorkflowID)
	line("run", "%s", view.OrNone(view.Printable(e.RunID)))
	line("namespace", "%s", view.OrNone(view.Printable(e.Namespace)))
	line("status", "%s", view.OrNone(e.Status))
	if e.TemporalStatus != "" {
		line("in Temporal", "%s", view.Printable(e.TemporalStatus))
	}
	line("item", "%d, %s", e.QueueItemID, e.QueueItemStatus)
	line("workspace", "%s (%s)", orGone(e.Workspace), e.WorkspaceID)
	line("definition", "%s (%s), version %s", orGone(e.WorkflowDefinition), e.WorkflowDefinitionID, orQuestion(e.Version))
	line("watched by", "%s", view.OrNone(view.Printable(e.Watcher)))
	for _, at := range []struct {
		name string
		time *time.Time
	}{{"created", e.CreatedAt}, {"started", e.StartedAt}, {"ended", e.FinishedAt}} {
		if at.time != nil {
			line(at.name, "%s", stamp(*at.time))
		}
	}
	if e.Stop != "" {
		line("stop", "%s", view.Printable(e.Stop))
	}
	if e.Error != "" {
		line("error", "%s", view.Printable(e.Error))
	}
	if shown := showResult(e.Result, e.ResultNote); shown != "" {
		line("result", "%s", shown)
	}
	return table.Flush()
}

// lines returns a function that prints a name and a value as a line of table.
func lines(table io.Writer) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
}

// showResult formats a workflow's result, or the note why it is not kept. It returns "" if there is neither.
func showResult(result json.RawMessage, note string) string {
	if result != nil {
		return view.Printable(string(result))
	}
	return view.Printable(note)
}
