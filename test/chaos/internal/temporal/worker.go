// Package temporal is the worker that completes the harness's workflows, and what Temporal lists of them.
package temporal

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// TaskQueue is the task queue of all the harness's workflows.
const TaskQueue = "chaos"

// Workflow types, which are also the names of their definitions.
const (
	// Work takes as long as its params say, and completes.
	Work = "Work"
	// Fail fails.
	Fail = "Fail"
	// Again continues as a second run, which completes.
	Again = "Again"
	// Any completes at once, whatever its input is.
	Any = "Any"
	// Hold waits for a signal or for its execution timeout.
	Hold = "Hold"
)

// deliberate is the error with which Fail fails.
const deliberate = "as it should"

// Release is the signal that completes Hold.
const Release = "release"

// GiveUp is the signal that makes Hold fail.
const GiveUp = "give-up"

// workTimeout bounds the work of a workflow.
const workTimeout = 10 * time.Second

// Input holds the fields that these workflows need of pgdispatch's workflow input.
type Input struct {
	// Params are the item's params.
	Params struct {
		// Millis is how long the workflow takes, in milliseconds.
		Millis int `json:"ms"`
	} `json:"params"`
}

var workflows = map[string]any{
	Work: func(ctx workflow.Context, in Input) error {
		if in.Params.Millis == 0 {
			return nil
		}
		// This is not a timer, because the server's timers fire up to a second late, which would lengthen every
		// workflow.
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

// work waits for the given number of milliseconds.
func work(ctx context.Context, millis int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(millis) * time.Millisecond):
		return nil
	}
}

// NewWorker creates the worker and does not start it.
func NewWorker(c client.Client) worker.Worker {
	w := worker.New(c, TaskQueue, worker.Options{MaxConcurrentWorkflowTaskPollers: 4})
	for name, function := range workflows {
		w.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
	return w
}
