package complete

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/sethvargo/go-retry"
)

const (
	// endPatience is how long the next statement waits for one in progress, which may be waiting for a locked row.
	endPatience = 50 * time.Millisecond
	// endRest bounds the pause after a statement that recorded several ends. The pause is as long as the statement, so
	// that claims and heartbeats have the database half of the time, and the next statement records more ends.
	endRest = 5 * time.Millisecond
	// endGather is how long an end for which nothing waits is held back, so that one statement records several. A
	// statement costs Postgres several times what each further end adds to it.
	endGather = 25 * time.Millisecond
	// lastTimeout bounds recording the ends that waited for others when the replica stops.
	lastTimeout = time.Second
	// atMostEnds limits the ends in one statement, which locks their items.
	atMostEnds = 100
)

// EndStore records ends, singly and in batches.
type EndStore interface {
	Finisher
	// FinishAll records the ends of distinct executions without waiting for row locks. Ends that are missing from its
	// result must be recorded with Finish.
	FinishAll(ctx context.Context, ends []Ended) (first map[string]bool, err error)
}

// Ends is a Finisher that batches concurrent ends. It executes one statement at a time, unless one waits for a lock.
// Ends that arrive meanwhile go into the next batch. An end for which something may wait is recorded at once if no
// statement is in progress. See MayWait for the others.
type Ends struct {
	// MayWait reports whether nothing waits for what the end of an execution frees. Such an end waits up to endGather, so
	// that one statement records several. It must not block. If nil, no end waits. Set it before Run.
	MayWait func(executionID string) bool

	store   EndStore
	saw     func(outcome string, err error)
	comes   chan ending
	hurries chan struct{} // capacity 1
}

// ending is an end whose caller waits until it is recorded.
type ending struct {
	Ended
	answer chan answer // capacity 1, because the caller may be gone
}

type answer struct {
	first bool
	err   error
	alone bool // the caller must record its end by itself
}

// NewEnds returns an Ends that records in store. Finish blocks until Run is running. saw is called with the outcome of
// each end that was not recorded before, and with the error of each statement that failed. It must not block. If nil,
// nothing is reported.
func NewEnds(store EndStore, saw func(outcome string, err error)) *Ends {
	if saw == nil {
		saw = func(string, error) {}
	}
	return &Ends{store: store, saw: saw, comes: make(chan ending), hurries: make(chan struct{}, 1)}
}

// Hurry records the ends that wait for others: something may wait for what they free. It does not block.
func (e *Ends) Hurry() {
	select {
	case e.hurries <- struct{}{}:
	default: // a hurry is pending
	}
}

