// Package sweeper is the safety net: it requeues items whose owner died and collects what other components have to do.
// It also deletes finished items.
package sweeper

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/pgdispatch/pgdispatch/notify"
)

// Store is the part of the store that the sweeper needs.
type Store interface {
	Sweep(ctx context.Context, atMost int) (Swept, error)
	QueueHolder(ctx context.Context) (*notify.Holder, error)
}

const (
	// batch is how many expired leases one statement requeues.
	batch = 500
	// maxJitter spreads the sweeps of replicas that wait for the same lease to expire.
	maxJitter = 100 * time.Millisecond
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
	// Interval is the maximum time between sweeps. If a lease expires earlier, the next sweep waits only for that.
	Interval time.Duration
	// Lease is the duration of leases, for the log.
	Lease time.Duration
	// Found is called when a sweep has requeued items. It must not block. If nil, nothing is reported.
	Found func()
	// Saw is called after each sweep with its result, so that other components need not query. It must not block. If
	// nil, nothing is reported.
	Saw func(Swept, error)
	Log *slog.Logger

	clock  clock
	fullAt time.Time // since when the notification queue has been filling; zero if it is not
	saidAt time.Time // when that was last logged
}

// Run sweeps until ctx is cancelled and returns nil then. A database error is logged and the sweep is retried.
func (s *Sweeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(s.sweep(ctx)):
		}
	}
	return nil
}

// sweep sweeps until nothing is left to requeue, and returns the time until the next sweep.
func (s *Sweeper) sweep(ctx context.Context) time.Duration {
	requeued, pause := 0, s.Interval
	for more := true; more; {
		sent := time.Now()
		swept, err := s.Store.Sweep(ctx, batch)
		if err != nil && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "Cannot sweep", "error", err)
		}
		if s.Saw != nil {
			s.Saw(swept, err)
		}
		if err == nil {
			s.watchQueue(ctx, swept.NotifyQueue)
		}
		requeued += swept.Requeued
		s.watchClock(ctx, swept, sent)
		if swept.NextExpiryIn != nil {
			pause = min(*swept.NextExpiryIn+rand.N(maxJitter), s.Interval)
		}
		more = err == nil && swept.Requeued == batch
	}
	if requeued > 0 {
		s.Log.WarnContext(ctx, "Recovering stale queue items", "count", requeued, "timeout", s.Lease.String())
		s.Log.InfoContext(ctx, "Recovered stale queue items", "recovered_count", requeued)
	}
	if s.Found != nil && requeued > 0 {
		s.Found()
	}
	return pause
}

// watchClock logs what a sweep that was sent at sent reveals about the database's clock.
func (s *Sweeper) watchClock(ctx context.Context, swept Swept, sent time.Time) {
	if jumped := s.clock.read(swept.Now, sent, time.Now()); jumped != 0 {
		s.Log.ErrorContext(ctx, "Database clock jumped; leases, run_at and rate limits depend on it", "jumped_ms",
			jumped.Milliseconds())
	}
	if swept.Shortened > 0 {
		s.Log.WarnContext(ctx, "Shortened leases because the database clock was set back", "leases", swept.Shortened)
	}
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
