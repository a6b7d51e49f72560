package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// input is the contract's input, as a worker in any language declares it.
type input struct {
	ExecutionID                 string          `json:"executionId"`
	WorkspaceID                 string          `json:"workspaceId"`
	WorkflowDefinitionID        string          `json:"workflowDefinitionId"`
	WorkflowDefinitionVersionID string          `json:"workflowDefinitionVersionId"`
	QueueItemID                 int64           `json:"queueItemId"`
	NodeIDs                     []string        `json:"nodeIds"`
	Params                      json.RawMessage `json:"params"`
}

// workflows are the test worker's workflows by type.
var workflows = map[string]any{
	"Echo": func(_ workflow.Context, in input) (input, error) { return in, nil },
	// Hold ends on a signal.
	"Hold": func(ctx workflow.Context, _ input) error {
		workflow.GetSignalChannel(ctx, "go").Receive(ctx, nil)
		return ctx.Err()
	},
	"Fail": func(workflow.Context, input) error {
		return temporal.NewNonRetryableApplicationError("the oven is cold", "Oven", errors.New("no gas"))
	},
	// Again continues as a new run once and then fails: the end of the first run is not the execution's end.
	"Again": func(ctx workflow.Context, in input) error {
		if workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
			return workflow.NewContinueAsNewError(ctx, "Again", in)
		}
		return errors.New("second run failed")
	},
	"Cancelled": func(ctx workflow.Context, _ input) error {
		return workflow.Sleep(ctx, time.Hour)
	},
	// Collect returns what the signals "add" bring, up to "end".
	"Collect": func(ctx workflow.Context, _ input) (all []string, err error) {
		signals := workflow.GetSignalChannel(ctx, "add")
		for {
			var value string
			signals.Receive(ctx, &value)
			if value == "end" {
				return all, nil
			}
			all = append(all, value)
		}
	},
	// Relay does the same, and continues as a new run whenever it has read what there is.
	"Relay": func(ctx workflow.Context, in input) (all []string, err error) {
		_ = json.Unmarshal(in.Params, &all) // the first run's is an object
		signals := workflow.GetSignalChannel(ctx, "add")
		var value string
		signals.Receive(ctx, &value)
		for more := true; more; more = signals.ReceiveAsync(&value) {
			if value == "end" {
				return all, nil
			}
			all = append(all, value)
		}
		in.Params, _ = json.Marshal(all)
		return nil, workflow.NewContinueAsNewError(ctx, "Relay", in)
	},
	// Work takes long enough to reach the limits.
	"Work": func(ctx workflow.Context, _ input) error {
		_, err := workflow.AwaitWithTimeout(ctx, time.Second, func() bool { return false })
		return err
	},
}

// activities are the test worker's activities by type.
var activities = map[string]any{
	// Pass returns its arguments.
	"Pass": func(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil },
	"Break": func(context.Context, json.RawMessage) error {
		return temporal.NewApplicationErrorWithCause("the oven is cold", "Oven", errors.New("no gas"))
	},
	// Hang ends when it is cancelled, of which only heartbeats tell.
	"Hang": func(ctx context.Context, _ json.RawMessage) error {
		<-ctx.Done()
		return ctx.Err()
	},
	// Beat does the same, and sends heartbeats.
	"Beat": func(ctx context.Context, _ json.RawMessage) error {
		for {
			activity.RecordHeartbeat(ctx)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	},
}

func newQuietLogger() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
