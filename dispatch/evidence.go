package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
)

const (
	// several is how many different items must fail in a row before their lane counts as failing: one item's fault says
	// nothing about the others.
	several = 3
	// many is how many different items must be refused for want of capacity within a second before their lane counts as
	// limited. Fewer refusals cost less than a limit would that single items put on all others.
	many = 10
	// limitedShare is the share of refused items, of those accepted within the same second, from which on a lane counts
	// as limited. Below it, repeating what was refused costs less than slowing down.
	limitedShare = 0.2
	// mostSuspects bounds what is remembered of items whose starts fail.
	mostSuspects = 10_000
)

// evidence tells the fault of a lane from the fault of single items. Only the claim loop uses it.
type evidence struct {
	// failed are the items whose starts failed since the lane last accepted one.
	failed map[int64]bool
	// suspects are the items whose starts failed before the lane accepted another one. Their failures say nothing about
	// the lane.
	suspects map[int64]bool
	// throttled are the items that Temporal refused within the last second for want of capacity.
	throttled map[int64]time.Time
}

// fails records that the start of an item failed, and reports whether the lane is at fault. An item that has failed
// before, here or on another replica, is no evidence.
func (e *evidence) fails(item int64, before bool) (lane bool) {
	if before || e.suspects[item] {
		return false
	}
	if e.failed == nil {
		e.failed = map[int64]bool{}
	}
	e.failed[item] = true
	return len(e.failed) >= several
}

// throttles records that Temporal refused an item for want of capacity. It returns how many different items it refused
// within a second, or zero if this one had failed before: then its failure says nothing about the lane.
func (e *evidence) throttles(now time.Time, item int64, before bool) (different int) {
	if before || e.suspects[item] {
		return 0
	}

	if e.throttled == nil {
		e.throttled = map[int64]time.Time{}
	}
	for other, at := range e.throttled {
		if now.Sub(at) > time.Second {
			delete(e.throttled, other)
		}
	}
	if _, again := e.throttled[item]; again {
		return 0
	}
	e.throttled[item] = now
	return len(e.throttled)
}

// accepts records that the lane accepted an item, or refused it for a reason of its own.
func (e *evidence) accepts(item int64) {
	delete(e.failed, item)
	delete(e.suspects, item)
	if len(e.failed) == 0 {
		return
	}

	if e.suspects == nil || len(e.suspects)+len(e.failed) > mostSuspects {
		e.suspects = map[int64]bool{}
	}
	for other := range e.failed {
		e.suspects[other] = true
	}
	clear(e.failed)
}

// backoffs delays items whose starts fail again and again, each by itself. It is safe for concurrent use.
type backoffs struct {
	mu    sync.Mutex
	tried map[int64]*tried
	// accepted is when each lane last accepted an item.
	accepted map[string]time.Time
	// paused are the lanes whose starts are paused; all means that all are.
	paused map[string]bool
	all    bool
}

// tried is what is remembered of an item whose last start failed.
type tried struct {
	times int       // in a row
	at    time.Time // of the last one
	until time.Time // the item is not claimed before
}

const (
	// aloneBase is the delay of an item whose start failed. It doubles with each further failure, up to aloneCap while its
	// lane accepts others, and otherwise up to probeCap. See also run_at_witness and hasten in package sql, which know
	// aloneCap.
	aloneBase = 500 * time.Millisecond
	aloneCap  = 30 * time.Second
	// throttledOften is how often in a row Temporal must refuse an item for want of capacity before that counts as the
	// item's fault: a namespace at its limit refuses any item now and then.
	throttledOften = 3
	// besideFor is how long an accepted item counts as evidence that its lane accepts others.
	besideFor = aloneCap
)

// next records that an item's start failed. It returns how long the item waits, and whether it is alone with that: its
// lane has accepted others meanwhile.
func (b *backoffs) next(now time.Time, item *claim.Item, outcome engine.Outcome) (delay time.Duration, alone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tried == nil || len(b.tried) > mostSuspects {
		b.tried = map[int64]*tried{}
	}
	t := b.tried[item.ID]
	if t == nil {
		t = &tried{at: now}
		b.tried[item.ID] = t
	}
	since := t.at
	t.at, t.until = now, now
	t.times++

	longest := probeCap
	switch paused := b.all || b.paused[item.Lane()]; {
	case paused && (outcome == engine.Unanswered || outcome == engine.Throttled):
		longest = probeBase // not its own fault; the next probe is another item
	case paused:
	case outcome == engine.Throttled && t.times <= throttledOften:
		return 0, false
	default:
		if alone = b.acceptsOthers(now, item.Lane(), since); alone {
			longest = aloneCap
		}
	}

	times := max(t.times, item.Tries+1)
	if outcome == engine.Throttled {
		times = max(times-throttledOften, 1)
	}
	delay = longest
	if doublings := times - 1; doublings < 6 {
		delay = min(aloneBase<<doublings, longest)
	}
	t.until = now.Add(delay)
	return delay, alone
}

// acceptsOthers reports whether a lane has accepted an item lately, or since the given time. The caller holds mu.
func (b *backoffs) acceptsOthers(now time.Time, lane string, since time.Time) bool {
	accepted := b.accepted[lane]
	return accepted.After(since) || !accepted.IsZero() && now.Sub(accepted) < besideFor
}

// accepts records that a lane has accepted an item.
func (b *backoffs) accepts(now time.Time, lane string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.accepted == nil {
		b.accepted = map[string]time.Time{}
	}
	b.accepted[lane] = now
}

// pause records which lanes are paused now.
func (b *backoffs) pause(lanes map[string]bool, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused, b.all = lanes, all
}

// isAlone reports whether a lane that is not paused has accepted items lately.
func (b *backoffs) isAlone(now time.Time, lane string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.all && !b.paused[lane] && b.acceptsOthers(now, lane, now)
}

// forget forgets an item whose start did not fail.
func (b *backoffs) forget(item int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tried, item)
}

// waiting returns the items whose delays have not passed, and begins their delays again from the shortest.
func (b *backoffs) waiting(now time.Time) (items []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for item, t := range b.tried {
		if t.until.After(now) {
			items = append(items, item)
			t.times, t.until = 0, time.Time{}
		}
	}
	slices.Sort(items)
	return items
}

// hastenTimeout bounds the statement that makes items due.
const hastenTimeout = 5 * time.Second

// hastens makes items due that the claim loop names, until ctx ends. If that fails, they wait for their time.
func (r *run) hastens(ctx context.Context) {
	for {
		var items []int64
		select {
		case <-ctx.Done():
			return
		case items = <-r.hasten:
		}
		within, cancel := context.WithTimeout(ctx, hastenTimeout)
		err := contained(r.Log, "hastening", func() {
			if err := r.Store.Hasten(within, items); err != nil && ctx.Err() == nil {
				r.Log.WarnContext(ctx, "Cannot resume items at once; they wait for up to half a minute", "items", len(items),
					"error", err)
			}
		})
		cancel()
		if err == nil {
			r.Wake.Ring("resume")
		}
	}
}

// resume makes all items due that wait because their starts failed: their lane accepts starts again.
func (r *run) resume(now time.Time) {
	items := r.backoffs.waiting(now)
	if len(items) == 0 {
		return
	}
	select {
	case r.hasten <- items:
	case earlier := <-r.hasten: // nobody has taken those yet
		r.hasten <- append(earlier, items...)
	}
}
