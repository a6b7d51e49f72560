package fault

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
)

// kindOperations are what is started other than a workflow with the ID of its execution. At each cut, Temporal has
// closed what it was asked to start, so that it recognises a repeated request least.
func kindOperations() []*operation {
	again := func(policy string) func(context.Context, *trial) error {
		return enqueues(lab.Named(temporal.Again, policy))
	}
	return []*operation{
		{name: "activity", how: "an item that starts an activity", prepare: nothing, act: enqueues(temporal.Do),
			took: closed, expect: becomes("COMPLETED", audit.Activity, "", 1)},
		{name: "activity-reuse", how: "an item that starts an activity under an ID that another client has used before and " +
			"uses again at the cut", prepare: all(named, usedDo), act: enqueues(lab.Named(temporal.Do, audit.Reuse)),
			took: all(closed, usedAgainDo), expect: becomes("COMPLETED", audit.Activity, audit.Reuse, 1)},
		{name: "reject", how: "an item that names its ID under reject and whose workflow continues as new", prepare: named,
			act: again(audit.Reject), took: closed, expect: becomes("COMPLETED", audit.Workflow, audit.Reject, 2)},
		{name: "reuse", how: "such an item under reuse, whose ID another client has used before and uses again at the cut",
			prepare: all(named, used), act: again(audit.Reuse), took: all(closed, usedAgain),
			expect: becomes("COMPLETED", audit.Workflow, audit.Reuse, 2)},
		{name: "use-existing", how: "such an item under use_existing, likewise", prepare: all(named, used),
			act: again(audit.UseExisting), took: all(closed, usedAgain),
			expect: becomes("COMPLETED", audit.Workflow, audit.UseExisting, 2)},
		{name: "follow", how: "an item that follows another client's run under use_existing", prepare: all(named, held),
			act: enqueues(lab.Named(temporal.Hold, audit.UseExisting)), took: releasedIfFollowed, conclude: releasesFollowed,
			expect: becomes("COMPLETED", audit.Workflow, audit.UseExisting, 0)},
		{name: "refused", how: "an item whose ID another client has used, under reject", prepare: all(named, used),
			act: again(audit.Reject), expect: refused},
		{name: "signal-by-id", how: "signal_workflow to the second run of a workflow that continues as new after each",
			prepare: all(named, runs(lab.Named(temporal.Notes, audit.Reuse)), signalled), act: signals(2), took: continued,
			conclude: releasesLast, cuts: untilSettled, expect: func(t *trial) {
				completes(3)(t)
				t.Item.ID, t.Item.Policy = *t.id, audit.Reuse
			}},
	}
}

// becomes expects an item to end with a status after the given number of runs of its own.
func becomes(status, kind, policy string, runs int) func(*trial) {
	return func(t *trial) {
		t.Item = expected(t, status, runs)
		t.Item.Kind = kind
		if t.id != nil {
			t.Item.ID, t.Item.Policy = *t.id, policy
		}
	}
}

func refused(t *trial) {
	becomes("FAILED", audit.Workflow, audit.Reject, 0)(t)
	t.Item.Counted, t.FewestFailures, t.MostFailures = true, 1, 1
}

// named gives the trial's item an ID.
func named(_ context.Context, t *trial) error {
	id := "own-" + uuid.NewString()
	t.id = &id
	return nil
}

func (t *trial) another(ctx context.Context, workflow string) (client.WorkflowRun, error) {
	return t.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: t.workflowID(), TaskQueue: temporal.TaskQueue},
		workflow, temporal.Input{})
}

// held starts a workflow under the ID as another client.
func held(ctx context.Context, t *trial) error {
	_, err := t.another(ctx, temporal.Hold)
	return err
}

// used starts a workflow under the ID as another client, which completes.
func used(ctx context.Context, t *trial) error {
	run, err := t.another(ctx, temporal.Any)
	if err != nil {
		return err
	}
	return run.Get(ctx, nil)
}

func usedDo(ctx context.Context, t *trial) error {
	options := client.StartActivityOptions{ID: t.workflowID(), TaskQueue: temporal.TaskQueue,
		StartToCloseTimeout: startedLimit}
	run, err := t.Client.ExecuteActivity(ctx, options, temporal.Do, temporal.Input{})
	if err != nil {
		return err
	}
	return run.Get(ctx, nil)
}

// usedAgain uses the ID again if the item's workflow has run.
func usedAgain(ctx context.Context, t *trial) error {
	return t.ifStarted(ctx, func() error { return used(ctx, t) })
}

func usedAgainDo(ctx context.Context, t *trial) error {
	return t.ifStarted(ctx, func() error { return usedDo(ctx, t) })
}

// ifStarted calls a function if the newest run under the ID was started for the item.
func (t *trial) ifStarted(ctx context.Context, then func() error) error {
	listed, err := t.Lister().Newest(ctx, t.workflowID())
	if err != nil || listed != t.execution {
		return err
	}
	return then()
}

// closed waits until the item's workflow or activity has closed, if Temporal has started it.
func closed(ctx context.Context, t *trial) error {
	return t.ifStarted(ctx, func() error {
		if err := t.Client.GetWorkflow(ctx, t.workflowID(), "").Get(ctx, nil); !isNotFound(err) {
			return err
		}
		return t.Client.GetActivityHandle(client.GetActivityHandleOptions{ActivityID: t.workflowID()}).Get(ctx, nil)
	})
}

func isNotFound(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}

// releasedIfFollowed ends the run if the item follows it already.
func releasedIfFollowed(ctx context.Context, t *trial) error {
	described, err := t.Client.DescribeWorkflowExecution(ctx, t.workflowID(), "")
	if err != nil || len(described.GetWorkflowExtendedInfo().GetRequestIdInfos()) < 2 {
		return err
	}
	return errors.Join(releases(ctx, t), t.Client.GetWorkflow(ctx, t.workflowID(), "").Get(ctx, nil))
}

// releasesFollowed ends the run once the item follows it.
func releasesFollowed(ctx context.Context, t *trial) error {
	if err := t.AwaitStatus(ctx, startedLimit, t.execution, "DISPATCHED", "COMPLETED", "FAILED"); err != nil {
		return err
	}
	if err := releases(ctx, t); !isNotFound(err) { // it has closed at the cut
		return err
	}
	return nil
}
