package temporal

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// TaskQueue is where all workflows of the harness run.
const TaskQueue = "chaos"

// Workflow types, which are also the names of their definitions.
const (
	// Work takes as long as its params say, and completes.
	Work = "Work"
	// Fail fails.
	Fail = "Fail"
	// Again goes on as a second run, which completes.
	Again = "Again"
	// Any completes at once, whatever its input.
	Any = "Any"
	// Hold waits for a signal, or until its execution timeout.
	Hold = "Hold"
)

// deliberate is why Fail fails.
const deliberate = "as it should"

// Release is the signal that Hold waits for.
const Release = "release"

// GiveUp is the signal that has Hold fail.
const GiveUp = "give-up"

// workTimeout bounds what a workflow does.
const workTimeout = 10 * time.Second

// Input is what pgdispatch hands to every workflow, as far as these need it.
type Input struct {
	// Params are the item's.
	Params struct {
		// Millis is how long the workflow takes.
		Millis int `json:"ms"`
	} `json:"params"`
}

var workflows = map[string]any{
	Work: func(ctx workflow.Context, in Input) error {
		if in.Params.Millis == 0 {
			return nil
		}
		// Not a timer: the server's are a second late, and every workflow would take that long.
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{ScheduleToCloseTimeout: workTimeout})
		return workflow.ExecuteLocalActivity(ctx, work, in.Params.Millis).Get(ctx, nil)
	},
	Fail: func(workflow.Context, Input) error {
		return temporal.NewNonRetryableApplicationError(deliberate, "Deliberate", errors.New("it is told to"))
	},
	Again: func(ctx workflow.Context, in Input) error {
		if workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
			return workflow.NewContinueAsNewError(ctx, Again, in)
		}
		return nil
	},
	Any: func(workflow.Context, converter.RawValue) error { return nil },
	Hold: func(ctx workflow.Context, _ Input) error {
		var err error
		selector := workflow.NewSelector(ctx)
		selector.AddReceive(workflow.GetSignalChannel(ctx, Release), func(workflow.ReceiveChannel, bool) {})
		selector.AddReceive(workflow.GetSignalChannel(ctx, GiveUp), func(workflow.ReceiveChannel, bool) {
			err = temporal.NewNonRetryableApplicationError(deliberate, "Deliberate", errors.New("it is told to"))
		})
		selector.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) { err = ctx.Err() })
		selector.Select(ctx)
		return err
	},
}

// work takes a while.
func work(ctx context.Context, millis int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(millis) * time.Millisecond):
		return nil
	}
}

// Connect makes a client that outlives the server's restarts.
func Connect(address string) (client.Client, error) {
	quiet := log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	return client.NewLazyClient(client.Options{HostPort: address, Logger: quiet})
}

// NewWorker makes the worker, not started yet.
func NewWorker(c client.Client) worker.Worker {
	w := worker.New(c, TaskQueue, worker.Options{MaxConcurrentWorkflowTaskPollers: 4})
	for name, function := range workflows {
		w.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
	return w
}
