package complete

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pgdispatch/pgdispatch/claim"
)

// StallStore is the part of the store that the detector needs.
type StallStore interface {
	StallTurn(ctx context.Context, often, age time.Duration, atMost int) (queues []claim.StalledQueue, mine bool, err error)
	StallPick(ctx context.Context, age time.Duration, without []claim.StalledQueue, atMost int) ([]claim.Execution, error)
	StallRecord(ctx context.Context, idle []claim.StalledQueue, asked []string, failing []claim.Stall, silent []string) ([]claim.StallChange, error)
}

const (
	// atMostQueues is how many task queues a look asks about, those of the most executions first.
	atMostQueues = 100
	// atMostAsked is how many executions a look asks about. The next one goes on where it ended.
	atMostAsked = 50
	// askPause is between two questions, so that a look takes little of the namespace's rate.
	askPause = 50 * time.Millisecond
	// failingAttempts is from which attempt on a workflow task counts as failing again and again. One that succeeds is the first,
	// or the second after a worker has died.
	failingAttempts = 5
	// turnsPerLook is how often each replica asks for the turn, so that a dead one's is taken soon.
	turnsPerLook = 4
)

// Detector looks for executions that run and do not progress: on task queues that no worker polls, or with a workflow task that
// fails again and again. It changes nothing about them. Its fields are set before Run and not changed after.
type Detector struct {
	Store    StallStore
	Temporal interface {
		// Polled says whether a worker takes workflow tasks from a queue.
		Polled(ctx context.Context, queue claim.StalledQueue) (bool, error)
		// TaskAttempt is at which attempt the execution's workflow task is; 0: it has none.
		TaskAttempt(ctx context.Context, execution claim.Execution) (int, error)
	}
	// Interval is how often one of all replicas looks.
	Interval time.Duration
	// Age is how long an execution must have run.
	Age time.Duration
	// Wanted says whether executions are open and this replica reaches Temporal, as far as is known. Nil: they may be.
	Wanted func() bool
	Log    *slog.Logger

	last string // the error that was logged last
}

// Run looks until ctx is cancelled, and returns nil then.
func (d *Detector) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(d.Interval / turnsPerLook):
		}
		if d.Wanted != nil && !d.Wanted() {
			continue
		}
		switch err := contained(ctx, d.look); {
		case err == nil:
			d.last = ""
		case ctx.Err() == nil && err.Error() != d.last:
			d.last = err.Error()
			d.Log.WarnContext(ctx, "Cannot look for executions that do not progress", "error", claim.Clean(d.last))
		}
	}
}

// look takes the turn if there is one, asks, and records what it has found. A namespace that does not answer changes nothing, and
// holds up no other.
func (d *Detector) look(ctx context.Context) error {
	queues, mine, err := d.Store.StallTurn(ctx, d.Interval*9/10, d.Age, atMostQueues) // a little early, or every second turn would be missed
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

// idle returns the queues without a poller. Namespaces that do not answer become silent, and are not asked again.
func (d *Detector) idle(ctx context.Context, queues []claim.StalledQueue, silent map[string]error) (idle []claim.StalledQueue) {
	for _, queue := range queues {
		if silent[queue.Namespace] != nil {
			continue
		}
		polled, err := d.Temporal.Polled(ctx, queue)
		if err = cmp.Or(err, rest(ctx)); err != nil {
			silent[queue.Namespace] = err
		} else if !polled {
			idle = append(idle, queue)
		}
	}
	return idle
}

// failing returns which executions were asked about, and those of them whose workflow task fails again and again.
func (d *Detector) failing(ctx context.Context, executions []claim.Execution, silent map[string]error) (asked []string, failing []claim.Stall) {
	for _, e := range executions {
		if silent[e.Namespace] != nil {
			continue
		}
		attempt, err := d.Temporal.TaskAttempt(ctx, e)
		if err = cmp.Or(err, rest(ctx)); err != nil {
			silent[e.Namespace] = err
			continue
		}
		asked = append(asked, e.ID)
		if attempt >= failingAttempts {
			detail := fmt.Sprintf("its workflow task is at attempt %d", attempt)
			failing = append(failing, claim.Stall{Kind: "EXECUTION", Namespace: e.Namespace, Name: e.ID, Executions: 1, Detail: detail})
		}
	}
	return asked, failing
}

func rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(askPause):
		return nil
	}
}

func (d *Detector) report(ctx context.Context, change claim.StallChange) {
	switch {
	case change.Over:
		d.Log.InfoContext(ctx, "Progresses again, or has ended", "kind", change.Kind, "name", change.Name)
	case change.Kind == "TASK_QUEUE":
		d.Log.WarnContext(ctx, "No worker polls a task queue: start one, or correct the definitions' task_queue", "namespace", change.Namespace, "task_queue", change.Name, "executions", change.Executions)
	default:
		d.Log.WarnContext(ctx, "A workflow task fails again and again: mend the worker, or terminate the execution", "execution_id", change.Name, "detail", change.Detail)
	}
}

// Polled says whether a worker has polled a task queue for workflow tasks within minutes.
func (t *TemporalWaiter) Polled(ctx context.Context, queue claim.StalledQueue) (polled bool, err error) {
	err = bounded(ctx, func(ctx context.Context) error {
		response, err := t.Service.DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: t.namespace(queue.Namespace), TaskQueue: &taskqueuepb.TaskQueue{Name: queue.Name}, TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
		})
		polled = len(response.GetPollers()) > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("describe task queue %q: %w", queue.Name, err)
	}
	return polled, nil
}

// TaskAttempt is at which attempt the workflow task of an execution's newest run is; 0: it has none.
func (t *TemporalWaiter) TaskAttempt(ctx context.Context, execution claim.Execution) (int, error) {
	response, err := t.describe(ctx, execution)
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return 0, nil
	case err != nil:
		return 0, err
	case !isOurs(response.GetWorkflowExecutionInfo(), execution.ID):
		return 0, nil
	}
	return int(response.GetPendingWorkflowTask().GetAttempt()), nil
}
