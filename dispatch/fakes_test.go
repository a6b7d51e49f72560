package dispatch

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// desk is a dispatcher for a synctest bubble, with a queue in memory instead of a database and a starter that succeeds
// immediately. Tests override this with the on... fields. All times count from the creation of the desk.
type desk struct {
	*Dispatcher
	t *testing.T
	// PollInterval is how often a poll sees work; 0: never.
	PollInterval time.Duration
	log          logtest.Book
	began        time.Time

	onClaim     func(atMost int) (claim.Batch, error)
	onHeartbeat func(held []claim.Held) ([]int64, error)
	onSettle    func(verb claim.Verb, batch []claim.Settlement) ([]int64, error)
	onStart     func(ctx context.Context, item claim.Item) (string, error)
	onFind      func(ctx context.Context, item claim.Item) (string, bool, error)
	onBehind    func(itemID int64) (bool, error)
	onGiveBack  func(held []claim.Held) ([]int64, error)

	mu       sync.Mutex
	enqueued int64 // the ID of the newest item
	waiting  []waitingItem
	leased   map[int64]claim.Item
	missing  map[int64]time.Time // since when lookups find no workflow of an item
	busy     int
	book     record
}

// record holds the calls of the fakes.
type record struct {
	claims    []claimCall
	limits    []map[string]int // of each claim
	beats     []beatCall
	settles   []settleCall
	givenBack []giveBackCall
	reported  []string // the executions reported to Dispatched
	busiest   int      // maximum of concurrent starts
}

type (
	waitingItem struct {
		item claim.Item
		due  time.Time
	}
	claimCall struct {
		at     time.Duration
		atMost int
	}
	beatCall struct {
		at  time.Duration
		ids []int64
	}
	giveBackCall struct {
		at   time.Duration
		held []claim.Held
	}
	settleCall struct {
		at    time.Duration
		verb  claim.Verb
		batch []claim.Settlement
		// inClaim: a claim carried it.
		inClaim bool
	}
)

func newDesk(t *testing.T, workers int) *desk {
	d := &desk{t: t, began: time.Now(), leased: map[int64]claim.Item{}, missing: map[int64]time.Time{},
		PollInterval: 5 * time.Second}
	d.Dispatcher = &Dispatcher{
		Store:        fakeStore{d},
		Starter:      fakeStarter{d},
		Workers:      workers,
		Lease:        30 * time.Second,
		StartTimeout: 5 * time.Second,
		DrainTimeout: 20 * time.Second,
		Wake:         &Wakeups{},
		Dispatched:   d.report,
		Log:          slog.New(&d.log),
	}
	return d
}

// enqueue adds items 1, 2 and so on that are due now.
func (d *desk) enqueue(items int) {
	for range items {
		d.enqueueItem(claim.Item{MaxAttempts: 3})
	}
}

func (d *desk) enqueueItem(item claim.Item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enqueued++
	item.ID = d.enqueued
	item.ExecutionID = "e" + strconv.FormatInt(item.ID, 10)
	d.waiting = append(d.waiting, waitingItem{item: item})
}

// run runs the dispatcher until the test ends, or until stop cancels it and waits for its return.
func (d *desk) run() (stop func()) {
	return looptest.Run(d.t, func(ctx context.Context) error {
		if d.PollInterval > 0 {
			go d.poll(ctx)
		}
		return d.Run(ctx)
	})
}

// poll is the sweeper: it wakes the dispatcher at each look that sees due work.
func (d *desk) poll(ctx context.Context) {
	ticker := time.NewTicker(d.PollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		d.rings(WakePoll)
	}
}

// rings wakes the dispatcher, as a notification without a payload or for another reason to look.
func (d *desk) rings(source string) {
	if source == WakeNotification {
		d.Wake.Notified("")
	} else {
		d.Wake.Ring(source)
	}
}

func (d *desk) now() time.Duration { return time.Since(d.began) }

func (d *desk) report(item *claim.Item, runID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book.reported = append(d.book.reported, item.ExecutionID+"="+runID)
}

// seen returns the calls of the fakes so far.
func (d *desk) seen() record {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.book
	seen.limits = slices.Clone(seen.limits)
	seen.claims, seen.beats = slices.Clone(seen.claims), slices.Clone(seen.beats)
	seen.settles, seen.reported = slices.Clone(seen.settles), slices.Clone(seen.reported)
	return seen
}

