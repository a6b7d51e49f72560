package complete

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"golang.org/x/sync/errgroup"
)

// Ledger is the part of the store that Reconciler needs.
type Ledger interface {
	CloseTurns(ctx context.Context, often, wide time.Duration) ([]Turn, error)
	CloseDone(ctx context.Context, turn Turn, newest time.Time) error
	OpenAmong(ctx context.Context, executionIDs []string) ([]temporal.Execution, error)
	OpenUnder(ctx context.Context, namespace string, workflowIDs []string) ([]temporal.Execution, error)
	Silent(ctx context.Context, atMost int, after time.Duration) ([]temporal.Execution, error)
}

// Temporal is what Reconciler asks about executions. temporal.Client implements it.
type Temporal interface {
	// Closed lists a range of closed executions, page by page. The latest ones may be missing.
	Closed(ctx context.Context, of temporal.Range, page []byte) (temporal.Page, error)
	// Look reports whether an execution has ended, and how. It does not wait for the end.
	Look(ctx context.Context, execution temporal.Execution) (end temporal.End, ended bool, err error)
	Ender
}

const (
	// wideInterval is the interval of lists that reach back one minute. They find closes that visibility showed late
	// and executions that were settled late.
	wideInterval = 30 * time.Second
	// pagePause keeps a long list within visibility's rate limit: by default 10 requests per second and namespace.
	pagePause = 250 * time.Millisecond
	// failurePause leaves the turn to other replicas after this one failed to list.
	failurePause = 5 * time.Second
	// silentAfter is how long an execution may stay unwatched before Temporal is asked about it directly. It is also
	// the interval between two such questions.
	silentAfter = time.Minute
	// atMostSilent limits the unwatched executions asked about per turn.
	atMostSilent = 50
	// looks limits concurrent requests about executions.
	looks = 8
)

// Reconciler finds the ends that no long poll saw: executions beyond the watch limit, executions that ended while no
// replica was running, and workflows that Temporal no longer knows. Set the fields before Run and do not change them
// afterwards.
type Reconciler struct {
	Store    Ledger
	Ends     Finisher
	Temporal Temporal
	// Missing decides about executions that Temporal does not find.
	Missing *Missing
	// Interval is how often one of all replicas lists closed workflows while an open execution is unwatched. While all
	// are watched, the list runs every 30 seconds.
	Interval time.Duration
	// Open reports whether open executions exist and whether some of them are unwatched, as last observed. If nil, both
	// are assumed.
	Open func() (open, unwatched bool)
	// Reached reports whether this replica reaches Temporal. If not, it leaves the turns to others. If nil, Temporal is
	// assumed to be reachable.
	Reached func() bool
	// Freed is called after an end is recorded and its slot is free. It must not block. Nil disables it.
	Freed func()
	Log   *slog.Logger

	complaints map[listed]*attempt.Complaint // the zero key is for all turns together
	wideAt     time.Time
}

// listed is what a turn lists.
type listed struct {
	namespace string
	kind      temporal.Kind
}

// wanted reports whether to ask for the turn: always while an execution is unwatched, otherwise once per wideInterval.
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

// Run finds and records ends until ctx is cancelled, then returns nil.
func (r *Reconciler) Run(ctx context.Context) error {
	next := time.NewTimer(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		began, pause := time.Now(), r.Interval
		if r.wanted(time.Now()) && (r.Reached == nil || r.Reached()) {
			if err := attempt.Contain(ctx, r.turn); err != nil {
				pause = max(failurePause, r.Interval)
				r.complain(ctx, listed{}, err)
			} else {
				delete(r.complaints, listed{})
			}
		}
		next.Reset(pause - time.Since(began)) // recording many ends may take longer than pause
	}
}

// complain logs an error if it differs from the last one about the same.
func (r *Reconciler) complain(ctx context.Context, about listed, err error) {
	complaint := r.complaints[about]
	if complaint == nil {
		complaint = &attempt.Complaint{}
		if r.complaints == nil {
			r.complaints = map[listed]*attempt.Complaint{}
		}
		r.complaints[about] = complaint
	}
	if ctx.Err() == nil && complaint.IsNew(err) {
		r.Log.WarnContext(ctx, "Cannot detect the ends of unwatched executions", "error", err,
			"namespace", about.namespace, "kind", about.kind)
	}
}

