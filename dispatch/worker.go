package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// work is one worker: it dispatches items until the channel is closed. Consecutive items share a context until a lease
// is lost, which cancels it.
func (r *run) work(all context.Context) {
	ctx, lose := context.WithCancelCause(all)
	for item := range r.items {
		if ctx.Err() != nil {
			ctx, lose = context.WithCancelCause(all)
		}
		var done result
		if err := contained(r.Log, "worker", func() { done = r.handOver(ctx, lose, &item) }); err != nil {
			// The lease is no longer renewed. The next replica that claims the item asks Temporal for the outcome.
			r.held.drop(&item)
			done = result{outcome: engine.NotSent}
		}
		done.item = &item
		r.outcomes <- done
	}
}

// handOver starts an item's workflow. It settles the outcome itself, except a success, which the claim loop settles:
// see started. lose cancels ctx.
func (r *run) handOver(ctx context.Context, lose context.CancelCauseFunc, item *claim.Item) result {
	lease := r.held.add(item, lose)
	r.note(ctx, item, "Dispatching queue item", slog.String("workflow_definition_id", item.WorkflowDefinitionID),
		slog.Int("attempt", item.AttemptCount), slog.Float64("waited_ms", milliseconds(item.Waited)))

	began := time.Now()
	runID, outcome, asked, err := r.attemptOrEnd(ctx, item)
	if errors.Is(context.Cause(ctx), claim.ErrLost) {
		// The next claimant sends the same request, and learns from Temporal if the workflow has started.
		r.held.release(lease)
		r.logAbout(item).WarnContext(ctx, "Lease lost", "error", err)
		r.observer.Lost(item.ID)
		return result{outcome: engine.Started}
	}
	settlement := r.settlement(*item, outcome, runID, err)
	if settlement.Verb == claim.Fail && item.MaybeSent() {
		runID, outcome, err = r.lookBeforeFailing(ctx, item, outcome, err)
		asked = outcome != engine.Missing // a lookup that finds nothing does not show that starts are accepted
		settlement = r.settlement(*item, outcome, runID, err)
	}
	r.held.settling(lease)
	if settlement.Verb == claim.Dispatched {
		took := time.Since(began)
		r.note(ctx, item, "Dispatched execution", slog.String("workflow_id", item.WorkflowID()), slog.String("run_id", runID),
			slog.Float64("start_ms", milliseconds(took)))
		return result{outcome: outcome, asked: asked, sent: began, took: took,
			started: &started{Settlement: settlement, item: item, lease: lease}}
	}
	defer r.held.release(lease)
	if settlement.Verb == claim.Fail {
		r.observer.Fails(item, outcome)
	}
	if settleErr := r.settler.settle(settlement); settleErr != nil {
		r.lost(item, settlement.Verb, settleErr)
		return result{outcome: outcome, err: err, asked: asked, sent: began}
	}
	switch settlement.Verb {
	case claim.Retry, claim.Fail:
		r.logAbout(item).ErrorContext(ctx, "Error processing queue item", "verb", string(settlement.Verb), "attempt",
			item.AttemptCount,
			"retry_in_ms", milliseconds(settlement.Delay), "error", settlement.Error)
	case claim.Release:
		r.logAbout(item).InfoContext(ctx, "Released queue item", "outcome", outcome.String())
		if settlement.Missing && item.MissingFor == 0 {
			r.logAbout(item).WarnContext(ctx,
				"Temporal does not find the workflow of an item that is to fail; it keeps its slot and is looked up again",
				"workflow_id", item.WorkflowID(), "namespace", item.Namespace, "error", err)
		}
		if tries := item.Tries + 1; settlement.Alone && (tries == namedFrom || tries%mostTries == 0) {
			r.logAbout(item).WarnContext(ctx,
				"An item fails to start while others of its namespace start; it keeps its slot and is tried again",
				"tries", tries, "outcome", outcome.String(), "error", err, "namespace", item.Namespace,
				"retry_in_ms", milliseconds(settlement.Delay),
				"remedy", "see `pgdispatch items show`; `pgdispatch items give-up` ends it")
		}
	}
	return result{outcome: outcome, err: err, asked: asked, sent: began}
}

// note logs a line that every item has, at level INFO. Unlike a Logger's methods, it does not determine the source
// position, which is not shown.
func (r *run) note(ctx context.Context, item *claim.Item, message string, more ...slog.Attr) {
	if !r.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	record := slog.NewRecord(time.Now(), slog.LevelInfo, message, 0)
	record.AddAttrs(slog.Int64("queue_item_id", item.ID), slog.String("execution_id", item.ExecutionID),
		slog.String("workspace_id", item.WorkspaceID))
	record.AddAttrs(more...)
	_ = r.Log.Handler().Handle(ctx, record) // Logger ignores this error, too
}

