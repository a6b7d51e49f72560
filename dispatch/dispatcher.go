// Package dispatch hands items over to Temporal: it claims as many as it has workers free, starts their workflows, and
// settles what came of it.
//
// An item may be handed over more than once, when a replica dies or an answer is lost. Its workflow is started once all the
// same, because every hand-over sends the same request.
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sethvargo/go-retry"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Store is the part of the store that the dispatcher needs.
type Store interface {
	SettleAndClaim(ctx context.Context, started []claim.Settlement, wanted claim.Wanted) (claim.Batch, []int64, error)
	Heartbeat(ctx context.Context, held []claim.Held) ([]int64, error)
	Settle(ctx context.Context, verb claim.Verb, batch []claim.Settlement) ([]int64, error)
}

// Starter starts workflows: TemporalStarter, or a fake in tests.
type Starter interface {
	Start(ctx context.Context, item claim.Item) (runID string, err error)
	Find(ctx context.Context, item claim.Item) (runID string, found bool, err error)
}

// Gate is what a dispatcher that sleeps agrees on with enqueuers, so that they notify it when it sleeps and only then:
// notify.Gate.
type Gate interface {
	// Sleep: the dispatcher is about to sleep. When IsAsleep is true, every commit wakes it; what was committed before can be
	// seen by a claim from then on.
	Sleep()
	// Awake: the dispatcher looks at the table all the time, and wants no notifications.
	Awake()
	// Busy: all workers are busy, and have been for a while. Another replica is to be woken in its place.
	Busy()
	// Call wakes the other replicas: more is due than this one has workers for.
	Call()
	// Distrust: work was due that whoever is on duty should have been woken for.
	Distrust(how time.Duration)
	OnDuty() bool
	IsAsleep() bool
}

const (
	// claimErrorBase and claimErrorCap bound the pauses after a claim that the database did not answer.
	claimErrorBase = 50 * time.Millisecond
	claimErrorCap  = 2 * time.Second
	// cappedAgain is how long a replica that holds nothing waits after a claim that met W: what others hold is not announced when it
	// ends.
	cappedAgain = 250 * time.Millisecond
	// settleGrace is how long after DrainTimeout a database that does not answer is still asked to settle.
	settleGrace = 3 * time.Second
)

// Dispatcher claims items and hands them over. Its fields are set before Run and not changed after.
type Dispatcher struct {
	Store   Store
	Starter Starter
	// Workers is how many items are handed over at the same time, at least 1. Each holds at most one leased item.
	Workers int
	// Lease is how long a claim holds an item without a heartbeat, which is sent every third of it.
	Lease time.Duration
	// StartTimeout bounds one request to start a workflow. What is not answered by then is sent again later.
	StartTimeout time.Duration
	// DrainTimeout bounds how long hand-overs under way may take once Run is to end.
	DrainTimeout time.Duration
	// Wake says that there may be work; the text says who says so, for the log. Work that nobody has announced in time is somebody
	// else's to look for, who says WakePoll. Its capacity is 1, and rings that find it
	// full are dropped: one look at the table serves them all.
	Wake <-chan string
	// Hints are what notifications said of where there is work; the ring of WakeNotification says that there are some. Nil: they say
	// nothing, and every ring is looked at.
	Hints *Hints
	// Gate decides who is notified. Nil: nobody is on duty, and every ring is looked at.
	Gate Gate
	// Namespaces says which namespaces items may be of, as far as is known; it must not block. What one of them refuses does not
	// hold up the others. Nil: all items are of one.
	Namespaces func() []string
	// Reached says whether Temporal answers this replica anything at all; it must not block. While it does not, a replica that has
	// paused does not try items to find out whether it may go on: each would be kept from the other replicas. Nil: it tries them.
	Reached func() bool
	// Dispatched is called after each successful hand-over, and must not block. Nil: nobody is told.
	Dispatched func(claim.Execution)
	// Observer is told what the dispatcher does. Nil: nobody is told.
	Observer Observer
	Log      *slog.Logger

	failing atomic.Pointer[error]
}

// run is the state of one Run. The fields below items belong to the claim loop alone.
type run struct {
	*Dispatcher
	settler  *settler
	held     *held
	items    chan claim.Item // never blocks: at most as many as there are workers
	outcomes chan result     // likewise: one at a time of each hand-over

	idle     int
	started  []*started // their workers are free, their claims not ended yet
	hungry   bool       // a claim may find something
	look     bool       // something may have changed that no hint names
	starved  bool       // more is due than W or the workers allowed
	paused   bool       // by the settings, at the last claim
	refused  bool       // Temporal takes nothing: nothing is claimed but probes
	named    []string   // the hints that the next claim takes
	doze     doze
	of       namespaces
	errorGap retry.Backoff // nil: the last claim was answered
	retryAt  time.Time
	dueAt    time.Time // when an item that waits for its time is due; zero: none does
}

