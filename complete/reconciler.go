package complete

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Ledger is the part of the store that the reconciler needs.
type Ledger interface {
	Finisher
	CloseTurns(ctx context.Context, often, wide time.Duration) ([]claim.Turn, error)
	CloseDone(ctx context.Context, namespace string, newest time.Time, wide bool) error
	OpenAmong(ctx context.Context, executionIDs []string) ([]claim.Execution, error)
	Silent(ctx context.Context, atMost int, after time.Duration) ([]claim.Execution, error)
}

// Temporal is asked by the reconciler: TemporalWaiter, or a fake in tests.
type Temporal interface {
	// Closed lists workflows of a namespace that closed at since or later, page by page. What closed just now may be missing.
	Closed(ctx context.Context, namespace string, since time.Time, page []byte) (Page, error)
	// Look says whether an execution has ended, and how, without waiting for it.
	Look(ctx context.Context, execution claim.Execution) (end End, ended bool, err error)
	Ender
}

// Page is one page of a list of closed workflows.
type Page struct {
	ExecutionIDs []string // of workflows whose ID is one of ours, whoever started them
	// Runs are, of those that are ours, the runs that were listed.
	Runs   map[string]string
	Newest time.Time
	Next   []byte // empty: this is the last page
}

const (
	// wideInterval is how often a list reaches a minute back: for what visibility showed late, and for a settle that came late.
	wideInterval = 30 * time.Second
	// pagePause keeps a long list within visibility's rate, which is 10 requests a second in a namespace by default.
	pagePause = 250 * time.Millisecond
	// failurePause leaves the turn to others after this replica could not list.
	failurePause = 5 * time.Second
	// silentAfter is how long an execution may be unwatched until Temporal is asked about it by itself, and again.
	silentAfter = time.Minute
	// atMostSilent is how many are asked about in a turn.
	atMostSilent = 50
	// looks is how many executions are asked about at once.
	looks = 8
)

// Reconciler finds the ends that no long poll saw: of executions beyond the bound of watches, of those that ended while no
// replica ran, and of workflows that are gone. Its fields are set before Run and not changed after.
type Reconciler struct {
	Store    Ledger
	Temporal Temporal
	// Interval is how often closed workflows are listed while an open execution is not watched, by one of all replicas at a
	// time. While all are watched, they are listed every half minute.
	Interval time.Duration
	// Open says whether executions are open and whether some are not watched, as far as somebody has seen. Nil: both may be.
	Open func() (open, unwatched bool)
	// Reached says whether Temporal answers this replica; where it does not, the turns are left to others. Nil: it always does.
	Reached func() bool
	// Freed is called when an execution has ended, and a slot is free; it must not block. Nil: nobody is told.
	Freed func()
	Log   *slog.Logger

	last   map[string]string // the errors that were logged last: of a namespace, and under "" of a whole turn
	wideAt time.Time
}

// wanted says whether to ask for the turn: while an execution is not watched each time, else for the wide look.
func (r *Reconciler) wanted(now time.Time) bool {
	if r.Open == nil {
		return true
	}
	open, unwatched := r.Open()
	if !open || !unwatched && now.Before(r.wideAt) {
		return false
	}
	if !unwatched {
		r.wideAt = now.Add(wideInterval)
	}
	return true
}

// Run reconciles until ctx is cancelled, and returns nil then.
func (r *Reconciler) Run(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		began, pause := time.Now(), r.Interval
		if r.wanted(time.Now()) && (r.Reached == nil || r.Reached()) {
			if err := contained(ctx, r.turn); err != nil {
				pause = max(failurePause, r.Interval)
				r.complain(ctx, "", err)
			} else {
				delete(r.last, "")
			}
		}
		next.Reset(pause - time.Since(began)) // many ends take a while
	}
}

// complain logs what failed in a namespace, "" for all, where it is news.
func (r *Reconciler) complain(ctx context.Context, namespace string, err error) {
	if ctx.Err() == nil && err.Error() != r.last[namespace] {
		if r.last == nil {
			r.last = map[string]string{}
		}
		r.last[namespace] = err.Error()
		r.Log.WarnContext(ctx, "Cannot look for ends that were not watched", "error", claim.Clean(err.Error()), "namespace", namespace)
	}
}

// turn takes the turn if there is one, lists what closed in each namespace, and asks about what has been silent. A list that fails
// is begun again from where the last one ended, and holds up no other namespace.
func (r *Reconciler) turn(ctx context.Context) error {
	turns, err := r.Store.CloseTurns(ctx, r.Interval*9/10, wideInterval) // a little early, or every second turn would be missed
	if err != nil || len(turns) == 0 {
		return err
	}
	faults := 0
	for _, turn := range turns {
		newest, fault := r.list(ctx, turn)
		if fault == nil {
			fault = r.Store.CloseDone(ctx, turn.Namespace, newest, turn.Wide)
		}
		if fault == nil {
			delete(r.last, turn.Namespace)
			continue
		}
		if faults, err = faults+1, fault; len(turns) > 1 {
			r.complain(ctx, turn.Namespace, fault)
		}
	}
	if faults == len(turns) {
		return err
	}
	silent, err := r.Store.Silent(ctx, atMostSilent, silentAfter)
	if err != nil {
		return err
	}
	return r.look(ctx, silent, r.Temporal.Look)
}

func (r *Reconciler) list(ctx context.Context, turn claim.Turn) (newest time.Time, err error) {
	for token := []byte(nil); ; {
		page, err := r.Temporal.Closed(ctx, turn.Namespace, turn.Since, token)
		if err != nil {
			return newest, err
		}
		if page.Newest.After(newest) {
			newest = page.Newest
		}
		if len(page.ExecutionIDs) > 0 {
			open, err := r.Store.OpenAmong(ctx, page.ExecutionIDs)
			if err != nil {
				return newest, err
			}
			if err := r.look(ctx, open, func(ctx context.Context, execution claim.Execution) (End, bool, error) {
				if run := page.Runs[execution.ID]; run != "" {
					execution.RunID = run
					return r.Temporal.Ended(ctx, execution)
				}
				return r.Temporal.Look(ctx, execution)
			}); err != nil {
				return newest, err
			}
		}
		if token = page.Next; len(token) == 0 {
			return newest, nil
		}
		select {
		case <-ctx.Done():
			return newest, ctx.Err()
		case <-time.After(pagePause):
		}
	}
}

// look asks about executions, some at a time, and records the ends. It returns an error where Temporal was away; an execution that
// cannot be asked about for another reason is silent, and asked about again.
func (r *Reconciler) look(ctx context.Context, executions []claim.Execution, ask func(context.Context, claim.Execution) (End, bool, error)) error {
	var g errgroup.Group
	g.SetLimit(looks)
	for _, execution := range executions {
		g.Go(func() error {
			err := contained(ctx, func(ctx context.Context) error {
				end, ended, err := ask(ctx, execution)
				if err == nil && ended {
					record(ctx, r.Store, r.Log, execution.ID, end, r.Freed)
				}
				return err
			})
			if err != nil && !errors.Is(err, ErrAway) && ctx.Err() == nil {
				r.Log.WarnContext(ctx, "Cannot ask about an execution", "execution_id", execution.ID, "error", claim.Clean(err.Error()))
				err = nil
			}
			return err
		})
	}
	return g.Wait()
}
