package dispatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/attempt"
)

// claims is the loop that decides when to claim.
func (r *run) claims(ctx context.Context) {
	source := "start"
	for ctx.Err() == nil {
		r.collect()
		now := time.Now()
		if !r.dueAt.IsZero() && !now.Before(r.dueAt) {
			// Checked here as well, because another event at the same moment may have won the select.
			r.expectsWork, r.look, r.dueAt, source = true, true, time.Time{}, "timer"
		}
		if !r.giveBackAt.IsZero() && !now.Before(r.giveBackAt) {
			r.giveBack(ctx)
		}
		r.free(ctx, now)
		r.reportPauses()
		r.steer(now)
		if !r.sleeper.lookAt.IsZero() && !now.Before(r.sleeper.lookAt) {
			r.expectsWork, r.look, source = true, true, "timer"
		}
		if r.gathers() && !now.Before(r.settleAt) {
			r.settleStarted(false)
		}
		free := r.freeWorkers()
		wanted := r.namespaces.allows(now, free, r.Workers, r.expectsWork)
		r.expectsWork = r.expectsWork || r.namespaces.reopened(wanted)
		r.stall.workers(now, wanted.AtMost > 0)
		switch may := wanted.AtMost > 0 && !now.Before(r.retryAt); {
		case r.expectsWork && may && r.gather.waits(now, free): // the next claim settles the started items
		case r.expectsWork && may:
			r.claim(ctx, wanted, source)
			continue
		case r.gathers(): // the started items wait for others
		case r.sleeper.awake && !r.sleeper.lookAt.IsZero() && may: // the claim after the coming look settles them
		default:
			r.settleStarted(false)
		}
		select {
		case <-ctx.Done():
		case <-r.Wake.wait():
			r.expectsWork, source = true, r.woken(time.Now())
		case done := <-r.outcomes:
			r.takeBack(done)
			source = "worker"
		case <-r.timer(now):
			r.expectsWork, source = true, "timer"
		}
	}
}

// claim makes one claim and passes its items to the workers.
func (r *run) claim(ctx context.Context, wanted claim.Wanted, source string) {
	r.observer.Woken(source)
	began := time.Now()
	carries := !r.gathers()
	wanted.Holding = r.Workers - r.freeWorkers()
	wanted.Reserved = max(wanted.AtMost-max(r.mostRepeats()-r.repeating, 0), 0)
	wanted.Named, wanted.Look = r.named, r.look
	wanted.Quiet = r.Gate != nil && r.Gate.IsAsleep()
	r.named, r.look = nil, false
	// Not cancelled with ctx: a cancelled claim may have committed, and its items would be unknown.
	var carried []claim.Settlement
	if carries {
		carried = r.settlements()
	}
	batch, settled, err := r.ask(context.WithoutCancel(ctx), carried, wanted)
	r.sleeper.measured(began, time.Now(), len(batch.Items) > 0)
	if err != nil {
		r.look = true // the named workspaces were not claimed
		apart := errors.Is(err, claim.ErrApart)
		r.settleStarted(carries && !apart)
		if !apart { // after ErrApart the next claim has nothing to settle and need not wait
			r.claimFailed(ctx, err)
		}
		return
	}
	r.reportStall(batch)
	if carries {
		r.endStarted(settled)
	}
	if r.errorGap != nil || batch.Forgot {
		r.giveBackAt, r.strayUntil = time.Now(), time.Now().Add(r.Lease)
	}
	if r.errorGap != nil {
		r.Log.InfoContext(ctx, "Claims succeed again")
		r.errorGap, r.retryAt = nil, time.Time{}
		r.failing.Store(nil)
	}
	r.idle -= len(batch.Items)
	r.namespaces.took(time.Now(), wanted, batch.Items)
	r.dueAt = time.Time{}
	if batch.LookAgainIn >= 0 {
		// Add 1 ms, so that a slightly fast clock does not look too early.
		r.dueAt = time.Now().Add(batch.LookAgainIn + time.Millisecond)
	}
	// If W was not the limit, more is due because the claim asked for less.
	r.expectsWork, r.moreDue = batch.More && !batch.Capped, batch.More
	if again := time.Now().Add(cappedAgain); batch.More && batch.Capped && r.idle == r.Workers &&
		(r.dueAt.IsZero() || again.Before(r.dueAt)) {
		r.dueAt = again
	}
	if batch.Asked > 0 {
		r.roomy = 2*batch.Room >= r.Workers
	}
	r.gather.plan(batch, r.sleeper.ended, r.sleeper.took, r.Workers)
	r.looked(batch, wanted.AtMost, source)
	r.logBatch(ctx, batch)
	if len(batch.Items) > 0 {
		r.Log.DebugContext(ctx, "Processing queue items", "batch_size", len(batch.Items), "settled", len(settled),
			"wake_source", source, "claim_ms", milliseconds(time.Since(began)))
	}
	for _, item := range batch.Items {
		if item.Unanswered {
			r.repeating++
		}
		r.given[claim.Held{ID: item.ID, Token: item.Token}] = true
		r.items <- item
	}
}

