// Package sweeper is the safety net: it requeues items whose owner died, cancels those that were to start earlier, and
// collects what other components have to do. It also deletes finished items, and detects executions that make no
// progress.
package sweeper

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/notify"
)

// Store is the part of the store that the sweeper needs.
type Store interface {
	Sweep(ctx context.Context, atMost int) (Swept, error)
	Housekeep(ctx context.Context) (map[string]string, error)
	BringBack(ctx context.Context, atMost int) (Brought, error)
	QueueHolder(ctx context.Context) (*notify.Holder, error)
}

const (
	// batch is how many expired leases one statement requeues.
	batch = 500
	// bringBatch is how many stored times of each kind one statement brings back. Each reads all items that are not due.
	bringBatch = 2000
	// maxJitter spreads the sweeps of replicas that wait for the same lease to expire.
	maxJitter = 100 * time.Millisecond
	// wakePause is the least time between two sweeps that Wake asks for.
	wakePause = 200 * time.Millisecond
	// sayAgain is how often a filling notification queue is logged.
	sayAgain = time.Minute
)

// Sweeper requeues items whose lease has expired. Every replica runs one. There is no leader, because a sweep changes
// nothing that another sweep has already done.
//
// Requeueing depends on time only. A live owner that could not renew its lease learns that the lease is lost. If it has
// started the workflow by then, Temporal reports that to the next claimant.
type Sweeper struct {
	Store Store
	// Interval is the maximum time between sweeps. If a lease or an item's start_before expires earlier, the next sweep
	// waits only for that.
	Interval time.Duration
	// Lease is the duration of leases, for the log.
	Lease time.Duration
	// Wake asks for a sweep now, or wakePause after the last one. If nil, only Interval and leases do.
	Wake <-chan struct{}
	// Found is called when a sweep has requeued items or brought back stored times. It must not block. If nil, nothing
	// is reported.
	Found func()
	// Saw is called after each sweep with its result, so that other components need not query. It must not block. If
	// nil, nothing is reported.
	Saw func(Swept, error)
	// Failing is called after the last sweep in a row, with the parts of the upkeep that failed and their errors. It must
	// not block. If nil, nothing is reported.
	Failing func(map[string]string)
	Log     *slog.Logger

	clock postgres.Clock
	// bringAt says when to bring back stored times: once all transactions with a lower ID have ended. Zero means at the
	// next sweep. It is zero at first, because the clock may have been set back while no replica was running.
	bringAt int64
	epoch   string    // of the last sweep
	fullAt  time.Time // since when the notification queue has been filling; zero if it is not
	saidAt  time.Time // when that was last logged
	failing map[string]string
}

// The parts of the upkeep. One that fails holds up no other.
const (
	PartSweep        = "sweep"        // the sweep as a whole
	PartLeases       = "leases"       // expired leases are requeued
	PartStartBefore  = "start_before" // late items are cancelled
	PartWatches      = "watches"      // unwatched executions are taken over
	PartClock        = "clock"        // stored times are brought back
	PartHousekeeping = "housekeeping" // the housekeeping as a whole
)

// Parts returns the names of all parts, in two lists: what recovers items and executions, and the housekeeping that
// nobody waits for.
func Parts() (recovery, housekeeping []string) {
	return []string{PartSweep, PartLeases, PartStartBefore, PartWatches, PartClock},
		[]string{PartHousekeeping, "marks", "depth", "limits", "activity", "start_tries", "missing_executions"}
}

// Run sweeps until ctx is cancelled and returns nil then. A database error is logged and the sweep is retried.
func (s *Sweeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		next := s.sweep(ctx)
		swept := time.Now()
		select {
		case <-ctx.Done():
		case <-s.Wake:
			pause(ctx, wakePause-time.Since(swept))
		case <-time.After(next):
		}
	}
	return nil
}

// sweep sweeps until nothing is left to requeue or cancel, and returns the time until the next sweep.
func (s *Sweeper) sweep(ctx context.Context) time.Duration {
	requeued, late, pause, housework := 0, 0, s.Interval, false
	failing := map[string]string{}
	for more := true; more; {
		sent := time.Now()
		swept, err := s.Store.Sweep(ctx, batch)
		if err != nil && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "Cannot sweep", "error", err)
			failing[PartSweep] = postgres.Redact(err).Error()
		}
		maps.Copy(failing, swept.Failing)
		housework = housework || swept.Housework
		if s.Saw != nil {
			s.Saw(swept, err)
		}
		if err == nil {
			s.watchQueue(ctx, swept.NotifyQueue)
		}
		requeued, late = requeued+swept.Requeued, late+swept.Late
		s.watchClock(ctx, swept.Now, sent)
		if err == nil && swept.Epoch != s.epoch { // a failover may have forgotten what was brought back
			s.epoch, s.bringAt = swept.Epoch, 0
		}
		brought := err == nil && s.bringBack(ctx, swept.OldestOpen, failing)
		if swept.NextExpiryIn != nil {
			pause = min(*swept.NextExpiryIn+rand.N(maxJitter), s.Interval)
		}
		more = err == nil && (swept.Requeued == batch || swept.Late > 0) || brought
	}
	if requeued > 0 {
		s.Log.WarnContext(ctx, "Recovering stale queue items", "count", requeued, "timeout", s.Lease.String())
		s.Log.InfoContext(ctx, "Recovered stale queue items", "recovered_count", requeued)
	}
	if late > 0 {
		s.Log.WarnContext(ctx, "Cancelled items that were not claimed before their start_before", "count", late)
	}
	if s.Found != nil && requeued > 0 {
		s.Found()
	}
	if housework {
		s.keepHouse(ctx, failing)
	}
	s.report(ctx, failing)
	return pause
}

