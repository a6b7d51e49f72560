package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/sethvargo/go-retry"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

const (
	// settleBase and settleCap bound the backoff between attempts to settle while the database does not answer.
	settleBase = 20 * time.Millisecond
	settleCap  = time.Second
	// settlePatience is how long the next batch waits for the previous one, which may wait for a row lock.
	settlePatience = claim.ClaimLockTimeout
	// settleBatches is the maximum number of concurrent batches: heartbeats and the ends of executions need
	// connections, too.
	settleBatches = 3
)

// settler settles the claims that no claim statement settles. Requests that arrive while one batch runs form the next:
// a busy replica settles in batches, and an idle one settles at once. A slow batch delays the next by settlePatience at
// most.
type settler struct {
	store    Store
	observer Observer
	lease    time.Duration
	log      *slog.Logger
	requests chan settleRequest
}

// errUnconfirmed is an ErrLost of a settle that was repeated because it had got no answer.
var errUnconfirmed = fmt.Errorf("%w, or settled by a statement that got no answer", claim.ErrLost)

type settleRequest struct {
	claim.Settlement
	// repeated means that a claim with this settle got no answer.
	repeated bool
	// done is called with the result and must not block.
	done func(error)
}

// settle ends a claim and waits for the result. It returns claim.ErrLost if the lease was lost. Any other error means
// that the database did not answer for as long as the lease may last. The claim may have ended; if not, it ends by
// lease expiry.
func (s *settler) settle(settlement claim.Settlement) error {
	done := make(chan error, 1)
	s.requests <- settleRequest{settlement, false, func(err error) { done <- err }}
	return <-done
}

// run settles until requests is closed and all requests are settled.
func (s *settler) run(ctx context.Context) {
	var batches errgroup.Group
	batches.SetLimit(settleBatches)
	for first := range s.requests {
		batch, settled := s.collect(first), make(chan struct{})
		batches.Go(func() error {
			defer close(settled)
			for _, verb := range []claim.Verb{claim.Dispatched, claim.Retry, claim.Release, claim.Fail} {
				s.settleBatch(ctx, verb, batch)
			}
			return nil
		})
		patience := time.NewTimer(settlePatience)
		select {
		case <-settled:
		case <-patience.C:
		}
		patience.Stop()
	}
	_ = batches.Wait() // always nil
}

func (s *settler) collect(first settleRequest) []settleRequest {
	batch := []settleRequest{first}
	for {
		select {
		case request, ok := <-s.requests:
			if !ok {
				return batch
			}
			batch = append(batch, request)
		default:
			return batch
		}
	}
}

func (s *settler) settleBatch(ctx context.Context, verb claim.Verb, requests []settleRequest) {
	requests = slices.DeleteFunc(slices.Clone(requests), func(r settleRequest) bool { return r.Verb != verb })
	if len(requests) == 0 {
		return
	}
	settlements := make([]claim.Settlement, len(requests))
	for n, request := range requests {
		settlements[n] = request.Settlement
	}
	settled, repeated, err := s.persist(ctx, verb, settlements)
	for _, request := range requests {
		switch {
		case slices.Contains(settled, request.ID):
			request.done(nil)
		case err != nil:
			request.done(err)
		case repeated || request.repeated:
			request.done(errUnconfirmed)
		default:
			request.done(claim.ErrLost)
		}
	}
}

// persist retries while the database does not answer, and returns what any of its tries has settled and whether there
// were several. If a lost answer was a success, the retry changes nothing and reports the items as lost, which is what
// their owner must assume.
func (s *settler) persist(ctx context.Context, verb claim.Verb, settlements []claim.Settlement) (settled []int64,
	repeated bool, err error) {
	var last error
	backoff := retry.WithMaxDuration(s.lease, attempt.Backoff(settleBase, settleCap))
	err = retry.Do(ctx, backoff, func(ctx context.Context) error {
		repeated = last != nil
		if panicked := contained(s.log, "settler", func() {
			began := time.Now()
			var now []int64
			now, last = s.store.Settle(ctx, verb, settlements)
			settled = append(settled, now...)
			s.observer.Settled(began, verb, now, last)
		}); panicked != nil {
			last = panicked // treated as no answer
		}
		if postgres.IsRefused(last) {
			return last // the others are settled
		}
		return retry.RetryableError(last)
	})
	if err != nil && last != nil && !errors.Is(err, last) {
		// Do returns only ctx's error after a cancellation.
		err = fmt.Errorf("%w: %w", err, last)
	}
	return settled, repeated, err
}