// Finish records an end like Postgres.Finish. If ctx is cancelled, the end may or may not be recorded.
func (e *Ends) Finish(ctx context.Context, executionID, outcome, reason, result string) (first bool, err error) {
	end := ending{
		Ended:  Ended{ExecutionID: executionID, Outcome: outcome, Reason: reason, Result: result},
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
			return e.finish(ctx, end.Ended)
		}
		return a.first, a.err
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// finish records one end.
func (e *Ends) finish(ctx context.Context, end Ended) (first bool, err error) {
	first, err = e.store.Finish(ctx, end.ExecutionID, end.Outcome, end.Reason, end.Result)
	if first || err != nil {
		e.saw(end.Outcome, err)
	}
	return first, err
}

// Run records ends until ctx is cancelled, and then those that have waited for others. It returns nil. Cancel the
// callers of Finish, too; another replica finds the ends that remain.
func (e *Ends) Run(ctx context.Context) error {
	var under sync.WaitGroup
	defer under.Wait()
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	var batch []ending
	var due time.Time // when the batch is to be recorded
	for {
		comes, ready, later := e.comes, turn, (<-chan time.Time)(nil)
		if len(batch) == atMostEnds {
			comes, due = nil, time.Time{}
		}
		if wait := time.Until(due); len(batch) == 0 || wait > 0 {
			ready = nil // nothing is to be recorded yet
			if len(batch) > 0 {
				later = time.After(wait)
			}
		}

		select {
		case <-ctx.Done():
			if len(batch) > 0 {
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
				defer cancel()
				e.record(last, batch)
			}
			return nil
		case end := <-comes:
			until := time.Now()
			if e.MayWait != nil && e.MayWait(end.ExecutionID) {
				until = until.Add(endGather)
			}
			if batch = append(batch, end); len(batch) == 1 || until.Before(due) {
				due = until
			}
		case <-e.hurries:
			due = time.Time{}
		case <-later:
		case <-ready:
			ends, recorded := e.collect(batch), make(chan struct{})
			batch = nil
			under.Go(func() {
				defer close(recorded)
				e.record(ctx, ends)
			})
			under.Go(func() {
				untilNext(ctx, recorded, len(ends) > 1)
				turn <- struct{}{}
			})
		}
	}
}

// untilNext returns when the next statement may follow.
func untilNext(ctx context.Context, recorded <-chan struct{}, rests bool) {
	began := time.Now()
	patience := time.NewTimer(endPatience)
	select {
	case <-recorded:
	case <-patience.C:
		return
	}
	if rests {
		patience.Reset(min(time.Since(began), endRest))
		select {
		case <-patience.C:
		case <-ctx.Done():
		}
	}
}

// collect adds the ends that have arrived, up to atMostEnds.
func (e *Ends) collect(batch []ending) []ending {
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

// record records a batch. If the batch fails, each caller records its own end, so that one end cannot block another.
func (e *Ends) record(ctx context.Context, batch []ending) {
	if len(batch) == 1 {
		var a answer
		a.err = attempt.Contain(ctx, func(ctx context.Context) (err error) {
			a.first, err = e.finish(ctx, batch[0].Ended)
			return err
		})
		batch[0].answer <- a
		return
	}

	ends, of := make([]Ended, 0, len(batch)), make(map[string]ending, len(batch))
	for _, end := range batch {
		if _, twice := of[end.ExecutionID]; twice {
			end.answer <- answer{alone: true}
			continue
		}
		ends, of[end.ExecutionID] = append(ends, end.Ended), end
	}

	var first map[string]bool
	err := attempt.Contain(ctx, func(ctx context.Context) (err error) {
		first, err = e.store.FinishAll(ctx, ends)
		return err
	})
	if err != nil {
		e.saw("", err)
	}

	for id, end := range of {
		was, known := first[id]
		if was {
			e.saw(end.Outcome, nil)
		}
		end.answer <- answer{first: was, alone: err != nil || !known}
	}
}

// record records an end, retrying until it succeeds or ctx ends. It logs the end and calls freed only if the end was
// not recorded before.
func record(ctx context.Context, ends Finisher, log *slog.Logger, executionID string, end temporal.End, freed func()) {
	var first bool
	record := func(ctx context.Context) (err error) {
		first, err = ends.Finish(ctx, executionID, end.Outcome, end.Reason, end.Result)
		return err
	}
	err := retryUntilDone(ctx, log, executionID, "Cannot record an execution's end", record)
	if err != nil || !first {
		return
	}
	fields := []any{"execution_id", executionID, "outcome", end.Outcome}
	if end.Outcome != "COMPLETED" {
		fields = append(fields, "error", postgres.Clean(end.Reason))
	}
	log.InfoContext(ctx, "Execution ended", fields...)
	if freed != nil {
		freed()
	}
}

// retryUntilDone retries until try succeeds, ctx is cancelled, or try returns ErrCrowded or ErrMissing. A panic counts
// as a failed try. An error is logged if it differs from the last one. temporal.ErrAway is logged at debug level only,
// because outages are logged elsewhere.
func retryUntilDone(ctx context.Context, log *slog.Logger, executionID, complaint string,
	try func(context.Context) error) error {
	backoff := retry.WithJitterPercent(spreadPercent, attempt.Backoff(retryBase, retryCap))
	var said attempt.Complaint
	return retry.Do(ctx, backoff, func(ctx context.Context) error {
		err := attempt.Contain(ctx, try)
		if err == nil || errors.Is(err, temporal.ErrCrowded) || isMissing(err) {
			return err
		}
		if ctx.Err() == nil && said.IsNew(err) {
			level := slog.LevelWarn
			if errors.Is(err, temporal.ErrAway) {
				level = slog.LevelDebug
			}
			log.Log(ctx, level, complaint, "execution_id", executionID, "error", err)
		}
		return retry.RetryableError(err)
	})
}