// claimTimes returns the time of each claim.
func (d *desk) claimTimes() []time.Duration {
	times := []time.Duration{}
	for _, c := range d.seen().claims {
		times = append(times, c.at)
	}
	return times
}

// settlements returns all requested settlements, in order.
func (d *desk) settlements() []claim.Settlement {
	var all []claim.Settlement
	for _, s := range d.seen().settles {
		all = append(all, s.batch...)
	}
	return all
}

// verbs returns the settlements' verbs, in order.
func (d *desk) verbs() []claim.Verb {
	var verbs []claim.Verb
	for _, s := range d.settlements() {
		verbs = append(verbs, s.Verb)
	}
	return verbs
}

type fakeStore struct{ *desk }

func (f fakeStore) SettleAndClaim(ctx context.Context, started []claim.Settlement,
	wanted claim.Wanted) (claim.Batch, []int64, error) {
	var settled []int64
	if len(started) > 0 {
		var err error
		if settled, err = f.settle(claim.Dispatched, started, true); err != nil {
			return claim.Batch{LookAgainIn: -1}, nil, err
		}
	}
	batch, err := f.Claim(ctx, wanted)
	return batch, settled, err
}

func (f fakeStore) Claim(ctx context.Context, wanted claim.Wanted) (claim.Batch, error) {
	atMost := wanted.AtMost
	f.mu.Lock()
	f.book.claims = append(f.book.claims, claimCall{f.now(), atMost})
	f.book.limits = append(f.book.limits, maps.Clone(wanted.Namespaces))
	f.mu.Unlock()
	if f.onClaim == nil {
		return f.take(wanted), nil
	}
	batch, err := f.onClaim(atMost)
	if ctx.Err() != nil { // committed, but the answer is lost
		return claim.Batch{LookAgainIn: -1}, ctx.Err()
	}
	return batch, err
}

// take removes items in their order, up to the wanted number per namespace.
func (f fakeStore) take(wanted claim.Wanted) claim.Batch {
	atMost, left := wanted.AtMost, maps.Clone(wanted.Namespaces)
	f.mu.Lock()
	defer f.mu.Unlock()
	batch := claim.Batch{LookAgainIn: -1}
	now := time.Now()
	fresh := wanted.Fresh && slices.ContainsFunc(f.waiting, func(w waitingItem) bool { return !w.item.Unanswered })
	repeats := atMost - wanted.Reserved
	f.waiting = slices.DeleteFunc(f.waiting, func(w waitingItem) bool {
		switch {
		case w.due.After(now):
			if wait := w.due.Sub(now); batch.LookAgainIn < 0 || wait < batch.LookAgainIn {
				batch.LookAgainIn = wait
			}
			return false
		case w.item.Unanswered && (fresh || repeats <= 0):
			return false
		case len(batch.Items) == atMost:
			batch.More = true
			return false
		}
		if allowed, limited := left[w.item.Namespace]; limited {
			if allowed == 0 {
				return false
			}
			left[w.item.Namespace]--
		}
		item := w.item
		if item.Unanswered {
			repeats--
		}
		item.Token++
		item.AttemptCount++
		item.Deadline = now.Add(f.Lease)
		if since := f.missing[item.ID]; !since.IsZero() {
			item.MissingFor = max(now.Sub(since), 1)
		}
		f.leased[item.ID] = item
		batch.Items = append(batch.Items, item)
		return true
	})
	return batch
}

func (f fakeStore) Heartbeat(_ context.Context, held []claim.Held) ([]int64, error) {
	ids := make([]int64, len(held))
	for n, h := range held {
		ids[n] = h.ID
	}
	f.mu.Lock()
	f.book.beats = append(f.book.beats, beatCall{f.now(), ids})
	f.mu.Unlock()
	if f.onHeartbeat != nil {
		return f.onHeartbeat(held)
	}
	return ids, nil
}

func (f fakeStore) GiveBack(_ context.Context, held []claim.Held) ([]int64, error) {
	f.mu.Lock()
	f.book.givenBack = append(f.book.givenBack, giveBackCall{f.now(), held})
	f.mu.Unlock()
	if f.onGiveBack != nil {
		return f.onGiveBack(held)
	}
	return nil, nil
}

