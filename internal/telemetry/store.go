package telemetry

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/claim"
)

// store lists the measured methods of claim.Store.
type store interface {
	SettleAndClaim(ctx context.Context, started []claim.Settlement, wanted claim.Wanted) (claim.Batch, []int64, error)
	Heartbeat(ctx context.Context, held []claim.Held) ([]int64, error)
	Settle(ctx context.Context, verb claim.Verb, batch []claim.Settlement) ([]int64, error)
	Sweep(ctx context.Context, atMost int) (claim.Swept, error)
	Finish(ctx context.Context, executionID, outcome, reason, result string) (bool, error)
	FinishAll(ctx context.Context, ends []claim.Ended) (map[string]bool, error)
	Adopt(ctx context.Context, atMost int, watching []string) ([]claim.Execution, error)
	DeleteFinished(ctx context.Context, atMost int) (claim.Deleted, error)
}

// Store measures a claim.Store. It returns the results of the wrapped store unchanged.
type Store struct {
	*claim.Store // serves the methods that are not measured
	inner        store
	t            *Telemetry
}

// SettleAndClaim measures claim.Store.SettleAndClaim.
func (s *Store) SettleAndClaim(ctx context.Context, started []claim.Settlement, wanted claim.Wanted) (claim.Batch, []int64, error) {
	began := time.Now()
	batch, settled, err := s.inner.SettleAndClaim(ctx, started, wanted)
	s.t.claimed(interval{began, time.Now()}, batch, err)
	s.t.settled(claim.Dispatched, settled, interval{began, time.Now()})
	return batch, settled, err
}

// Settle measures claim.Store.Settle.
func (s *Store) Settle(ctx context.Context, verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
	began := time.Now()
	settled, err := s.inner.Settle(ctx, verb, batch)
	s.t.failed("settle", err)
	if err == nil {
		s.t.instruments.record("pgdispatch_settle_duration_seconds", time.Since(began).Seconds())
	}
	s.t.settled(verb, settled, interval{began, time.Now()})
	return settled, err
}

// Heartbeat measures claim.Store.Heartbeat.
func (s *Store) Heartbeat(ctx context.Context, held []claim.Held) ([]int64, error) {
	renewed, err := s.inner.Heartbeat(ctx, held)
	s.t.failed("heartbeat", err)
	return renewed, err
}

// Sweep measures claim.Store.Sweep.
func (s *Store) Sweep(ctx context.Context, atMost int) (claim.Swept, error) {
	swept, err := s.inner.Sweep(ctx, atMost)
	s.t.failed("sweep", err)
	s.t.instruments.count("queue_stale_recovery_count", swept.Requeued, "")
	return swept, err
}

// Finish measures claim.Store.Finish.
func (s *Store) Finish(ctx context.Context, executionID, outcome, reason, result string) (bool, error) {
	first, err := s.inner.Finish(ctx, executionID, outcome, reason, result)
	s.t.failed("finish", err)
	if first {
		s.t.ended(outcome)
	}
	return first, err
}

// FinishAll measures claim.Store.FinishAll.
func (s *Store) FinishAll(ctx context.Context, ends []claim.Ended) (map[string]bool, error) {
	first, err := s.inner.FinishAll(ctx, ends)
	s.t.failed("finish", err)
	for _, end := range ends {
		if first[end.ExecutionID] {
			s.t.ended(end.Outcome)
		}
	}
	return first, err
}

// ended counts an execution's end by its outcome.
func (t *Telemetry) ended(outcome string) {
	how := strings.ToLower(outcome)
	t.instruments.count("pgdispatch_executions_ended_total", 1, how)
	if how != "completed" {
		t.instruments.count("queue_items_failed_total", 1, "workflow_"+how)
	}
}

// Adopt measures claim.Store.Adopt.
func (s *Store) Adopt(ctx context.Context, atMost int, watching []string) ([]claim.Execution, error) {
	adopted, err := s.inner.Adopt(ctx, atMost, watching)
	s.t.failed("adopt", err)
	s.t.instruments.count("pgdispatch_executions_adopted_total", len(adopted), "")
	return adopted, err
}

// DeleteFinished measures claim.Store.DeleteFinished.
func (s *Store) DeleteFinished(ctx context.Context, atMost int) (claim.Deleted, error) {
	deleted, err := s.inner.DeleteFinished(ctx, atMost)
	s.t.failed("delete", err)
	for kind, rows := range map[string]int{"items": deleted.Items, "dead_letters": deleted.DeadLetters, "executions": deleted.Executions} {
		s.t.instruments.count("pgdispatch_deleted_total", rows, kind)
	}
	return deleted, err
}

// failed counts a statement that failed.
func (t *Telemetry) failed(operation string, err error) {
	if err != nil {
		t.instruments.count("pgdispatch_store_errors_total", 1, operation)
	}
}

// interval is the time between two instants.
type interval struct{ began, ended time.Time }

func (i interval) seconds() float64 { return i.ended.Sub(i.began).Seconds() }

// claimed measures a claim and begins to track its items.
func (t *Telemetry) claimed(took interval, batch claim.Batch, err error) {
	t.failed("claim", err)
	t.instruments.count("queue_items_at_capacity_total", len(batch.AtCapacity), "")
	t.instruments.count("pgdispatch_unannounced_total", batch.Unannounced, "")
	if err == nil && batch.Asked == 0 && len(batch.Items) == 0 {
		return
	}
	t.instruments.count("pgdispatch_claim_entries_total", batch.Asked, "")
	t.instruments.count("pgdispatch_claims_vain_total", batch.Vain, "")
	result := "items"
	switch {
	case err != nil:
		result = "error"
		if isLockFailure(err) {
			t.instruments.count("claim_lock_acquisition_failures", 1, "")
		}
	case len(batch.Items) == 0:
		result = "empty"
	}
	t.instruments.count("pgdispatch_claims_total", 1, result)
	if err == nil {
		t.instruments.record("pgdispatch_claim_duration_seconds", took.seconds())
	}
	if len(batch.Items) > 0 {
		t.instruments.record("queue_processing_batch_size", float64(len(batch.Items)))
		t.hands.take(took, batch)
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
		t.instruments.count("queue_items_dispatched_total", len(ids), "")
	}
	for _, id := range ids {
		t.hands.end(id, verb, took)
	}
}