// result is what the claim loop learns of a hand-over.
type result struct {
	outcome Outcome
	err     error
	asked   bool      // Temporal was asked
	sent    time.Time // when
	// waits is how long the item waits to be tried again; 0: it does not, or may be at once.
	waits time.Duration
	item  *claim.Item // that was handed over; nil: it was only settled
	// started is what is to be settled; nil: the hand-over has ended.
	started *started
}

// Run claims and hands over until ctx is cancelled. Then it claims nothing more, lets hand-overs under way finish for
// DrainTimeout, breaks off and releases the rest, and returns nil. What it could not release, because the database did not
// answer, is given up to the leases' expiry. A panic in the loop that claims ends it in the same way, with an error.
func (d *Dispatcher) Run(ctx context.Context) error {
	r := &run{
		Dispatcher: d,
		settler:    &settler{store: d.Store, lease: d.Lease, log: d.Log, requests: make(chan settleRequest, d.Workers)},
		items:      make(chan claim.Item, d.Workers),
		outcomes:   make(chan result, d.Workers),
		idle:       d.Workers,
		hungry:     true,
		look:       true,
		of:         namespaces{inUse: d.Namespaces, reached: d.Reached},
	}
	// Hand-overs outlive ctx: what is under way when it is cancelled is finished, not torn.
	work, breakOff := context.WithCancelCause(context.WithoutCancel(ctx))
	defer breakOff(nil)
	r.held = newHeld(d.Lease)

	var workers, settling, beating errgroup.Group
	beat, stopBeating := context.WithCancel(work)
	defer stopBeating()
	settle, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	settling.Go(func() error { r.settler.run(settle); return nil })
	beating.Go(func() error { r.heartbeats(beat); return nil })
	for range d.Workers {
		workers.Go(func() error { r.work(work); return nil })
	}

	err := contained(d.Log, "claim loop", func() { r.claims(ctx) })
	if r.Gate != nil {
		r.Gate.Busy() // for good: whoever is put on duty now finds what this replica would have been woken for
	}

	close(r.items)
	drain := time.AfterFunc(d.DrainTimeout, func() { breakOff(fmt.Errorf("drain timeout of %s is over", d.DrainTimeout)) })
	defer drain.Stop()
	grace := time.AfterFunc(d.DrainTimeout+settleGrace, func() { giveUp(fmt.Errorf("grace of %s to settle is over", settleGrace)) })
	defer grace.Stop()
	r.drain(&workers)
	close(r.settler.requests)
	_ = settling.Wait() // they return no errors
	stopBeating()
	_ = beating.Wait()
	return err
}

// claims is the loop that decides when to claim.
func (r *run) claims(ctx context.Context) {
	source := "start"
	for ctx.Err() == nil {
		r.collect()
		now := time.Now()
		if !r.dueAt.IsZero() && !now.Before(r.dueAt) {
			// Looked at here too: what came at the same moment as the timer may have taken its turn.
			r.hungry, r.look, r.dueAt, source = true, true, time.Time{}, "timer"
		}
		r.free(ctx, now)
		r.steer(now)
		if !r.doze.lookAt.IsZero() && !now.Before(r.doze.lookAt) {
			r.hungry, r.look, source = true, true, "timer"
		}
		free := r.idle + len(r.started)
		wanted := r.of.allows(now, free, r.Workers, r.hungry)
		r.hungry = r.hungry || r.of.reopened(wanted)
		switch may := wanted.AtMost > 0 && !now.Before(r.retryAt); {
		case r.hungry && may:
			r.claim(ctx, wanted, source)
			continue
		case r.doze.awake && !r.doze.lookAt.IsZero() && may: // the next look is about to come, and takes along what is started by then
		default:
			r.settleStarted()
		}
		select {
		case <-ctx.Done():
		case source = <-r.Wake:
			r.hungry = true
			r.woken(source, time.Now())
		case done := <-r.outcomes:
			r.learn(done)
			source = "worker"
		case <-r.timer(now):
			r.hungry, source = true, "timer"
		}
	}
}

