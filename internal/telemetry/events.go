package telemetry

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

// Claimed implements dispatch.Observer.
func (t *Telemetry) Claimed(began time.Time, batch claim.Batch, settled []int64, err error) {
	took := interval{began, time.Now()}
	t.claimed(took, batch, err)
	t.settled(claim.Dispatched, settled, took)
}

// Stalled implements dispatch.Observer.
func (t *Telemetry) Stalled(time.Duration) {
	t.instruments.count("pgdispatch_claim_stalls_total", 1, "")
}

// Settled implements dispatch.Observer.
func (t *Telemetry) Settled(began time.Time, verb claim.Verb, settled []int64, err error) {
	took := interval{began, time.Now()}
	t.failed("settle", err)
	if err == nil {
		t.instruments.record("pgdispatch_settle_duration_seconds", took.seconds())
	}
	t.settled(verb, settled, took)
}

// Renewed implements dispatch.Observer.
func (t *Telemetry) Renewed(err error) { t.failed("heartbeat", err) }

// Starting implements dispatch.Observer. If tracing is on, the workflow continues the dispatcher's span, which
// continues the enqueuer's.
func (t *Telemetry) Starting(request *claim.Item) (started func(runID, outcome string, err error)) {
	one, began := t.heldItems.of(*request), time.Now()
	ended := t.heldItems.startSpans(one, request)
	return func(runID, outcome string, err error) {
		t.instruments.record("pgdispatch_start_duration_seconds", time.Since(began).Seconds())
		outcome = word(outcome)
		ended(runID, outcome, err)
		if outcome != "started" {
			t.instruments.count("pgdispatch_start_failures_total", 1, outcome)
		}
		if one != nil {
			one.outcome = outcome
			if outcome == "started" {
				t.instruments.record("pgdispatch_wait_seconds", one.due().Seconds())
				t.instruments.record("pgdispatch_startable_wait_seconds", one.startable().Seconds())
			}
		}
	}
}

// Woken implements dispatch.Observer.
func (t *Telemetry) Woken(source string) {
	t.pulse.woken(source)
	t.instruments.count("pgdispatch_wakeups_total", 1, source)
}

// Paused implements dispatch.Observer.
func (t *Telemetry) Paused(namespaces int, all bool) { t.pulse.pausedNow(namespaces, all) }

// BreakerOpen reports whether Temporal takes no workflows from this replica, as items or its own probes have shown.
func (t *Telemetry) BreakerOpen() bool {
	_, all := t.pulse.pauses()
	return all || t.Away != nil && t.Away()
}

// Lost implements dispatch.Observer.
func (t *Telemetry) Lost(itemID int64) {
	t.instruments.count("pgdispatch_lease_losses_total", 1, "")
	t.heldItems.lost(itemID)
}

// Ended counts an end by the way it was found.
func (t *Telemetry) Ended(way string) { t.instruments.count("pgdispatch_ends_found_total", 1, way) }

// Callback counts a completion callback by its result.
func (t *Telemetry) Callback(result string) {
	t.instruments.count("pgdispatch_callbacks_total", 1, result)
}

// Swept implements sweeper.Sweeper's Saw.
func (t *Telemetry) Swept(swept sweeper.Swept, err error) {
	t.failed("sweep", err)
	t.instruments.count("pgdispatch_items_recovered_total", swept.Requeued, "")
}

// Deleted implements sweeper.Retention's Deleted.
func (t *Telemetry) Deleted(deleted sweeper.Deleted, err error) {
	t.failed("delete", err)
	for kind, rows := range map[string]int{"items": deleted.Items, "dead_letters": deleted.DeadLetters,
		"executions": deleted.Executions} {
		t.instruments.count("pgdispatch_deleted_total", rows, kind)
	}
}

// Finished counts a recorded end by its outcome, or the error of recording it. See complete.NewEnds.
func (t *Telemetry) Finished(outcome string, err error) {
	t.failed("finish", err)
	if err != nil {
		return
	}
	how := strings.ToLower(outcome)
	t.instruments.count("pgdispatch_executions_ended_total", 1, how)
	if how != "completed" {
		t.instruments.count("pgdispatch_items_failed_total", 1, "workflow_"+how)
	}
}

// Signalled implements request.Signaler's Saw.
func (t *Telemetry) Signalled(outcome string, signals int, took time.Duration) {
	t.instruments.count("pgdispatch_signals_total", signals, outcome)
	if outcome == "delivered" {
		t.instruments.record("pgdispatch_signal_seconds", took.Seconds())
	}
}

// Adopted implements complete.Watcher's Adopted.
func (t *Telemetry) Adopted(executions int, err error) {
	t.failed("adopt", err)
	t.instruments.count("pgdispatch_executions_adopted_total", executions, "")
}

// failed counts a statement that failed, or notes that one was answered.
func (t *Telemetry) failed(operation string, err error) {
	switch {
	case err != nil:
		t.instruments.count("pgdispatch_store_errors_total", 1, operation)
	case t.Answered != nil:
		t.Answered()
	}
}

// interval is the time between two instants.
type interval struct{ began, ended time.Time }

func (i interval) seconds() float64 { return i.ended.Sub(i.began).Seconds() }

// claimed measures a claim and begins to track its items.
func (t *Telemetry) claimed(took interval, batch claim.Batch, err error) {
	t.failed("claim", err)
	t.instruments.count("pgdispatch_workspaces_at_capacity_total", len(batch.AtCapacity), "")
	t.instruments.count("pgdispatch_unannounced_total", batch.Unannounced, "")
	if err == nil && batch.Asked == 0 && len(batch.Items) == 0 {
		return
	}
	t.instruments.count("pgdispatch_claim_statements_total", batch.Statements.Single, "single")
	t.instruments.count("pgdispatch_claim_statements_total", batch.Statements.Declined, "declined")
	t.instruments.count("pgdispatch_claim_statements_total", batch.Statements.Procedure, "procedure")
	t.instruments.count("pgdispatch_claim_entries_total", batch.Asked, "")
	t.instruments.count("pgdispatch_claims_vain_total", batch.Vain, "")
	result := "items"
	switch {
	case err != nil:
		result = "error"
		if isLockFailure(err) {
			t.instruments.count("pgdispatch_claim_lock_failures_total", 1, "")
		}
	case len(batch.Items) == 0:
		result = "empty"
	}
	t.instruments.count("pgdispatch_claims_total", 1, result)
	if err == nil {
		t.instruments.record("pgdispatch_claim_duration_seconds", took.seconds())
	}
	if len(batch.Items) > 0 {
		t.instruments.record("pgdispatch_claim_batch_size", float64(len(batch.Items)))
		t.heldItems.take(took, batch)
	}
}

// isLockFailure reports whether a claim failed on the claim lock: Postgres cancelled it, or the claim timed out.
func isLockFailure(err error) bool {
	var postgres *pgconn.PgError
	if errors.As(err, &postgres) {
		switch postgres.Code {
		case "55P03", "57014", "40P01": // lock_not_available, query_canceled, deadlock_detected
			return true
		}
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// settled measures the items that one statement settled and stops tracking them.
func (t *Telemetry) settled(verb claim.Verb, ids []int64, took interval) {
	if len(ids) == 0 {
		return
	}
	t.instruments.count("pgdispatch_settles_total", len(ids), string(verb))
	t.instruments.record("pgdispatch_settle_batch_size", float64(len(ids)))
	if verb == claim.Dispatched {
		t.instruments.count("pgdispatch_items_dispatched_total", len(ids), "")
	}
	for _, id := range ids {
		t.heldItems.end(id, verb, took)
	}
}