// keepHouse does what nobody waits for, after all that somebody waits for, and adds what failed to failing.
func (s *Sweeper) keepHouse(ctx context.Context, failing map[string]string) {
	failed, err := s.Store.Housekeep(ctx)
	if err != nil && !postgres.IsUnavailable(err) { // an outage is logged as one
		failing[PartHousekeeping] = postgres.Redact(err).Error()
	}
	maps.Copy(failing, failed)
}

// report logs the parts that have begun to fail, or work again, and reports those that fail.
func (s *Sweeper) report(ctx context.Context, failing map[string]string) {
	if ctx.Err() != nil {
		return
	}
	logged := func(part string) bool { return part == PartSweep || part == PartClock }
	for _, part := range slices.Sorted(maps.Keys(failing)) {
		if _, known := s.failing[part]; !known && !logged(part) {
			s.Log.ErrorContext(ctx, "Part of the upkeep fails", "part", part, "error", failing[part])
		}
	}
	for _, part := range slices.Sorted(maps.Keys(s.failing)) {
		if _, still := failing[part]; !still && !logged(part) {
			s.Log.InfoContext(ctx, "Part of the upkeep works again", "part", part)
		}
	}
	s.failing = failing
	if s.Failing != nil {
		s.Failing(failing)
	}
}

// watchClock takes the database's time from a sweep that was sent at sent.
func (s *Sweeper) watchClock(ctx context.Context, database, sent time.Time) {
	if jumped := s.clock.Read(database, sent, time.Now()); jumped != 0 {
		s.Log.ErrorContext(ctx, "Database clock jumped; leases, run_at and rate limits depend on it", "jumped_ms",
			jumped.Milliseconds())
		s.bringAt = 0
	}
}

// bringBack brings back stored times if that is due, and reports whether there were any. It does so twice, and until
// there are none: transactions that are open may yet store times from before the clock was set back, or lock rows.
func (s *Sweeper) bringBack(ctx context.Context, oldestOpen int64, failing map[string]string) bool {
	if oldestOpen < s.bringAt {
		return false
	}
	var brought Brought
	times := 0
	for brought.More = true; brought.More; times += brought.Times {
		var err error
		if brought, err = s.Store.BringBack(ctx, bringBatch); err != nil {
			if ctx.Err() == nil {
				s.Log.ErrorContext(ctx, "Cannot bring back stored times", "error", err)
				failing[PartClock] = postgres.Redact(err).Error()
			}
			return false
		}
	}
	if s.bringAt == 0 || times > 0 {
		s.bringAt = max(brought.OpenTo, 1)
	} else {
		s.bringAt = math.MaxInt64
	}
	if times == 0 {
		return false
	}
	s.Log.WarnContext(ctx, "Brought back stored times because the database clock was set back", "times", times)
	if s.Found != nil {
		s.Found()
	}
	return true
}

// watchQueue logs when the cluster's notification queue fills, with the session that may hold it, and when it has room
// again.
func (s *Sweeper) watchQueue(ctx context.Context, usage float64) {
	now := time.Now()
	switch {
	case usage < notify.QueueBound && !s.fullAt.IsZero():
		s.Log.InfoContext(ctx, "Postgres notification queue has room again", "after_ms", now.Sub(s.fullAt).Milliseconds())
		s.fullAt = time.Time{}
	case usage >= notify.QueueBound && (s.fullAt.IsZero() || now.Sub(s.saidAt) >= sayAgain):
		if s.fullAt.IsZero() {
			s.fullAt = now
		}
		s.saidAt = now
		session := "unknown; as an administrator, run `" + notify.FindHolder + "`"
		if holder, err := s.Store.QueueHolder(ctx); err == nil && holder != nil {
			session = holder.String()
		}
		s.Log.WarnContext(ctx,
			"Postgres notification queue is filling up; polling until it is drained. Terminate the session that holds it",
			"percent", int(usage*100), "session", session)
	}
}
