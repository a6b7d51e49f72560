package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// held tracks the workers' leases, so that one heartbeat renews them all and a lost lease stops its worker.
type held struct {
	lease time.Duration

	mu     sync.Mutex
	leases map[int64]*lease
	// expiry ends leases that were not renewed in time, by this process's monotonic clock. One timer serves all leases.
	// It fires at firesAt, which is no later than the earliest deadline.
	expiry  *time.Timer
	firesAt time.Time // zero if the timer is not set
}

type lease struct {
	id, token int64
	deadline  time.Time
	settling  bool // the claim is being ended, so a heartbeat that does not find it is not a loss
	lose      context.CancelCauseFunc
}

func newHeld(d time.Duration) *held { return &held{lease: d, leases: map[int64]*lease{}} }

// add tracks an item's lease until it is released. If the lease is lost before settling is called, lose is called with
// claim.ErrLost. An earlier lease of the same item is lost: Postgres has given the item again.
func (h *held) add(item *claim.Item, lose context.CancelCauseFunc) *lease {
	l := &lease{id: item.ID, token: item.Token, deadline: item.Deadline, lose: lose}
	h.mu.Lock()
	defer h.mu.Unlock()
	if earlier := h.leases[l.id]; earlier != nil {
		earlier.lost()
	}
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

// fireAt sets the timer. The caller must hold h.mu.
func (h *held) fireAt(at time.Time) {
	h.firesAt = at
	if h.expiry == nil {
		h.expiry = time.AfterFunc(time.Until(at), h.expire)
		return
	}
	h.expiry.Reset(time.Until(at))
}

// expire ends the leases that have expired and sets the timer for the next deadline.
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

// lost stops the worker. A worker that is settling is not stopped, because it may already be at its next item. The
// caller must hold held.mu.
func (l *lease) lost() {
	if !l.settling {
		l.lose(claim.ErrLost)
	}
}

// settling marks a lease whose claim is about to be ended.
func (h *held) settling(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.settling = true
}

// drop stops renewing an item's lease, so that it expires, and stops its worker.
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

// renewed applies the answer to a heartbeat for asked that was sent at sent. Leases that are not in ids are lost. It
// returns how many were lost.
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

// beat renews all leases once and returns the time until the next heartbeat.
func (r *run) beat(ctx context.Context) time.Duration {
	interval := r.Lease / 3
	asked := r.held.all()
	if len(asked) == 0 {
		return interval
	}
	sent := time.Now()
	ids, err := r.Store.Heartbeat(ctx, asked)
	r.observer.Renewed(err)
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