func (r *run) logAbout(item *claim.Item) *slog.Logger {
	return r.Log.With("queue_item_id", item.ID, "execution_id", item.ExecutionID, "workspace_id", item.WorkspaceID)
}

// lost reports that a claim could not be ended.
func (r *run) lost(item *claim.Item, verb claim.Verb, err error) {
	level := slog.LevelWarn
	if errors.Is(err, errUnconfirmed) {
		level = slog.LevelInfo
	}
	r.logAbout(item).Log(context.Background(), level, "Lease lost", "verb", string(verb), "error", err)
	r.observer.Lost(item.ID)
}

// attemptOrEnd starts the item. If it has failed for long enough while others started, or if a person gave it up, it
// ends instead.
func (r *run) attemptOrEnd(ctx context.Context, item *claim.Item) (runID string, outcome engine.Outcome, asked bool,
	err error) {
	if end := r.endOf(item); end != nil {
		return "", engine.Abandoned, false, end
	}
	return r.attempt(ctx, item)
}

const (
	// namedFrom is the number of tries from which an item that fails alone is named: in the log, by status and doctor, and
	// in the web view.
	namedFrom = 3
	// mostTries is how many starts of an item must fail, and leastFailing for how long, while others of its namespace are
	// accepted, before the item ends.
	mostTries    = 10
	leastFailing = 5 * time.Minute
)

// endOf returns why an item ends without another try, or nil.
func (r *run) endOf(item *claim.Item) error {
	switch {
	case item.GivenUpBy != "":
		return fmt.Errorf("given up by %s: Temporal does not have its workflow; its last error: %s", item.GivenUpBy,
			cmp.Or(item.LastError, "none"))
	case item.Tries >= mostTries && item.FailingFor >= leastFailing && r.backoffs.isAlone(time.Now(), item.Lane()):
		return fmt.Errorf("failed %d times in %s while others of its namespace started, and Temporal does not have its "+
			"workflow: %s", item.Tries, item.FailingFor.Round(time.Second), item.LastError)
	}
	return nil
}

// attempt asks Temporal to start the item, unless there is nothing to ask. A panic becomes an error of this item only.
func (r *run) attempt(ctx context.Context, item *claim.Item) (runID string, outcome engine.Outcome, asked bool,
	err error) {
	defer r.contain(ctx, item, &outcome, &err)
	if item.Problem == claim.RowsHidden {
		r.Log.ErrorContext(ctx, "Row level security hides rows; the item is given back", "queue_item_id", item.ID,
			"workspace_id", item.WorkspaceID, "workflow_definition_id", item.WorkflowDefinitionID)
		return "", engine.NotSent, false, errors.New("row level security may hide the workflow definition from this replica")
	}
	if item.Problem != "" {
		r.Log.WarnContext(ctx, problemMessage(item.Problem), "queue_item_id", item.ID,
			"workspace_id", item.WorkspaceID, "workflow_definition_id", item.WorkflowDefinitionID)
		return "", engine.Permanent, false, errors.New(string(item.Problem))
	}
	timeout := min(r.StartTimeout, time.Until(item.Deadline)-r.Lease/10)
	if timeout <= 0 || ctx.Err() != nil {
		return "", engine.NotSent, false,
			errors.Join(errors.New("lease leaves no time to start the workflow"), context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, startTimeoutError(timeout))
	defer cancel()
	if item.NamedID != "" {
		behind, err := r.Store.Behind(ctx, item.ID)
		switch {
		case err != nil:
			return "", engine.NotSent, false, err
		case behind:
			return "", engine.Behind, false, nil
		}
	}
	runID, outcome, err = r.start(ctx, *item)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if err != nil {
		// The claim loop logs an outage once, as an error.
		level := slog.LevelError
		if outcome.IsSystemic() || outcome == engine.Busy {
			level = slog.LevelDebug
		}
		r.Log.Log(ctx, level, "Failed to start Temporal workflow", "queue_item_id", item.ID,
			"outcome", outcome.String(), "error", err)
	}
	return runID, outcome, true, err
}

// start sends the request, and tells the observer.
func (r *run) start(ctx context.Context, request claim.Item) (runID string, outcome engine.Outcome, err error) {
	started := r.observer.Starting(&request)
	outcome = engine.Panicked
	defer func() { started(runID, outcome, err) }()
	return r.Starter.Start(ctx, request)
}

// startTimeoutError reports that a start was not answered in time. Its text is formatted lazily, because every start
// creates one and few show it.
type startTimeoutError time.Duration

// Error implements error.
func (e startTimeoutError) Error() string {
	return fmt.Sprintf("start of workflow timed out after %s", time.Duration(e))
}

// problemMessage returns the log message for a problem that makes an item impossible to start.
func problemMessage(problem claim.Problem) string {
	switch problem {
	case claim.NoWorkspace:
		return "Workspace not found"
	case claim.NoDefinition:
		return "Workflow definition not found"
	case claim.NoVersion:
		return "Workflow definition has no version"
	default:
		return "Queue item cannot be started"
	}
}

// contain is deferred around calls of the Starter. It turns a panic into an error of the item.
func (r *run) contain(ctx context.Context, item *claim.Item, outcome *engine.Outcome, err *error) {
	if recovered := recover(); recovered != nil {
		r.Log.ErrorContext(ctx, "Panic while dispatching a queue item", "queue_item_id", item.ID,
			"panic", postgres.Clean(fmt.Sprint(recovered)), "stack", string(debug.Stack()))
		*outcome, *err = engine.Panicked, fmt.Errorf("panic: %v", recovered)
	}
}

// lookBeforeFailing checks whether an earlier, unanswered attempt has started the workflow, for example before its
// definition was deleted or its owner died. If so, the item counts as started and the failure is ignored. If not, it
// fails once all lookups of a minute agree: see engine.Missing.
func (r *run) lookBeforeFailing(ctx context.Context, item *claim.Item, outcome engine.Outcome,
	failure error) (string, engine.Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.StartTimeout,
		fmt.Errorf("lookup of the workflow timed out after %s", r.StartTimeout))
	defer cancel()
	runID, found, err := r.find(ctx, item)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	switch {
	case err != nil:
		return "", found, err
	case found == engine.Started:
		return runID, found, nil
	case item.MissingFor < missingFor:
		return "", engine.Missing, failure
	default:
		return "", outcome, failure
	}
}

