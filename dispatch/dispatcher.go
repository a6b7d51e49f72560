// Package dispatch dispatches items to Temporal: it claims one item per free worker, starts the workflows, and settles
// the outcomes.
//
// An item may be dispatched more than once if a replica dies or an answer is lost. Its workflow is still started only
// once, because every attempt sends the same request.
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
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// Store is the part of the store that the dispatcher needs.
type Store interface {
	SettleAndClaim(ctx context.Context, started []claim.Settlement, wanted claim.Wanted) (claim.Batch, []int64, error)
	Heartbeat(ctx context.Context, held []claim.Held) ([]int64, error)
	Settle(ctx context.Context, verb claim.Verb, batch []claim.Settlement) ([]int64, error)
	// GiveBack takes back what is leased in this replica's name and not among held. It is not called during a claim.
	GiveBack(ctx context.Context, held []claim.Held) ([]int64, error)
	// Behind reports whether another item of the same workflow ID is to be started before this one.
	Behind(ctx context.Context, itemID int64) (bool, error)
	// Hasten makes items due now that wait because their starts failed.
	Hasten(ctx context.Context, itemIDs []int64) error
}

// Starter starts workflows in an engine. Outcomes say what errors mean.
type Starter interface {
	// Start starts an item's workflow, or finds that an earlier attempt has.
	Start(ctx context.Context, item claim.Item) (runID string, outcome engine.Outcome, err error)
	// Find looks for a workflow that an earlier attempt has started. If there is none, the outcome is engine.NotSent.
	Find(ctx context.Context, item claim.Item) (runID string, outcome engine.Outcome, err error)
	// Remedy returns what a person can do about an error of the namespace, or "" if that is not known.
	Remedy(err error, namespace string) string
}

// Gate coordinates a dispatcher with enqueuers, so that commits notify it while it sleeps and only then. notify.Gate
// implements it.
type Gate interface {
	// Sleep announces that the dispatcher is about to sleep. Once IsAsleep is true, every commit wakes it, and claims
	// can see everything committed before.
	Sleep()
	// Awake announces that the dispatcher looks at the table continuously and needs no notifications.
	Awake()
	// Busy announces that all workers have been busy for a while. Another replica is to be woken instead.
	Busy()
	// Call wakes the other replicas because more items are due than this replica has workers for.
	Call()
	// Distrust reports due work for which the replica on duty should have been woken. For the given time this replica
	// is woken, too.
	Distrust(how time.Duration)
	// OnDuty reports whether notifications are meant for this replica.
	OnDuty() bool
	// IsAsleep reports whether every commit of work wakes this replica.
	IsAsleep() bool
}

const (
	// claimErrorBase and claimErrorCap bound the backoff after a failed claim.
	claimErrorBase = 50 * time.Millisecond
	claimErrorCap  = 2 * time.Second
	// cappedAgain is how long an idle replica waits after a claim that hit the lease limit W. When another replica
	// frees room, no notification announces it.
	cappedAgain = 250 * time.Millisecond
	// settleGrace is how long after DrainTimeout settling is still retried while the database does not answer.
	settleGrace = 3 * time.Second
	// giveBackTimeout bounds the statement that gives back what the replica does not hold.
	giveBackTimeout = 5 * time.Second
)

// Dispatcher claims items and dispatches them. Its fields must be set before Run and must not change afterwards.
type Dispatcher struct {
	Store   Store
	Starter Starter
	// Workers is how many items are dispatched concurrently, at least 1. Each worker holds at most one leased item.
	Workers int
	// Lease is how long a claim holds an item without a heartbeat. Heartbeats are sent every Lease/3.
	Lease time.Duration
	// StartTimeout bounds one request to start a workflow. A request that is not answered in time is sent again later.
	StartTimeout time.Duration
	// DrainTimeout bounds how long dispatches in progress may take after Run is cancelled.
	DrainTimeout time.Duration
	// Wake delivers wake-ups: there may be work. It must not be nil.
	Wake *Wakeups
	// Gate decides which replica is notified. If nil, no replica is on duty and every wake-up looks at the table.
	Gate Gate
	// Namespaces returns the known namespaces that items may use; it must not block. A refusal by one namespace does
	// not hold up the others. If nil, all items use one namespace.
	Namespaces func() []string
	// Reached reports whether this replica can reach Temporal; it must not block. While it is false, a paused replica
	// does not probe with items, because each probe would keep its item from the other replicas. If nil, it probes.
	Reached func() bool
	// Answered returns when Temporal last answered a probe of its own, without an item; it must not block. An answer ends
	// a reported outage even if no item is left to try. If nil, only an item does.
	Answered func() time.Time
	// RefusedNamespace returns the namespace that Temporal does not serve according to the replica's own probe, or ""; it
	// must not block. It is reported as paused even if none of its items waits. If nil, only items tell.
	RefusedNamespace func() string
	// Vanished returns the lanes in which so many running executions are missing that nothing may be started there; it
	// must not block. If nil, there are none.
	Vanished func() []string
	// Dispatched is called after each successful dispatch and must not block. If nil, nothing is reported.
	Dispatched func(item *claim.Item, runID string)
	// Observer is told what the dispatcher does. If nil, nothing is reported.
	Observer Observer
	Log      *slog.Logger

	failing atomic.Pointer[error]
}

