package telemetry

import (
	"errors"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

// Claimed implements dispatch.Observer.
func (t *Telemetry) Claimed(began time.Time, batch claim.Batch, settled []int64, err error) {
	took := interval{began, time.Now()}
	t.measureClaim(took, batch, err)
	t.measureSettles(claim.Dispatched, settled, took)
}

// Stalled implements dispatch.Observer.
func (t *Telemetry) Stalled(time.Duration) {
	t.instruments.claimStalls.add(1)
}

// Settled implements dispatch.Observer.
func (t *Telemetry) Settled(began time.Time, verb claim.Verb, settled []int64, err error) {
	took := interval{began, time.Now()}
	t.failed("settle", err)
	if err == nil {
		t.instruments.settleDuration.record(took.seconds())
	}
	t.measureSettles(verb, settled, took)
}

// Renewed implements dispatch.Observer.
func (t *Telemetry) Renewed(err error) { t.failed("heartbeat", err) }

// Starting implements dispatch.Observer. If tracing is on, the workflow continues the dispatcher's span, which
// continues the enqueuer's.
func (t *Telemetry) Starting(request *claim.Item) (started func(runID string, outcome engine.Outcome, err error)) {
	one, began := t.heldItems.of(*request), time.Now()
	ended := t.heldItems.startSpans(one, request)
	return func(runID string, outcome engine.Outcome, err error) {
		t.instruments.startDuration.record(time.Since(began).Seconds())
		ended(runID, outcome, err)
		if outcome != engine.Started {
			t.instruments.startFailures.add(1, word(outcome.String()))
		}
		if one != nil {
			one.outcome = outcome
			if outcome == engine.Started {
				t.instruments.wait.record(one.due().Seconds())
				t.instruments.startableWait.record(one.startable().Seconds())
			}
		}
	}
}

// Fails implements dispatch.Observer.
func (t *Telemetry) Fails(item *claim.Item, outcome engine.Outcome) {
	if one := t.heldItems.of(*item); one != nil {
		one.outcome = outcome
	}
}

// Woken implements dispatch.Observer.
func (t *Telemetry) Woken(source string) {
	t.pulse.woken(source)
	t.instruments.wakeUps.add(1, source)
}

// Paused implements dispatch.Observer.
func (t *Telemetry) Paused(namespaces int, all bool, cause error) {
	t.pulse.pausedNow(namespaces, all, cause)
}

// BreakerOpen reports whether Temporal takes no workflows from this replica, as items or its own probes have shown.
func (t *Telemetry) BreakerOpen() bool {
	_, all := t.pulse.pauses()
	return all || t.Away != nil && t.Away()
}

// Lost implements dispatch.Observer.
func (t *Telemetry) Lost(itemID int64) {
	t.instruments.leaseLosses.add(1)
	t.heldItems.lost(itemID)
}

// Ended counts an end by the way it was found.
func (t *Telemetry) Ended(way string) { t.instruments.endsFound.add(1, way) }

// Callback counts a completion callback by its result.
func (t *Telemetry) Callback(result string) {
	t.instruments.callbacks.add(1, result)
}

// Swept implements sweeper.Sweeper's Saw.
func (t *Telemetry) Swept(swept sweeper.Swept, err error) {
	t.failed("sweep", err)
	t.instruments.itemsRecovered.add(swept.Requeued)
	t.instruments.itemsLate.add(swept.Late)
}

// Deleted implements sweeper.Retention's Deleted.
func (t *Telemetry) Deleted(deleted sweeper.Deleted, err error) {
	t.failed("delete", err)
	for kind, rows := range map[string]int{"items": deleted.Items, "dead_letters": deleted.DeadLetters,
		"executions": deleted.Executions} {
		t.instruments.deleted.add(rows, kind)
	}
}

// Finished counts a recorded end by its outcome, or the error of recording it. See complete.NewEnds.
func (t *Telemetry) Finished(outcome string, err error) {
	t.failed("finish", err)
	if err != nil {
		return
	}
	how := strings.ToLower(outcome)
	t.instruments.executionsEnded.add(1, how)
	if how != "completed" {
		t.instruments.itemsFailed.add(1, "workflow_"+how)
	}
}

// Signalled implements request.Signaler's Saw.
func (t *Telemetry) Signalled(outcome string, signals int, took time.Duration) {
	t.instruments.signals.add(signals, outcome)
	if outcome == "delivered" {
		t.instruments.signalWait.record(took.Seconds())
	}
}

// Coded implements temporal.Codec's Saw.
func (t *Telemetry) Coded(result string, took time.Duration) {
	t.instruments.codecRequests.add(1, result)
	t.instruments.codecDuration.record(took.Seconds())
}

// Adopted implements complete.Watcher's Adopted.
func (t *Telemetry) Adopted(executions int, err error) {
	t.failed("adopt", err)
	t.instruments.executionsAdopted.add(executions)
}

// failed counts a statement that failed, or notes that one was answered.
func (t *Telemetry) failed(operation string, err error) {
	switch {
	case err != nil:
		t.instruments.storeErrors.add(1, operation)
	case t.Answered != nil:
		t.Answered()
	}
}

// interval is the time between two instants.
type interval struct{ began, ended time.Time }

func (i interval) seconds() float64 { return i.ended.Sub(i.began).Seconds() }

// measureClaim measures a claim and begins to track its items.
func (t *Telemetry) measureClaim(took interval, batch claim.Batch, err error) {
	if !batch.Unsent {
		t.failed("claim", err)
	}
	t.instruments.workspacesAtCapacity.add(len(batch.AtCapacity))
	t.instruments.unannounced.add(batch.Unannounced)
	if err == nil && batch.Asked == 0 && len(batch.Items) == 0 {
		return
	}
	t.instruments.claimStatements.add(batch.Statements.Plain, "plain")
	t.instruments.claimStatements.add(batch.Statements.Declined, "declined")
	t.instruments.claimStatements.add(batch.Statements.Procedure, "procedure")
	t.instruments.claimEntries.add(batch.Asked)
	t.instruments.claimsVain.add(batch.Vain)
	result := "items"
	switch {
	case err != nil:
		if result = "error"; errors.Is(err, claim.ErrUncertain) {
			result = "uncertain"
		}
		if postgres.FailedToLock(err) || postgres.TookTooLong(err) {
			t.instruments.claimLockFailures.add(1)
		}
	case len(batch.Items) == 0:
		result = "empty"
	}
	t.instruments.claims.add(1, result)
	if err == nil {
		t.instruments.claimDuration.record(took.seconds())
	}
	if len(batch.Items) > 0 {
		t.instruments.claimBatchSize.record(float64(len(batch.Items)))
		t.heldItems.take(took, batch)
	}
}

// measureSettles measures the items that one statement settled and stops tracking them.
func (t *Telemetry) measureSettles(verb claim.Verb, ids []int64, took interval) {
	if len(ids) == 0 {
		return
	}
	t.instruments.settles.add(len(ids), string(verb))
	t.instruments.settleBatchSize.record(float64(len(ids)))
	if verb == claim.Dispatched {
		t.instruments.itemsDispatched.add(len(ids))
	}
	for _, id := range ids {
		t.heldItems.end(id, verb, took)
	}
}
