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
)

const (
	// settleBase and settleCap bound the pauses between tries to settle while the database does not answer.
	settleBase = 20 * time.Millisecond
	settleCap  = time.Second
	// settlePatience is how long the next batch waits for the one before it, which may meet a row that somebody keeps locked.
	settlePatience = claim.ClaimLockTimeout
	// settleBatches is how many batches are under way at the most: heartbeats and ends need connections, too.
	settleBatches = 3
)

// settler settles what no claim takes with it. While one statement is under way, what the workers end meanwhile collects and
// goes into the next: a busy replica settles in batches, and an idle one waits for nothing. One that takes long is not waited for.
type settler struct {
	store    Store
	lease    time.Duration
	log      *slog.Logger
	requests chan settleRequest
}

type settleRequest struct {
	claim.Settlement
	// done is told what came of it, and must not block.
	done func(error)
}

// settle ends a claim and waits for it. It returns claim.ErrLost where the lease was lost, and another error where the database could not
// be asked for as long as the lease may last: then it is not known whether the claim is ended, and its expiry will end it.
func (s *settler) settle(settlement claim.Settlement) error {
	done := make(chan error, 1)
	s.requests <- settleRequest{settlement, func(err error) { done <- err }}
	return <-done
}

// run settles until requests is closed and all that came is settled.
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
	_ = batches.Wait() // they return no errors
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

// persist asks again while the database does not answer. An answer that was lost may have been a success: then the next
// try moves nothing and the items are reported as lost, which is what their owner must assume.
func (s *settler) persist(ctx context.Context, verb claim.Verb, settlements []claim.Settlement) ([]int64, error) {
	var settled []int64
	var last error
	backoff := retry.WithMaxDuration(s.lease, newBackoff(settleBase, settleCap))
	err := retry.Do(ctx, backoff, func(ctx context.Context) error {
		if panicked := contained(s.log, "settler", func() { settled, last = s.store.Settle(ctx, verb, settlements) }); panicked != nil {
			settled, last = nil, panicked // like no answer
		}
		if claim.IsRefused(last) {
			return last // the others are settled
		}
		return retry.RetryableError(last)
	})
	if err != nil && last != nil && !errors.Is(err, last) {
		// A cancelled Do returns the cancellation only.
		err = fmt.Errorf("%w: %w", err, last)
	}
	return settled, err
}
