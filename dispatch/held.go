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
}

type lease struct {
	token    int64
	settling bool // its claim is being ended: a heartbeat that finds it gone says nothing
	lose     context.CancelCauseFunc
	// expiry loses the lease by this process's own monotonic clock, when it could not be renewed in time.
	expiry *time.Timer
}

func newHeld(d time.Duration) *held { return &held{lease: d, leases: map[int64]*lease{}} }

// add holds an item's lease until release is called. The context ends with claim.ErrLost when the lease is lost first.
func (h *held) add(ctx context.Context, item claim.Item) (_ context.Context, release func()) {
	ctx, lose := context.WithCancelCause(ctx)
	l := &lease{token: item.Token, lose: lose}
	l.expiry = time.AfterFunc(time.Until(item.Deadline), func() { lose(claim.ErrLost) })
	h.mu.Lock()
	h.leases[item.ID] = l
	h.mu.Unlock()
	return ctx, func() {
		h.mu.Lock()
		if h.leases[item.ID] == l {
			delete(h.leases, item.ID)
		}
		h.mu.Unlock()
		l.expiry.Stop()
		lose(nil)
	}
}

// settling says that an item's claim is about to be ended.
func (h *held) settling(item claim.Item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.leases[item.ID]; l != nil && l.token == item.Token {
		l.settling = true
	}
}

// drop lets an item's lease run out.
func (h *held) drop(item claim.Item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.leases[item.ID]; l != nil && l.token == item.Token {
		delete(h.leases, item.ID)
		l.expiry.Stop()
		l.lose(claim.ErrLost)
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
			l.expiry.Reset(time.Until(sent.Add(h.lease)))
		case !l.settling:
			l.lose(claim.ErrLost)
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