func (r *run) find(ctx context.Context, item *claim.Item) (runID string, found engine.Outcome, err error) {
	defer r.contain(ctx, item, &found, &err)
	return r.Starter.Find(ctx, *item)
}

const (
	// missingFor is for how long Temporal must not find a workflow that may have been started before its item fails: a
	// failover that lags, or a connection to another cluster, is over by then.
	missingFor = time.Minute
	// lookAgain is the pause between two lookups of a workflow that Temporal does not find.
	lookAgain = 10 * time.Second
)

// leastUnregistered is how many failures are allowed while something that an item names is not registered: some four
// minutes.
const leastUnregistered = 9

// behindDelay is how long an item waits for another one that is to be started before it.
const behindDelay = 200 * time.Millisecond

// hiddenDelay is how long an item waits whose definition may be hidden: another replica may see it.
const hiddenDelay = 10 * time.Second

// settlement returns how a dispatch with this outcome ends its claim.
func (r *run) settlement(item claim.Item, outcome engine.Outcome, runID string, err error) claim.Settlement {
	settlement := claim.Settlement{ID: item.ID, Token: item.Token}
	if err != nil {
		settlement.Error = postgres.Clean(err.Error())
	}
	switch outcome {
	case engine.Started:
		settlement.Verb, settlement.RunID = claim.Dispatched, runID
	case engine.Retryable, engine.Panicked, engine.Unregistered:
		settlement.Verb, settlement.Delay = claim.Retry, retryDelay(item.FailureCount+1)
		settlement.Unanswered = item.MaybeSent() || outcome == engine.Panicked // the request may have been sent before
		most := item.MaxAttempts
		if outcome == engine.Unregistered {
			most = max(most, leastUnregistered)
		}
		if item.FailureCount+1 >= most {
			settlement.Verb = claim.Fail
		}
	case engine.Busy:
		settlement.Verb, settlement.Unanswered, settlement.Delay = claim.Release, true, retryDelay(1)
	case engine.Permanent, engine.Forgotten, engine.Abandoned:
		settlement.Verb = claim.Fail
	case engine.Missing:
		// Its last error stays: the failure is found again by the next lookup.
		settlement.Verb, settlement.Error = claim.Release, ""
		settlement.Delay, settlement.Unanswered, settlement.Missing = lookAgain, true, true
	case engine.Behind:
		settlement.Verb, settlement.Delay, settlement.Unanswered = claim.Release, behindDelay, item.MaybeSent()
	case engine.NotSent:
		settlement.Verb, settlement.Unanswered = claim.Release, item.MaybeSent()
		if item.Problem == claim.RowsHidden {
			settlement.Delay = hiddenDelay
		}
	case engine.Blocked, engine.Unreached, engine.Throttled, engine.Unanswered:
		settlement.Verb = claim.Release
		settlement.Unanswered = item.MaybeSent() || outcome == engine.Throttled || outcome == engine.Unanswered
		settlement.Delay, settlement.Alone = r.backoffs.next(time.Now(), &item, outcome)
		return settlement
	}

	r.backoffs.forget(item.ID)
	return settlement
}