// run is the state of one Run. Only the claim loop uses the fields below outcomes.
type run struct {
	*Dispatcher
	observer Observer // never nil
	settler  *settler
	held     *held
	backoffs backoffs        // of items whose starts fail
	hasten   chan []int64    // items that wait though their lane accepts starts again
	items    chan claim.Item // sends never block: at most one item per worker
	outcomes chan result     // sends never block: each dispatch has at most one result in it

	idle             int
	repeating        int        // workers that repeat the start of an item which keeps its slot
	started          []*started // their workers are free, their claims are not ended yet
	settleAt         time.Time  // when to settle the started items at the latest
	roomy            bool       // W allowed more items, half as many as there are workers, as of the last claim
	expectsWork      bool       // a claim may find something
	look             bool       // something may have changed that no hint names
	moreDue          bool       // more is due than W or the workers allowed
	paused           bool       // by the settings, as of the last claim
	refused          bool       // Temporal accepts nothing, as far as known
	pausedNamespaces int
	cause            error // why a namespace was paused last
	pausedAt         time.Time
	named            []string // hints for the next claim
	sleeper          sleeper
	gather           gather
	stall            stall
	namespaces       namespaces
	errorGap         retry.Backoff // nil if the last claim was answered
	retryAt          time.Time
	dueAt            time.Time // when the next item becomes due; zero if none does
	// given are the claims of the items that workers have. One item may be among them twice, if its first claim was lost.
	given map[claim.Held]bool
	// giveBackAt is when to give back what the replica does not hold, and strayUntil until when a claim without an answer
	// may still be executed. Zero if all of its leases are known.
	giveBackAt, strayUntil time.Time
}

// result is what a dispatch reports to the claim loop.
type result struct {
	outcome engine.Outcome
	err     error
	asked   bool          // whether Temporal was asked
	sent    time.Time     // when Temporal was asked
	took    time.Duration // until Temporal answered; zero unless the workflow was started
	item    *claim.Item   // the dispatched item; nil if it was only settled
	// started still has to be settled. Nil means that the dispatch has ended.
	started *started
}

// Run claims and dispatches until ctx is cancelled. Then it stops claiming, lets dispatches in progress finish for up
// to DrainTimeout, cancels and releases the rest, and returns nil. Claims that it cannot release, because the database
// does not answer, end by lease expiry. A panic in the claim loop ends Run in the same way, with an error.
func (d *Dispatcher) Run(ctx context.Context) error {
	observer := cmp.Or[Observer](d.Observer, noObserver{})
	r := &run{
		Dispatcher: d,
		observer:   observer,
		settler: &settler{store: d.Store, observer: observer, lease: d.Lease, log: d.Log,
			requests: make(chan settleRequest, d.Workers)},
		hasten:      make(chan []int64, 1),
		items:       make(chan claim.Item, d.Workers),
		outcomes:    make(chan result, d.Workers),
		idle:        d.Workers,
		expectsWork: true,
		look:        true,
		given:       map[claim.Held]bool{},
		namespaces: namespaces{inUse: d.Namespaces, reached: d.Reached, answered: d.Answered,
			refused: d.RefusedNamespace, vanished: d.Vanished},
	}
	// Dispatches outlive ctx, so that those in progress finish instead of being cut off.
	work, breakOff := context.WithCancelCause(context.WithoutCancel(ctx))
	defer breakOff(nil)
	r.held = newHeld(d.Lease)

	var workers, settling, beating, hastening errgroup.Group
	beat, stopBeating := context.WithCancel(work)
	defer stopBeating()
	settle, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	settling.Go(func() error { r.settler.run(settle); return nil })
	beating.Go(func() error { r.heartbeats(beat); return nil })
	hastening.Go(func() error { r.hastens(beat); return nil })
	for range d.Workers {
		workers.Go(func() error { r.work(work); return nil })
	}

	err := contained(d.Log, "claim loop", func() { r.claims(ctx) })
	if r.Gate != nil {
		r.Gate.Busy() // leaves duty for good: the next replica on duty finds what this one would have been woken for
	}

	close(r.items)
	drain := time.AfterFunc(d.DrainTimeout, func() {
		breakOff(fmt.Errorf("drain timeout of %s has expired", d.DrainTimeout))
	})
	defer drain.Stop()
	grace := time.AfterFunc(d.DrainTimeout+settleGrace, func() {
		giveUp(fmt.Errorf("settle timeout of %s has expired", settleGrace))
	})
	defer grace.Stop()
	r.drain(&workers)
	close(r.settler.requests)
	_ = settling.Wait() // always nil
	stopBeating()
	_ = beating.Wait()
	_ = hastening.Wait()
	return err
}

// contained runs a part of the dispatcher and returns its panic as an error, so that no part ends while the others
// continue without it.
func contained(log *slog.Logger, part string, do func()) error {
	err := attempt.Contain(context.Background(), func(context.Context) error { do(); return nil })
	var panicked *attempt.PanicError
	if !errors.As(err, &panicked) {
		return nil
	}
	log.Error("Panic in the dispatcher", "part", part, "panic", postgres.Clean(fmt.Sprint(panicked.Value)), "stack",
		panicked.Stack)
	return fmt.Errorf("panic in the %s: %v", part, panicked.Value)
}
