package fault

import (
	"context"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

// operations are what can be in flight.
func operations() []*operation {
	return append(kindOperations(), []*operation{
		{name: "item", how: "an item that is inserted, started and ended", prepare: nothing, act: enqueues(temporal.Work),
			expect: completes(1)},
		{name: "signal", how: "a signal to the second run of a workflow that continues as new after each",
			prepare: all(runs(temporal.Notes), signalled), act: signals(2), took: continued, conclude: releasesLast,
			cuts: untilSettled, expect: completes(3)},
		{name: "stop", how: "a request to cancel a workflow", prepare: runs(temporal.Hold), act: stops, expect: cancelled},
		{name: "end", how: "the end of a workflow", prepare: runs(temporal.Hold), act: releases, expect: completes(1)},
		{name: "retry", how: "a start that Temporal refuses once", prepare: refusesOnce, act: enqueues(temporal.Work),
			cuts: untilClaimedAgain, expect: completes(1)},
		{name: "heartbeat", how: "a start that takes longer than two heartbeats", prepare: delays,
			act: enqueues(temporal.Work), cuts: fromFirstHeartbeat, expect: completes(1)},
	}...)
}

// startedLimit bounds the wait until an item's workflow runs.
const startedLimit = 10 * time.Second

func nothing(context.Context, *trial) error { return nil }

func enqueues(definition string) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) (err error) {
		t.execution, err = t.Enqueue(ctx, definition, nil, t.id)
		return err
	}
}

func runs(definition string) func(context.Context, *trial) error {
	return all(enqueues(definition), dispatched)
}

func dispatched(ctx context.Context, t *trial) error {
	return t.AwaitStatus(ctx, startedLimit, t.execution, "DISPATCHED")
}

// signals sends a signal whose payload is its number, from 1, to the item or to the ID that it names.
func signals(n int) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if t.id != nil {
			return t.Exec(ctx, "signal_workflow", t.WorkspaceID(), *t.id, temporal.Note, fmt.Sprint(n))
		}
		return t.Exec(ctx, "signal", t.execution, temporal.Note, fmt.Sprint(n))
	}
}

// signalled leaves a workflow in its second run, which has received the first signal.
func signalled(ctx context.Context, t *trial) error {
	if err := signals(1)(ctx, t); err != nil {
		return err
	}
	return t.awaitRuns(ctx, 2)
}

func (t *trial) awaitRuns(ctx context.Context, wanted int) error {
	return lab.Await(ctx, startedLimit, fmt.Sprintf("the workflow is in run %d", wanted), func() (bool, error) {
		listed, err := t.Lister().Runs(ctx, t.workflowID())
		return len(listed) >= wanted, err
	})
}

// continued waits for the third run if Temporal has accepted the signal.
func continued(ctx context.Context, t *trial) error {
	accepted, err := t.accepted(ctx)
	if err != nil || !accepted {
		return err
	}
	return t.awaitRuns(ctx, 3)
}

// accepted reports whether the second run has received the second signal.
func (t *trial) accepted(ctx context.Context) (bool, error) {
	listed, err := t.Lister().Runs(ctx, t.workflowID())
	if err != nil {
		return false, err
	}
	for _, run := range listed {
		history := t.Client.GetWorkflowHistory(ctx, t.workflowID(), run.RunID, false,
			enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for history.HasNext() {
			event, err := history.Next()
			if err != nil {
				return false, fmt.Errorf("read history: %w", err)
			}
			payloads := event.GetWorkflowExecutionSignaledEventAttributes().GetInput().GetPayloads()
			if len(payloads) == 1 && string(payloads[0].GetData()) == "2" {
				return true, nil
			}
		}
	}
	return false, nil
}

func releases(ctx context.Context, t *trial) error {
	return t.Signal(ctx, t.workflowID(), temporal.Release)
}

// releasesLast ends the third run, which follows when the second one has received the signal.
func releasesLast(ctx context.Context, t *trial) error {
	if err := t.awaitRuns(ctx, 3); err != nil {
		return err
	}
	return releases(ctx, t)
}

func stops(ctx context.Context, t *trial) error { return t.Exec(ctx, "request_cancel", t.execution) }

// refusesOnce makes Temporal refuse the next start, because the workflow is busy. Nothing is counted.
func refusesOnce(_ context.Context, t *trial) error {
	busy := serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "busy")
	t.Frontend.Set(proxy.Rule{Method: proxy.Start, Calls: 1, Refuse: serviceerror.ToStatus(busy).Err()})
	return nil
}

// delays makes the next start take longer than two heartbeats, each after a third of the lease.
func delays(_ context.Context, t *trial) error {
	t.Frontend.Set(proxy.Rule{Method: proxy.Start, Calls: 1, Delay: lab.CellLease * 3 / 4})
	return nil
}

// Names of steps begin with: a claim, a heartbeat, and a look for signals.
const (
	claims     = proxy.Claims
	heartbeats = "CLAIMED -> CLAIMED:"
	takes      = "writes signals:"
)

// untilSettled leaves out what follows the settle of the signal.
func untilSettled(seen []proxy.Step, n int) bool {
	return times(seen[n:], takes, true) > 0
}

// untilClaimedAgain leaves out what follows the second claim.
func untilClaimedAgain(seen []proxy.Step, n int) bool {
	return times(seen[:n], claims, true) < 2 && !strings.HasPrefix(seen[n].Request, takes)
}

func fromFirstHeartbeat(seen []proxy.Step, n int) bool {
	return times(seen[:n+1], heartbeats, false) > 0 && !strings.HasPrefix(seen[n].Request, takes)
}

// times returns how often there is a request, or an answer, whose name has a prefix.
func times(seen []proxy.Step, prefix string, answer bool) (n int) {
	for _, step := range seen {
		if strings.HasPrefix(step.Request, prefix) && step.Answer == answer {
			n++
		}
	}
	return n
}

// completes expects that the workflow completes after the given number of runs. The workflow of several runs has
// received a signal less than it has runs.
func completes(runs int) func(*trial) {
	return func(t *trial) {
		t.Item = expected(t, "COMPLETED", runs)
		for n := 1; n < runs; n++ {
			t.Signals = append(t.Signals, n)
		}
	}
}

func cancelled(t *trial) { t.Item, t.Stop = expected(t, "FAILED", 1), true }

func expected(t *trial, want string, runs int) audit.Expected {
	return audit.Expected{Execution: t.execution, Workspace: t.WorkspaceID(), Kind: audit.Workflow, Want: want, Runs: runs,
		Acknowledged: true}
}