// mostRepeats returns how many workers may repeat starts at the same time, so that starts that hang leave most workers
// to other items.
func (r *run) mostRepeats() int { return max(r.Workers/4, 1) }

// ask calls the store's claim. After a panic the store's state is unknown, so a panic counts as no answer.
func (r *run) ask(ctx context.Context, started []claim.Settlement, wanted claim.Wanted) (batch claim.Batch,
	settled []int64, err error) {
	panicked := contained(r.Log, "store's claim", func() {
		began := time.Now()
		batch, settled, err = r.Store.SettleAndClaim(ctx, started, wanted)
		r.observer.Claimed(began, batch, settled, err)
	})
	return batch, settled, cmp.Or(err, panicked)
}

// timer fires when the loop has to act without a wake-up: an item becomes due or a pause ends.
func (r *run) timer(now time.Time) <-chan time.Time {
	var at time.Time
	for _, candidate := range r.namespaces.until([]time.Time{r.dueAt, r.retryAt, r.giveBackAt, r.sleeper.lookAt,
		r.sleeper.leaveAt, r.gather.until, r.gathersUntil()}) {
		if candidate.After(now) && (at.IsZero() || candidate.Before(at)) {
			at = candidate
		}
	}
	if at.IsZero() {
		return nil
	}
	return time.After(at.Sub(now))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// collect takes back all finished workers, so that one claim serves them all.
func (r *run) collect() {
	for {
		select {
		case done := <-r.outcomes:
			r.takeBack(done)
		default:
			return
		}
	}
}

// takeBack takes a worker back and records what its dispatch revealed about Temporal.
func (r *run) takeBack(done result) {
	if done.took > 0 {
		r.gather.started(done.took)
	}
	if !r.keep(done) {
		r.idle++
	}
	if done.item != nil {
		delete(r.given, claim.Held{ID: done.item.ID, Token: done.item.Token})
		r.namespaces.get(done.item.Lane()).busy--
		if done.item.Unanswered {
			r.repeating--
			r.expectsWork = true // another start may be repeated
		}
	}
	if done.outcome != engine.Started { // its item may wait again: a claim that looks learns until when
		r.expectsWork, r.look = true, true
	}
	r.expectsWork = r.expectsWork || r.moreDue
	if done.asked {
		r.updateBreaker(done)
		r.backoffs.pause(r.namespaces.shut())
	}
}

// updateBreaker records Temporal's answer, or its absence.
func (r *run) updateBreaker(done result) {
	now, name, lane := time.Now(), done.item.Namespace, done.item.Lane()
	limiter := &r.namespaces.get(lane).limiter
	switch done.outcome {
	case engine.Blocked, engine.Unreached, engine.Unanswered:
		r.cause = done.err
		opened := r.namespaces.trip(now, lane, done.outcome, done.item, told(done.err) || isShared(done.err))
		if opened {
			r.pausedAt = now
		}
		if opened && !told(done.err) {
			r.Log.Error(
				"Temporal does not accept workflows; pausing starts and probing. Items stay queued and no attempt is counted",
				"outcome", done.outcome.String(), "error", done.err, "namespace", name, "kind", done.item.Kind,
				"remedy", r.Starter.Remedy(done.err, name))
		}
		return
	case engine.Throttled:
		different := r.namespaces.get(lane).evidence.throttles(now, done.item.ID, done.item.Unanswered)
		if different == 0 || !limiter.limits() && !limiter.exceeds(now, different) {
			break // the item's fault, or too few refusals to slow the others down
		}
		if limiter.learn(now, done.sent, true) {
			r.Log.Warn("Temporal limits the rate of starts; slowing down. Items stay queued and no attempt is counted",
				"starts_per_second", limiter.rate, "error", done.err, "namespace", name, "kind", done.item.Kind)
		}
	default:
		limiter.learn(now, done.sent, false)
		r.namespaces.get(lane).evidence.accepts(done.item.ID)
		r.backoffs.accepts(now, lane)
	}
	if r.namespaces.accepted(lane) {
		r.expectsWork = true
		r.resume(now)
		if told(r.cause) {
			return
		}
		r.Log.Info("Temporal accepts workflows again; resuming starts", "namespace", name,
			"kind", done.item.Kind, "after_ms",
			now.Sub(r.pausedAt).Milliseconds(), "error", r.cause, "remedy", r.Starter.Remedy(r.cause, name))
	}
}

// isShared reports whether an error concerns a whole namespace.
func isShared(err error) bool {
	var shared engine.Shared
	return errors.As(err, &shared)
}

// told reports whether an error's source logs it.
func told(err error) bool {
	var by engine.Told
	return errors.As(err, &by)
}

// errVanished is why starts are paused in a namespace.
var errVanished = errors.New("many running executions are missing in Temporal")

// reportPauses reports what is paused if that has changed.
func (r *run) reportPauses() {
	paused, all := r.namespaces.paused(time.Now())
	if all != r.refused || paused != r.pausedNamespaces {
		r.refused, r.pausedNamespaces = all, paused
		cause := r.cause
		if len(r.namespaces.gone()) > 0 {
			cause = errVanished
		}
		r.observer.Paused(paused, all, cause)
	}
}

// free lifts rate limits that no longer hold anything back.
func (r *run) free(ctx context.Context, now time.Time) {
	for name, n := range r.namespaces.known {
		if n.limiter.frees(now) {
			r.Log.InfoContext(ctx, "Temporal no longer limits the rate of starts; back to full speed", "namespace", name)
		}
	}
}

// logBatch logs what a claim returned besides items.
func (r *run) logBatch(ctx context.Context, batch claim.Batch) {
	if batch.Paused != r.paused {
		r.paused = batch.Paused
		message := "Resumed by the settings; claiming items"
		if r.paused {
			message = "Paused by the settings; claiming no items"
		}
		r.Log.InfoContext(ctx, message)
	}
	if batch.Unannounced > 0 {
		r.Log.WarnContext(ctx,
			"Found due items without a notification. Please report this, unless rows were changed with triggers disabled",
			"workspaces", batch.Unannounced)
	}
	for _, parked := range batch.Parked {
		if parked.New {
			r.Log.ErrorContext(ctx,
				"Cannot claim an item: the database rejects the update. Skipping it and retrying in a minute",
				"queue_item_id", parked.ID, "workspace_id", parked.WorkspaceID, "error", parked.Err)
		}
	}
	for _, full := range batch.AtCapacity {
		r.Log.InfoContext(ctx, "Workspace at capacity", "workspace_id", full.WorkspaceID, "active_count", full.Active,
			"limit", full.Limit)
	}
}

// claimFailed delays the next claim, with exponential backoff.
func (r *run) claimFailed(ctx context.Context, err error) {
	if errors.Is(err, claim.ErrUncertain) {
		r.Log.WarnContext(ctx,
			"The answer to a claim was lost; items that it took are uncertain, and are given back once a claim is answered",
			"error", err)
	}
	if ctx.Err() != nil {
		return
	}
	if r.errorGap == nil {
		r.errorGap = attempt.Backoff(claimErrorBase, claimErrorCap)
		r.Log.ErrorContext(ctx, "Cannot claim items; they stay queued and no attempt is counted", "error", err)
	}
	r.failing.Store(&err)
	pause, _ := r.errorGap.Next()
	r.retryAt = time.Now().Add(pause)
}

// giveBack gives back what is leased in this replica's name and not held by it, because a claim's answer was lost or
// the database has forgotten how it was settled. Until they expire, such leases would count towards W. It does so again
// while a claim without an answer may still be executed.
func (r *run) giveBack(ctx context.Context) {
	held := r.held.all()
	for given := range r.given {
		if !slices.Contains(held, given) {
			held = append(held, given) // its worker is about to hold it
		}
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	var items []int64
	var err error
	panicked := contained(r.Log, "giving back", func() { items, err = r.Store.GiveBack(within, held) })

	again := r.Lease / 3
	if err = cmp.Or(err, panicked); err != nil {
		again = claimErrorCap
		r.Log.WarnContext(ctx, "Cannot give back items whose claims were lost; they wait for their leases to expire",
			"error", err)
	}
	if len(items) > 0 {
		r.expectsWork, r.look = true, true
		r.Log.WarnContext(ctx, "Gave back items whose claims, or the ends of them, were lost; their starts are repeated",
			"items", len(items))
	}
	if r.giveBackAt = time.Now().Add(again); r.giveBackAt.After(r.strayUntil) {
		r.giveBackAt = time.Time{}
	}
}

// Failing returns the error of the last claim, or nil if it succeeded.
func (d *Dispatcher) Failing() error {
	if err := d.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// gatherMost bounds how long the claim loop waits for workers.
const gatherMost = 6 * time.Millisecond

// gather delays a claim until it can serve several workers. Most of a claim's cost does not depend on its number of
// items, and claims of all replicas run one at a time. Half of the workers start items while a claim serves the other
// half. If other replicas claim as well, their claims run meanwhile, and this one serves all workers.
//
// It waits at most as long as the last claim took, and only if starts are faster than claims: slower ones would leave
// the free workers without an item.
type gather struct {
	starts  time.Duration // moving average of a start's duration
	workers int           // how many must be free
	until   time.Time     // when to claim regardless
}

// started records the duration of a start.
func (g *gather) started(took time.Duration) {
	if g.starts == 0 {
		g.starts = took
	}
	g.starts += (took - g.starts) / 16
}

// plan plans the next claim after one that took so long.
func (g *gather) plan(batch claim.Batch, now time.Time, took time.Duration, workers int) {
	g.workers, g.until = workers/2, time.Time{}
	if batch.Shared {
		g.workers = workers
	}
	if batch.More && !batch.Capped && g.starts < took {
		g.until = now.Add(min(took, gatherMost))
	}
}

// waits reports whether the next claim waits for more workers.
func (g *gather) waits(now time.Time, free int) bool { return free < g.workers && now.Before(g.until) }
