package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// held knows which leases the workers hold, so that one heartbeat renews them all and a lost one stops its worker.
type held struct {
	lease time.Duration

	mu     sync.Mutex
	leases map[int64]*lease
	// expiry loses leases by this process's own monotonic clock, when they could not be renewed in time. It is one timer for all
	// of them, and fires at firesAt: no later than the earliest deadline.
	expiry  *time.Timer
	firesAt time.Time // zero: not at all
}

type lease struct {
	id, token int64
	deadline  time.Time
	settling  bool // its claim is being ended: a heartbeat that finds it gone says nothing
	lose      context.CancelCauseFunc
}

func newHeld(d time.Duration) *held { return &held{lease: d, leases: map[int64]*lease{}} }

// add holds an item's lease until it is released. Where it is lost before its claim is being ended, lose is told so: claim.ErrLost.
func (h *held) add(item *claim.Item, lose context.CancelCauseFunc) *lease {
	l := &lease{id: item.ID, token: item.Token, deadline: item.Deadline, lose: lose}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases[l.id] = l
	if h.firesAt.IsZero() || l.deadline.Before(h.firesAt) {
		h.fireAt(l.deadline)
	}
	return l
}

func (h *held) release(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leases[l.id] == l {
		delete(h.leases, l.id)
	}
}

// fireAt sets the timer. h.mu is held.
func (h *held) fireAt(at time.Time) {
	h.firesAt = at
	if h.expiry == nil {
		h.expiry = time.AfterFunc(time.Until(at), h.expire)
		return
	}
	h.expiry.Reset(time.Until(at))
}

// expire loses the leases that are over, and has the timer fire when the next will be.
func (h *held) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, next := time.Now(), time.Time{}
	for _, l := range h.leases {
		switch {
		case !now.Before(l.deadline):
			l.lost()
		case next.IsZero() || l.deadline.Before(next):
			next = l.deadline
		}
	}
	h.firesAt = time.Time{}
	if !next.IsZero() {
		h.fireAt(next)
	}
}

// lost stops the worker. The one whose claim is being ended needs no telling, and may be at its next item. The mutex of whoever holds
// the lease is held.
func (l *lease) lost() {
	if !l.settling {
		l.lose(claim.ErrLost)
	}
}

// settling says that a lease's claim is about to be ended.
func (h *held) settling(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.settling = true
}

// drop lets an item's lease run out.
func (h *held) drop(item *claim.Item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.leases[item.ID]; l != nil && l.token == item.Token {
		delete(h.leases, item.ID)
		l.lost()
	}
}

func (h *held) all() []claim.Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]claim.Held, 0, len(h.leases))
	for id, l := range h.leases {
		all = append(all, claim.Held{ID: id, Token: l.token})
	}
	slices.SortFunc(all, func(a, b claim.Held) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// renewed takes the answer to a heartbeat that was sent at sent for asked: what is not in ids is lost. It returns how many
// are.
func (h *held) renewed(sent time.Time, asked []claim.Held, ids []int64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := 0
	for _, a := range asked {
		l := h.leases[a.ID]
		switch {
		case l == nil || l.token != a.Token: // settled meanwhile
		case slices.Contains(ids, a.ID):
			l.deadline = sent.Add(h.lease)
		case !l.settling:
			l.lost()
			lost++
		}
	}
	return lost
}

// heartbeats renews all leases every third of a lease, in one statement, until ctx is cancelled.
func (r *run) heartbeats(ctx context.Context) {
	interval := r.Lease / 3
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := interval / 4
		_ = contained(r.Log, "heartbeat", func() { next = r.beat(ctx) })
		timer.Reset(next)
	}
}

// beat renews all leases once, and says when to do so again.
func (r *run) beat(ctx context.Context) time.Duration {
	interval := r.Lease / 3
	asked := r.held.all()
	if len(asked) == 0 {
		return interval
	}
	sent := time.Now()
	ids, err := r.Store.Heartbeat(ctx, asked)
	if err != nil {
		if ctx.Err() == nil {
			r.Log.WarnContext(ctx, "Cannot renew leases", "leases", len(asked), "error", err)
		}
		return interval / 4
	}
	if lost := r.held.renewed(sent, asked, ids); lost > 0 {
		r.Log.WarnContext(ctx, "Leases lost", "leases", lost)
	}
	return interval
}
