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

type settleRequest struct {
	claim.Settlement
	// done is called with the result and must not block.
	done func(error)
}

// settle ends a claim and waits for the result. It returns claim.ErrLost if the lease was lost. Any other error means
// that the database could not be asked for as long as the lease may last: the claim may or may not have ended, and
// otherwise ends by lease expiry.
func (s *settler) settle(settlement claim.Settlement) error {
	done := make(chan error, 1)
	s.requests <- settleRequest{settlement, func(err error) { done <- err }}
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
	settled, err := s.persist(ctx, verb, settlements)
	for _, request := range requests {
		switch {
		case slices.Contains(settled, request.ID):
			request.done(nil)
		case err != nil:
			request.done(err)
		default:
			request.done(claim.ErrLost)
		}
	}
}

// persist retries while the database does not answer. If a lost answer was a success, the retry changes nothing and
// reports the items as lost, which is what their owner must assume.
func (s *settler) persist(ctx context.Context, verb claim.Verb, settlements []claim.Settlement) ([]int64, error) {
	var settled []int64
	var last error
	backoff := retry.WithMaxDuration(s.lease, newBackoff(settleBase, settleCap))
	err := retry.Do(ctx, backoff, func(ctx context.Context) error {
		if panicked := contained(s.log, "settler", func() {
			began := time.Now()
			settled, last = s.store.Settle(ctx, verb, settlements)
			s.observer.Settled(began, verb, settled, last)
		}); panicked != nil {
			settled, last = nil, panicked // treated as no answer
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
	return settled, err
}
