package dispatch

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/troubletest"
)

const (
	// late is the trouble of a call that names an item whose lease has expired.
	late   troubletest.Trouble = "a lease that it names has expired"
	panics troubletest.Trouble = "it panics"
)

// troubled wraps the fakes of a desk. One of their calls meets a trouble. Leases expire, a repeated start finds its
// run, and a claim sees new items only if it looks or has their hint. There are no polls.
type troubled struct {
	*desk
	calls *troubletest.Calls
	news  int             // items that no claim has seen yet
	runs  map[string]bool // the executions that have a run
	ended map[int64]string

	panicked bool
}

// items is how many items a desk in trouble has at first. The calls after their ends are not counted.
const items = 9

func (f *troubled) meet(call string) troubletest.Trouble {
	met := f.calls.Meet(call)
	if met == panics {
		f.panicked = true
		panic("boom")
	}
	return met
}

// expire returns leased items to the queue as a sweep does: their starts may have been sent.
func (f *troubled) expire(over func(item claim.Item) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, item := range f.leased {
		if over(item) {
			delete(f.leased, id)
			item.Unanswered, item.UnansweredFor = true, time.Second
			f.waiting = append(f.waiting, waitingItem{item: item})
			f.rings("sweeper")
		}
	}
}

// announce enqueues items that only a notification tells of.
func (f *troubled) announce(items int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.news += items
	f.Wake.Notified("1:0:0")
}

func (f *troubled) expireFirst(ids []int64) {
	if len(ids) > 0 {
		f.expire(func(item claim.Item) bool { return item.ID == ids[0] })
	}
}

func (f *troubled) sweep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
			f.expire(func(item claim.Item) bool { return !time.Now().Before(item.Deadline) })
		}
	}
}

func (f *troubled) Behind(context.Context, int64) (bool, error) { return false, nil }

func (f *troubled) SettleAndClaim(ctx context.Context, started []claim.Settlement,
	wanted claim.Wanted) (claim.Batch, []int64, error) {
	met := f.meet("claim")
	switch met {
	case troubletest.Unsent:
		return claim.Batch{LookAgainIn: -1}, nil, troubletest.Err
	case late:
		f.expireFirst(idsOf(started))
	}
	if wanted.Look || len(wanted.Named) > 0 {
		f.enqueue(f.news)
		f.news = 0
	}
	settled := f.settles(claim.Dispatched, started)
	batch, err := fakeStore{f.desk}.Claim(ctx, wanted)
	if met == troubletest.Unanswered {
		return claim.Batch{LookAgainIn: -1}, nil, troubletest.Err
	}
	return batch, settled, err
}

func (f *troubled) Settle(_ context.Context, verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
	met := f.meet("settle " + string(verb))
	switch met {
	case troubletest.Unsent:
		return nil, troubletest.Err
	case late:
		f.expireFirst(idsOf(batch))
	}
	settled := f.settles(verb, batch)
	if met == troubletest.Unanswered {
		return nil, troubletest.Err
	}
	return settled, nil
}

func (f *troubled) settles(verb claim.Verb, batch []claim.Settlement) []int64 {
	settled := fakeStore{f.desk}.putBack(verb, batch)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range batch {
		if slices.Contains(settled, s.ID) && (verb == claim.Dispatched || verb == claim.Fail) {
			f.ended[s.ID] = string(verb) + " " + s.RunID
		}
	}
	if len(f.ended) == items {
		f.calls.Over()
	}
	return settled
}

func (f *troubled) Heartbeat(ctx context.Context, held []claim.Held) ([]int64, error) {
	met := f.meet("heartbeat")
	if met == troubletest.Unsent {
		return nil, troubletest.Err
	}
	if met == late {
		f.expireFirst([]int64{held[0].ID})
	}
	f.mu.Lock()
	f.book.beats = append(f.book.beats, beatCall{f.now(), nil})
	var renewed []int64
	for _, h := range held {
		if item, leased := f.leased[h.ID]; leased && item.Token == h.Token {
			item.Deadline = time.Now().Add(f.Lease)
			f.leased[h.ID] = item
			renewed = append(renewed, h.ID)
		}
	}
	f.mu.Unlock()
	if met == troubletest.Unanswered {
		return nil, troubletest.Err
	}
	return renewed, nil
}

