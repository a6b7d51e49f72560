package sweeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// StallStore is the part of the store that Detector needs.
type StallStore interface {
	StallTurn(ctx context.Context, often, age time.Duration, atMost int) (queues []StalledQueue, mine bool, err error)
	StallPick(ctx context.Context, age time.Duration, without []StalledQueue, atMost int) ([]temporal.Execution, error)
	StallRecord(ctx context.Context, idle []StalledQueue, asked []string, failing []Stall,
		silent []string) ([]StallChange, error)
}

const (
	// atMostQueues limits the task queues checked per turn. Those with the most executions come first.
	atMostQueues = 100
	// atMostAsked limits the executions checked per turn. The next turn continues where this one ended.
	atMostAsked = 50
	// askPause separates two requests, so that a turn uses little of the namespace's rate limit.
	askPause = 50 * time.Millisecond
	// failingAttempts is the attempt from which a workflow task counts as failing repeatedly. A healthy task succeeds
	// on its first attempt, or on its second after a worker died.
	failingAttempts = 5
	// triesPerInterval is how often per Interval each replica tries to take the turn. A dead replica's turn is thus
	// taken over soon.
	triesPerInterval = 4
)

// Detector finds executions that are running but make no progress: their task queue has no poller, or their workflow
// task fails repeatedly. It only reports them. Set the fields before Run and do not change them afterwards.
type Detector struct {
	Store    StallStore
	Temporal interface {
		// Polled reports whether a worker polls the queue for workflow tasks.
		Polled(ctx context.Context, queue temporal.TaskQueue) (bool, error)
		// TaskAttempt returns the attempt of the execution's pending workflow task. Zero means that there is none.
		TaskAttempt(ctx context.Context, execution temporal.Execution) (int, error)
	}
	// Interval is the time between two turns, across all replicas.
	Interval time.Duration
	// Age is the minimum run time of the executions to check.
	Age time.Duration
	// Wanted reports whether open executions exist and Temporal is reachable, as last observed. If nil, Run asks for
	// every turn.
	Wanted func() bool
	Log    *slog.Logger

	complaint attempt.Complaint
}

// Run looks for stalled executions until ctx is cancelled, then returns nil.
func (d *Detector) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(d.Interval / triesPerInterval):
		}
		if d.Wanted != nil && !d.Wanted() {
			continue
		}
		switch err := attempt.Contain(ctx, d.check); {
		case err == nil:
			d.complaint.Over()
		case ctx.Err() == nil && d.complaint.IsNew(err):
			d.Log.WarnContext(ctx, "Cannot check for stalled executions", "error", err)
		}
	}
}

// check takes the turn if it is due, checks queues and executions, and records the findings. If a namespace does not
// answer, its recorded state is kept and the other namespaces are still checked.
func (d *Detector) check(ctx context.Context) error {
	// Slightly less than Interval, or every second turn would be missed.
	queues, mine, err := d.Store.StallTurn(ctx, d.Interval*9/10, d.Age, atMostQueues)
	if err != nil || !mine {
		return err
	}
	silent := map[string]error{}
	idle := d.idle(ctx, queues, silent)
	picked, err := d.Store.StallPick(ctx, d.Age, idle, atMostAsked)
	if err != nil {
		return err
	}
	asked, failing := d.failing(ctx, picked, silent)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	changes, err := d.Store.StallRecord(ctx, idle, asked, failing, slices.Sorted(maps.Keys(silent)))
	for _, change := range changes {
		d.report(ctx, change)
	}
	return errors.Join(err, errors.Join(slices.Collect(maps.Values(silent))...))
}

// idle returns the queues without a poller. It adds namespaces that do not answer to silent and skips them from then
// on.
func (d *Detector) idle(ctx context.Context, queues []StalledQueue, silent map[string]error) (idle []StalledQueue) {
	for _, queue := range queues {
		if silent[queue.Namespace] != nil {
			continue
		}
		polled, err := d.Temporal.Polled(ctx, queue.TaskQueue)
		pause(ctx, askPause)
		if err != nil {
			silent[queue.Namespace] = err
		} else if !polled {
			idle = append(idle, queue)
		}
	}
	return idle
}

// failing returns the IDs of the executions it checked, and those of them whose workflow task fails repeatedly.
func (d *Detector) failing(ctx context.Context, executions []temporal.Execution,
	silent map[string]error) (asked []string, failing []Stall) {
	for _, e := range executions {
		if silent[e.Namespace] != nil {
			continue
		}
		attempt, err := d.Temporal.TaskAttempt(ctx, e)
		pause(ctx, askPause)
		if err != nil {
			silent[e.Namespace] = err
			continue
		}
		asked = append(asked, e.ID)
		if attempt >= failingAttempts {
			detail := fmt.Sprintf("workflow task is at attempt %d", attempt)
			failing = append(failing,
				Stall{Kind: "EXECUTION", Namespace: e.Namespace, Name: e.ID, Executions: 1, Detail: detail})
		}
	}
	return asked, failing
}

func (d *Detector) report(ctx context.Context, change StallChange) {
	switch {
	case change.Over:
		d.Log.InfoContext(ctx, "Stalled execution recovered or ended", "kind", change.Kind, "name", change.Name)
	case change.Kind == "TASK_QUEUE":
		d.Log.WarnContext(ctx,
			"No worker polls the task queue; start a worker, or correct task_queue in the workflow definitions", "namespace",
			change.Namespace, "task_queue", change.Name, "executions", change.Executions)
	default:
		d.Log.WarnContext(ctx, "Workflow task fails repeatedly; fix the worker, or terminate the execution", "execution_id",
			change.Name, "detail", change.Detail)
	}
}