// claim claims once and gives what it got to the workers.
func (r *run) claim(ctx context.Context, wanted claim.Wanted, source string) {
	r.observe(func(o Observer) { o.Woken(source) })
	began := time.Now()
	wanted.Holding = r.Workers - r.idle - len(r.started)
	wanted.Named, wanted.Look = r.named, r.look
	wanted.Quiet = r.Gate != nil && r.Gate.IsAsleep()
	r.named, r.look = nil, false
	// Not cancelled with ctx: a claim that is torn may be committed, and nobody would know what it holds.
	batch, settled, err := r.ask(context.WithoutCancel(ctx), wanted)
	r.doze.claimed(began, time.Now(), len(batch.Items) > 0)
	if err != nil {
		r.look = true // what was named was not claimed
		r.settleStarted()
		if !errors.Is(err, claim.ErrApart) { // the next claim has nothing to settle, and need not wait
			r.claimFailed(ctx, err)
		}
		return
	}
	r.endStarted(settled)
	if r.errorGap != nil {
		r.Log.InfoContext(ctx, "Claims are answered again")
		r.errorGap, r.retryAt = nil, time.Time{}
		r.failing.Store(nil)
	}
	r.idle -= len(batch.Items)
	r.of.claimed(time.Now(), wanted, batch.Items)
	r.dueAt = time.Time{}
	if batch.LookAgainIn >= 0 {
		// A moment later than the database says, so that a clock that runs a little fast does not look in vain.
		r.dueAt = time.Now().Add(batch.LookAgainIn + time.Millisecond)
	}
	// More, without W in the way, is what the claim was not asked for.
	r.hungry, r.starved = batch.More && !batch.Capped, batch.More
	if again := time.Now().Add(cappedAgain); batch.More && batch.Capped && r.idle == r.Workers && (r.dueAt.IsZero() || again.Before(r.dueAt)) {
		r.dueAt = again
	}
	r.looked(batch, wanted.AtMost, source)
	r.tell(ctx, batch)
	if len(batch.Items) > 0 {
		r.Log.DebugContext(ctx, "Processing queue items", "batch_size", len(batch.Items), "settled", len(settled),
			"wake_source", source, "claim_ms", milliseconds(time.Since(began)))
	}
	for _, item := range batch.Items {
		r.items <- item
	}
}

// ask has the store claim. Nobody knows what a panic has left there, so it is like no answer.
func (r *run) ask(ctx context.Context, wanted claim.Wanted) (batch claim.Batch, settled []int64, err error) {
	panicked := contained(r.Log, "store's claim", func() {
		batch, settled, err = r.Store.SettleAndClaim(ctx, r.settlements(), wanted)
	})
	return batch, settled, cmp.Or(err, panicked)
}

// collect takes back all workers that are done, so that one claim serves them all.
func (r *run) collect() {
	for {
		select {
		case done := <-r.outcomes:
			r.learn(done)
		default:
			return
		}
	}
}

// learn takes a worker back, and what its hand-over told of Temporal.
func (r *run) learn(done result) {
	if !r.keep(done) {
		r.idle++
	}
	if done.item != nil {
		r.of.of(done.item.Namespace).busy--
	}
	if done.outcome != Started { // its item may wait again
		r.hungry, r.look = true, true
	}
	r.hungry = r.hungry || r.starved
	if due := time.Now().Add(done.waits); done.waits > 0 && (r.dueAt.IsZero() || due.Before(r.dueAt)) {
		r.dueAt = due // nobody may announce it
	}
	if done.asked {
		r.heed(done)
	}
}

// heed takes note of what Temporal answered, or that it did not.
func (r *run) heed(done result) {
	now, name := time.Now(), done.item.Namespace
	limiter := &r.of.of(name).limiter
	switch done.outcome {
	case Blocked, Unreached, Unanswered:
		if r.of.trip(now, name, done.outcome) {
			r.Log.Error("Temporal does not take workflows: pausing, and probing until it does; items wait, and nothing is counted against them",
				"outcome", done.outcome.String(), "error", done.err, "namespace", name, "remedy", remedy(done.err, name))
		}
		r.tellPauses()
		r.hungry = true
		return
	case Throttled:
		if limiter.learn(now, done.sent, true) {
			r.Log.Warn("Temporal limits the rate of starts: slowing down; items wait, and nothing is counted against them",
				"starts_per_second", limiter.rate, "error", done.err, "namespace", name)
		}
		r.hungry = true
	default:
		limiter.learn(now, done.sent, false)
	}
	if r.of.answered(name) {
		r.tellPauses()
		r.hungry = true
		r.Log.Info("Temporal takes workflows again: resuming", "namespace", name)
	}
}

func (r *run) tellPauses() {
	paused, all := r.of.paused()
	r.refused = all
	r.observe(func(o Observer) { o.Paused(paused, all) })
}

// free ends limits of the rate that hold nothing back any more.
func (r *run) free(ctx context.Context, now time.Time) {
	for name, n := range r.of.known {
		if n.limiter.frees(now) {
			r.Log.InfoContext(ctx, "Temporal takes all starts again: back to full speed", "namespace", name)
		}
	}
}

// timer fires when the loop has something to do without being told: an item is due, a pause is over.
func (r *run) timer(now time.Time) <-chan time.Time {
	var at time.Time
	for _, candidate := range r.of.until([]time.Time{r.dueAt, r.retryAt, r.doze.lookAt, r.doze.leaveAt}) {
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
