// Package sweeper is the safety net: it gives items whose owner died back to the queue, and sees what there is to do for others. It also
// deletes what is over.
package sweeper

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Store is the part of the store that the sweeper needs.
type Store interface {
	Sweep(ctx context.Context, atMost int) (claim.Swept, error)
	NotifyHolder(ctx context.Context) (*claim.Holder, error)
}

const (
	// batch is how many expired leases one statement requeues.
	batch = 500
	// maxJitter spreads the sweeps of several replicas that wait for the same lease to run out.
	maxJitter = 100 * time.Millisecond
	// sayAgain is how often a notification queue that fills is logged.
	sayAgain = time.Minute
)

// Sweeper sweeps. Every replica has one; none of them is the leader, because a sweep that finds its work done by another
// does nothing.
//
// It requeues purely by time: an owner that lives and could not renew its lease is told that it is lost, and if it has
// started the workflow by then, whoever claims the item next is told so by Temporal.
type Sweeper struct {
	Store Store
	// Interval is how long there is between sweeps at the most. A lease that runs out before is waited for.
	Interval time.Duration
	// Lease is how long leases hold, for the log.
	Lease time.Duration
	// Found is called when a sweep put items back; it must not block. Nil: nobody is told.
	Found func()
	// Saw is called after each sweep with what it returned, so that others need not look themselves; it must not block. Nil:
	// nobody is told.
	Saw func(claim.Swept)
	Log *slog.Logger

	clock  clock
	fullAt time.Time // since when the notification queue fills; zero: it does not
	saidAt time.Time // when that was logged last
}

// Run sweeps until ctx is cancelled, and returns nil then. An error of the database is logged and the sweep repeated.
func (s *Sweeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(s.sweep(ctx)):
		}
	}
	return nil
}

// sweep sweeps until it finds no more, and returns how long to wait for the next time.
func (s *Sweeper) sweep(ctx context.Context) time.Duration {
	requeued, pause := 0, s.Interval
	for more := true; more; {
		sent := time.Now()
		swept, err := s.Store.Sweep(ctx, batch)
		if err != nil && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "Cannot sweep", "error", err)
		}
		if err == nil && s.Saw != nil {
			s.Saw(swept)
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

// watchClock says what a sweep that was sent at sent found out about the database's clock.
func (s *Sweeper) watchClock(ctx context.Context, swept claim.Swept, sent time.Time) {
	if jumped := s.clock.read(swept.Now, sent, time.Now()); jumped != 0 {
		s.Log.ErrorContext(ctx, "The database's clock jumped: leases, run_at and rate limits go by it", "jumped_ms", jumped.Milliseconds())
	}
	if swept.Shortened > 0 {
		s.Log.WarnContext(ctx, "Shortened leases from before the database's clock was set back", "leases", swept.Shortened)
	}
}

// watchQueue says when the notification queue of the cluster fills, with the session that may be why, and when that is over.
func (s *Sweeper) watchQueue(ctx context.Context, usage float64) {
	now := time.Now()
	switch {
	case usage < claim.NotifyBound && !s.fullAt.IsZero():
		s.Log.InfoContext(ctx, "The notification queue of Postgres has room again", "after_ms", now.Sub(s.fullAt).Milliseconds())
		s.fullAt = time.Time{}
	case usage >= claim.NotifyBound && (s.fullAt.IsZero() || now.Sub(s.saidAt) >= sayAgain):
		if s.fullAt.IsZero() {
			s.fullAt = now
		}
		s.saidAt = now
		session := "unknown"
		if holder, err := s.Store.NotifyHolder(ctx); err == nil && holder != nil {
			session = holder.String()
		}
		s.Log.WarnContext(ctx, "The notification queue of Postgres fills: wake-ups come from the poll until it is emptied. End the session that holds it",
			"percent", int(usage*100), "session", session)
	}
}