func (f fakeStore) Behind(_ context.Context, itemID int64) (bool, error) {
	return f.onBehind(itemID)
}

// Hasten makes waiting items due.
func (f fakeStore) Hasten(_ context.Context, itemIDs []int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, w := range f.waiting {
		if slices.Contains(itemIDs, w.item.ID) {
			f.waiting[n].due = time.Time{}
		}
	}
	return nil
}

func (f fakeStore) Settle(_ context.Context, verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
	return f.settle(verb, batch, false)
}

func (f fakeStore) settle(verb claim.Verb, batch []claim.Settlement, inClaim bool) ([]int64, error) {
	f.mu.Lock()
	f.book.settles = append(f.book.settles, settleCall{f.now(), verb, slices.Clone(batch), inClaim})
	f.mu.Unlock()
	if f.onSettle != nil {
		return f.onSettle(verb, batch)
	}
	return f.putBack(verb, batch), nil
}

// putBack moves items as the statements do.
func (f fakeStore) putBack(verb claim.Verb, batch []claim.Settlement) []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []int64
	for _, s := range batch {
		item, ok := f.leased[s.ID]
		if !ok || item.Token != s.Token {
			continue
		}
		delete(f.leased, s.ID)
		ids = append(ids, s.ID)
		item.Unanswered, item.UnansweredFor = s.Unanswered || s.Alone, 0
		if s.Unanswered {
			item.UnansweredFor = time.Second
		}
		if s.Alone {
			item.Tries++
			item.FailingFor += s.Delay
			item.LastError = s.Error
		}
		if s.Missing && f.missing[s.ID].IsZero() {
			f.missing[s.ID] = time.Now()
		}
		switch verb {
		case claim.Retry:
			item.FailureCount++
			f.waiting = append(f.waiting, waitingItem{item, time.Now().Add(s.Delay)})
		case claim.Release:
			item.AttemptCount--
			waits := waitingItem{item: item}
			if s.Delay > 0 {
				waits.due = time.Now().Add(s.Delay)
			}
			f.waiting = append(f.waiting, waits)
		default:
			continue
		}
		f.rings(WakeNotification)
	}
	return ids
}

type fakeStarter struct{ *desk }

func (f fakeStarter) Start(ctx context.Context, item claim.Item) (runID string, outcome engine.Outcome, err error) {
	f.mu.Lock()
	f.busy++
	f.book.busiest = max(f.book.busiest, f.busy)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.busy--
		f.mu.Unlock()
	}()
	if f.onStart == nil {
		return "run-" + item.ExecutionID, engine.Started, nil
	}
	runID, err = f.onStart(ctx, item)
	return runID, temporal.Classify(err), err
}

func (f fakeStarter) Find(ctx context.Context, item claim.Item) (string, engine.Outcome, error) {
	if f.onFind == nil {
		return "", engine.NotSent, nil
	}
	runID, found, err := f.onFind(ctx, item)
	if err == nil && !found {
		return "", engine.NotSent, nil
	}
	return runID, temporal.Classify(err), err
}

func (fakeStarter) Remedy(err error, namespace string) string { return temporal.Remedy(err, namespace) }

// observed has the dispatcher report to the observer that it returns.
func (d *desk) observed() *fakeObserver {
	observer := &fakeObserver{}
	d.Observer = observer
	return observer
}

// stubborn returns an onStart that takes this long and ignores its context.
func stubborn(takes time.Duration) func(context.Context, claim.Item) (string, error) {
	return func(context.Context, claim.Item) (string, error) { time.Sleep(takes); return "run", nil }
}

// startsByID returns an onStart that takes this long times the item's ID.
func startsByID(unit time.Duration) func(context.Context, claim.Item) (string, error) {
	return func(ctx context.Context, item claim.Item) (string, error) {
		return starts(time.Duration(item.ID)*unit)(ctx, item)
	}
}

// starts returns an onStart that takes this long, and stops when its context ends.
func starts(takes time.Duration) func(context.Context, claim.Item) (string, error) {
	return func(ctx context.Context, item claim.Item) (string, error) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(takes):
			return "run-" + item.ExecutionID, nil
		}
	}
}
