// Package temporal is the worker that completes the harness's workflows and activities, and what Temporal lists of
// them.
package temporal

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
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
	// Notes collects the payloads of signals named Note until it receives Release, and returns them. It continues as new
	// after each time that it has received some.
	Notes = "Notes"
)

// deliberate is the error with which Fail fails.
const deliberate = "as it should"

// Release is the signal that completes Hold and Notes. Note is the signal that Notes collects.
const (
	Release = "release"
	Note    = "note"
)

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
		// Marker is what Work returns: the call of pgdispatch.enqueue that the params are of.
		Marker string `json:"n"`
	} `json:"params"`
	// Received are the payloads that earlier runs of Notes have received.
	Received []int `json:"received,omitempty"`
}

var workflows = map[string]any{
	Work: func(ctx workflow.Context, in Input) (string, error) {
		if in.Params.Millis == 0 {
			return in.Params.Marker, nil
		}
		// This is not a timer, because the server's timers fire up to a second late, which would lengthen every
		// workflow.
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{ScheduleToCloseTimeout: workTimeout})
		return in.Params.Marker, workflow.ExecuteLocalActivity(ctx, work, in.Params.Millis).Get(ctx, nil)
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
	Notes: notes,
}

// notes reads all that it has been sent before it continues as new: Temporal would drop the rest.
func notes(ctx workflow.Context, in Input) ([]int, error) {
	received := len(in.Received)
	note, release := workflow.GetSignalChannel(ctx, Note), workflow.GetSignalChannel(ctx, Release)
	if err := workflow.Await(ctx, func() bool { return note.Len() > 0 || release.Len() > 0 }); err != nil {
		return nil, err
	}
	for n := 0; note.ReceiveAsync(&n); {
		in.Received = append(in.Received, n)
	}
	if release.Len() == 0 && len(in.Received) > received {
		return nil, workflow.NewContinueAsNewError(ctx, Notes, in)
	}
	return in.Received, nil
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
	w := worker.New(c, TaskQueue, worker.Options{MaxConcurrentWorkflowTaskPollers: 4,
		MaxHeartbeatThrottleInterval: beat, DefaultHeartbeatThrottleInterval: beat})
	for name, function := range workflows {
		w.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
	for name, function := range activities {
		w.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: name})
	}
	return w
}
