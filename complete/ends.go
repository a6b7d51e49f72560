package complete

import (
	"context"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

const (
	// endBatches is how many statements that record ends are under way at once: claims and heartbeats need the database, too.
	endBatches = 2
	// endPatience is how long a statement counts as one of those. It may wait for a row that somebody keeps locked.
	endPatience = 100 * time.Millisecond
	// atMostEnds is how many ends one statement records: their items are locked meanwhile.
	atMostEnds = 100
)

// EndStore records ends, one by one and together.
type EndStore interface {
	Finisher
	// FinishAll records ends, each of another execution, and waits for no row. What is missing from its answer is left to Finish.
	FinishAll(ctx context.Context, ends []claim.Ended) (first map[string]bool, err error)
}

// Ends is a Finisher that records together what ends at the same time. While its statements are under way, what ends meanwhile
// collects and goes into the next: a busy replica records in batches, and an idle one waits for nothing.
type Ends struct {
	store EndStore
	comes chan ending
}

// ending is an end that somebody waits to have recorded.
type ending struct {
	claim.Ended
	answer chan answer // has room for it: who asked may have gone
}

type answer struct {
	first bool
	err   error
	alone bool // whoever asked is to record it by itself
}

// NewEnds makes one that records in a store. Finish waits until Run runs.
func NewEnds(store EndStore) *Ends { return &Ends{store: store, comes: make(chan ending)} }

// Finish is claim.Store's. Where ctx is cancelled, the end may be recorded or not.
func (e *Ends) Finish(ctx context.Context, executionID, outcome, reason, result string) (first bool, err error) {
	end := ending{
		Ended:  claim.Ended{ExecutionID: executionID, Outcome: outcome, Reason: reason, Result: result},
		answer: make(chan answer, 1),
	}
	select {
	case e.comes <- end:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	select {
	case a := <-end.answer:
		if a.alone {
			return e.store.Finish(ctx, executionID, outcome, reason, result)
		}
		return a.first, a.err
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// Run records until ctx is cancelled, and returns nil then. Whoever waits is to be cancelled, too: another replica finds what is left.
func (e *Ends) Run(ctx context.Context) error {
	var under sync.WaitGroup
	defer under.Wait()
	places := make(chan struct{}, endBatches)
	for {
		select {
		case <-ctx.Done():
			return nil
		case first := <-e.comes:
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			batch, recorded := e.collect(first), make(chan struct{})
			under.Go(func() {
				defer close(recorded)
				e.record(ctx, batch)
			})
			under.Go(func() {
				patience := time.NewTimer(endPatience)
				defer patience.Stop()
				select {
				case <-recorded:
				case <-patience.C:
				}
				<-places
			})
		}
	}
}

// collect takes along what waits already.
func (e *Ends) collect(first ending) []ending {
	batch := []ending{first}
	for len(batch) < atMostEnds {
		select {
		case next := <-e.comes:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// record records a batch. One that fails is left to those who asked, each for itself: so nobody's end is in the way of another's.
func (e *Ends) record(ctx context.Context, batch []ending) {
	if len(batch) == 1 {
		var a answer
		a.err = contained(ctx, func(ctx context.Context) (err error) {
			a.first, err = e.store.Finish(ctx, batch[0].ExecutionID, batch[0].Outcome, batch[0].Reason, batch[0].Result)
			return err
		})
		batch[0].answer <- a
		return
	}
	ends, of := make([]claim.Ended, 0, len(batch)), make(map[string]ending, len(batch))
	for _, end := range batch {
		if _, twice := of[end.ExecutionID]; twice {
			end.answer <- answer{alone: true}
			continue
		}
		ends, of[end.ExecutionID] = append(ends, end.Ended), end
	}
	var first map[string]bool
	err := contained(ctx, func(ctx context.Context) (err error) {
		first, err = e.store.FinishAll(ctx, ends)
		return err
	})
	for id, end := range of {
		was, known := first[id]
		end.answer <- answer{first: was, alone: err != nil || !known}
	}
}