// turn takes the turn if it is due, lists the workflows that closed in each namespace, and asks about executions that
// were silent for too long. A failed list restarts from the end of the last successful one and does not block other
// namespaces.
func (r *Reconciler) turn(ctx context.Context) error {
	// Slightly less than Interval, or every second turn would be missed.
	turns, err := r.Store.CloseTurns(ctx, r.Interval*9/10, wideInterval)
	faults := 0
	for _, turn := range turns {
		newest, fault := r.list(ctx, turn)
		if fault == nil {
			fault = r.Store.CloseDone(ctx, turn, newest)
		}
		if fault == nil {
			delete(r.complaints, listed{turn.Namespace, turn.Kind})
			continue
		}
		if faults, err = faults+1, fault; len(turns) > 1 {
			r.complain(ctx, listed{turn.Namespace, turn.Kind}, fault)
		}
	}
	if faults == len(turns) { // none is listed, or none was due
		return err
	}
	silent, err := r.Store.Silent(ctx, atMostSilent, silentAfter)
	if err != nil {
		return err
	}
	return r.askAbout(ctx, silent, r.Temporal.Look)
}

func (r *Reconciler) list(ctx context.Context, turn Turn) (newest time.Time, err error) {
	for token := []byte(nil); ; {
		page, err := r.Temporal.Closed(ctx,
			temporal.Range{Kind: turn.Kind, Namespace: turn.Namespace, Since: turn.Since, All: turn.All}, token)
		if err != nil {
			return newest, err
		}
		if page.Newest.After(newest) {
			newest = page.Newest
		}
		open, err := r.openOf(ctx, turn.Namespace, page)
		if err != nil {
			return newest, err
		}
		if err := r.askAbout(ctx, open, func(ctx context.Context, execution temporal.Execution) (temporal.End, bool, error) {
			if run := page.Runs[execution.ID]; run != "" {
				execution.RunID = run
				return r.Temporal.Ended(ctx, execution)
			}
			return r.Temporal.Look(ctx, execution)
		}); err != nil {
			return newest, err
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

// openOf returns the open executions that a page may be about.
func (r *Reconciler) openOf(ctx context.Context, namespace string,
	page temporal.Page) (open []temporal.Execution, err error) {
	if len(page.ExecutionIDs) > 0 {
		if open, err = r.Store.OpenAmong(ctx, page.ExecutionIDs); err != nil {
			return nil, err
		}
	}
	if len(page.WorkflowIDs) > 0 {
		under, err := r.Store.OpenUnder(ctx, namespace, page.WorkflowIDs)
		if err != nil {
			return nil, err
		}
		open = append(open, under...)
	}
	return open, nil
}

// askAbout asks about executions concurrently and records their ends. It returns an error only if ctx is cancelled or
// Temporal is unavailable. For other errors the execution stays silent and is asked about again.
func (r *Reconciler) askAbout(ctx context.Context, executions []temporal.Execution,
	ask func(context.Context, temporal.Execution) (temporal.End, bool, error)) error {
	var g errgroup.Group
	g.SetLimit(looks)
	for _, execution := range executions {
		g.Go(func() error {
			err := attempt.Contain(ctx, func(ctx context.Context) error {
				end, ended, err := ask(ctx, execution)
				if isMissing(err) {
					end = temporal.Gone(execution.Kind)
					ended, err = r.Missing.Note(ctx, execution)
				}
				if err == nil && ended {
					record(ctx, r.Ends, r.Log, execution.ID, end, r.Freed)
				}
				return err
			})
			if err != nil && !errors.Is(err, temporal.ErrAway) && ctx.Err() == nil {
				r.Log.WarnContext(ctx, "Cannot describe an execution", "execution_id", execution.ID, "error",
					postgres.Clean(err.Error()))
				err = nil
			}
			return err
		})
	}
	return g.Wait()
}