func (f *troubled) GiveBack(_ context.Context, held []claim.Held) ([]int64, error) {
	met := f.meet("give back")
	if met == troubletest.Unsent {
		return nil, troubletest.Err
	}
	var given []int64
	f.expire(func(item claim.Item) bool {
		lost := !slices.Contains(held, claim.Held{ID: item.ID, Token: item.Token})
		if lost {
			given = append(given, item.ID)
		}
		return lost
	})
	if met == troubletest.Unanswered {
		return nil, troubletest.Err
	}
	return given, nil
}

// Hasten fails or not; what it does not hasten waits for its time.
func (f *troubled) Hasten(ctx context.Context, itemIDs []int64) error {
	if f.meet("hasten") == troubletest.Unsent {
		return troubletest.Err
	}
	return fakeStore{f.desk}.Hasten(ctx, itemIDs)
}

func (f *troubled) Start(ctx context.Context, item claim.Item) (string, engine.Outcome, error) {
	met := f.meet("start")
	if met == troubletest.Unsent || met == late {
		return "", engine.Unanswered, serviceerror.NewUnavailable("connection reset")
	}
	if item.ID == 5 {
		return "", engine.Permanent, serviceerror.NewInvalidArgument("no such search attribute")
	}
	runID, outcome, err := fakeStarter{f.desk}.Start(ctx, item)
	if err == nil {
		f.mu.Lock()
		f.runs[item.ExecutionID] = true
		f.mu.Unlock()
	}
	if met == troubletest.Unanswered {
		return "", engine.Unanswered, serviceerror.NewUnavailable("connection reset")
	}
	return runID, outcome, err
}

func (f *troubled) Find(ctx context.Context, item claim.Item) (string, engine.Outcome, error) {
	if f.meet("find") != troubletest.None {
		return "", engine.Unanswered, serviceerror.NewUnavailable("connection reset")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runs[item.ExecutionID] {
		return "run-" + item.ExecutionID, engine.Started, nil
	}
	return "", engine.NotSent, nil
}

func (f *troubled) Remedy(err error, namespace string) string {
	return fakeStarter{f.desk}.Remedy(err, namespace)
}

func idsOf(batch []claim.Settlement) (ids []int64) {
	for _, s := range batch {
		ids = append(ids, s.ID)
	}
	return ids
}

// runInTrouble runs a dispatcher, one of whose calls may meet a trouble, and checks that all ends as it does without:
// every item has its run or its failure, no lease is renewed for nothing, and all workers take items.
func runInTrouble(t *testing.T, calls *troubletest.Calls) {
	const workers = 3
	f := &troubled{desk: newDesk(t, workers), calls: calls, runs: map[string]bool{}, ended: map[int64]string{}}
	f.Store, f.Starter, f.StartTimeout, f.PollInterval = f, f, 25*time.Second, 0
	f.onStart = func(ctx context.Context, item claim.Item) (string, error) {
		takes := time.Duration(item.ID) * 10 * time.Millisecond
		if item.ID == 3 {
			takes = 15 * time.Second // so that its lease is renewed
		}
		return starts(takes)(ctx, item)
	}
	sweeping, stopSweeps := context.WithCancel(t.Context())
	defer stopSweeps()
	go f.sweep(sweeping)
	f.enqueue(items - 2)
	f.run()
	looptest.Pass(25 * time.Millisecond)
	f.announce(1)
	looptest.Pass(50 * time.Millisecond)
	f.announce(1)
	looptest.Pass(3 * time.Minute)

	want := map[int64]string{}
	for id := int64(1); id <= items; id++ {
		want[id] = fmt.Sprintf("dispatched run-e%d", id)
	}
	want[5] = "fail "
	require.Equal(t, want, f.ended)
	require.Empty(t, f.leased)
	require.Empty(t, f.waiting)
	beats := len(f.seen().beats)
	looptest.Pass(time.Minute)
	require.Len(t, f.seen().beats, beats, "no lease is renewed for nothing")

	if f.panicked {
		require.Equal(t, "boom", f.log.Value("Panic in the dispatcher", "panic")+
			f.log.Value("Panic while dispatching a queue item", "panic"))
	}
	f.onStart, f.book.busiest = starts(time.Second), 0
	f.announce(workers)
	looptest.Pass(5 * time.Second)
	require.Equal(t, workers, f.seen().busiest, "every worker takes items")
}

func TestWhicheverCallFailsAllEndsAsIfNoneHad(t *testing.T) {
	t.Parallel()
	troubletest.Each(t, runInTrouble, late, panics)
}