// started is a dispatch whose workflow runs and whose claim has not ended yet. Its worker is free for another item. The
// lease is renewed until the claim ends.
type started struct {
	claim.Settlement
	item  *claim.Item
	lease *lease
}

// settleGather is how long a started item waits for others that are settled in the same statement.
const settleGather = 10 * time.Millisecond

// gathers reports whether started items wait for others, to be settled together by a statement of their own. They do
// not wait if more than half of the workers are busy: the next claim then settles them first, because it needs their
// leases. Nor do they if W is nearly used up: the settler then settles them at once, because other replicas need the
// leases.
func (r *run) gathers() bool { return len(r.started) > 0 && r.roomy && 2*r.idle >= r.Workers }

// gathersUntil returns when started items stop waiting for others; zero if they do not wait.
func (r *run) gathersUntil() time.Time {
	if r.gathers() {
		return r.settleAt
	}
	return time.Time{}
}

// freeWorkers returns how many items a claim may take now.
func (r *run) freeWorkers() int {
	if r.gathers() {
		return r.idle
	}
	return r.idle + len(r.started)
}

func (r *run) settlements() []claim.Settlement {
	all := make([]claim.Settlement, len(r.started))
	for n, s := range r.started {
		all[n] = s.Settlement
	}
	return all
}

// endStarted records which started items a claim has settled. Those missing from settled were lost.
func (r *run) endStarted(settled []int64) {
	ended := make(map[int64]bool, len(settled))
	for _, id := range settled {
		ended[id] = true
	}
	for _, s := range r.started {
		var err error
		if !ended[s.ID] {
			err = claim.ErrLost
		}
		r.end(s, err)
		r.idle++
	}
	r.started = r.started[:0]
}

// settleStarted passes to the settler what no claim is about to settle. repeated means that a claim with it got no
// answer.
func (r *run) settleStarted(repeated bool) {
	for _, s := range r.started {
		r.settler.requests <- settleRequest{s.Settlement, repeated, func(err error) {
			r.end(s, err)
			r.outcomes <- result{outcome: engine.Started}
		}}
	}
	r.started = r.started[:0]
}

func (r *run) end(s *started, err error) {
	r.held.release(s.lease)
	switch {
	case err != nil:
		r.lost(s.item, s.Verb, err)
	case r.Dispatched != nil:
		_ = contained(r.Log, "report of a dispatched execution", func() {
			r.Dispatched(s.item, s.RunID)
		})
	}
}

// drain waits for dispatches in progress once claiming has stopped, and passes their claims to the settler. It keeps no
// counts, so it ends regardless of the claim loop's state.
func (r *run) drain(workers *errgroup.Group) {
	ended := make(chan struct{})
	go func() {
		_ = workers.Wait() // always nil
		close(ended)
	}()
	for under := true; under; {
		r.settleStarted(false)
		select {
		case done := <-r.outcomes:
			r.keep(done)
		case <-ended:
			under = false
		}
	}
	for {
		select {
		case done := <-r.outcomes:
			r.keep(done)
		default:
			r.settleStarted(false)
			return
		}
	}
}

// keep keeps a started item until it is settled. It reports whether there is one.
func (r *run) keep(done result) bool {
	if done.started != nil {
		if len(r.started) == 0 {
			r.settleAt = time.Now().Add(settleGather)
		}
		if done.started.item.Awaited {
			r.settleAt = time.Now() // its end is watched from then on
		}
		r.started = append(r.started, done.started)
	}
	return done.started != nil
}
