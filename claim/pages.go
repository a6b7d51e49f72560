package claim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// unread is a part of what waits that the memory has yet to read: after a key queue, of the items that a transaction
// has enqueued or, without one, of all.
type unread struct {
	xid   *string
	after *keyQueue
}

// compares reports whether it is a part of the comparison with everything that waits.
func (u unread) compares() bool { return u.xid == nil }

// keyQueue is the items of a limit key, or those without one, at a priority of a workspace.
type keyQueue struct {
	workspace schedule.WorkspaceID
	priority  int
	key       string
}

// args returns the arguments of load for a page of at most so many key queues.
func (u unread) args(queues int) []any {
	if u.after == nil {
		return []any{u.xid, nil, nil, nil, queues}
	}
	return []any{u.xid, uuid.UUID(u.after.workspace).String(), u.after.priority, postgres.OrNull(u.after.key), queues}
}

// look reads the changes since the last look, and a page of what is unread. It loads everything if changes may be
// missing. It compares everything that waits with the memory once per compareInterval, unless a transaction holds that
// up, and returns the number of workspaces with due items that no notification or look had reported.
func (s *Store) look(ctx context.Context) (missed int, err error) {
	m := &s.memory
	if m.seen == "" {
		return 0, s.load(ctx)
	}
	if m.lookedAt.Sub(m.comparedAt) > compareInterval && !slices.ContainsFunc(m.unread, unread.compares) {
		m.comparedAt = time.Now()
		m.unread = append(m.unread, unread{})
	}
	if len(m.unread) > 0 && m.holdsUp(m.unread[0]) {
		m.unread = append(m.unread[1:], m.unread[0])
	}
	if len(m.unread) == 0 || m.holdsUp(m.unread[0]) {
		_, err = s.readChanges(ctx)
		return 0, err
	}
	page := m.unread[0]
	found, all, err := s.readWaiting(ctx, page, pageQueues)
	if err != nil {
		return 0, err
	}
	return s.learnPage(ctx, page, found, all)
}

// learnPage applies a page that was read a moment ago, and the changes since the last look. See look for what it
// returns.
func (s *Store) learnPage(ctx context.Context, page unread, found []waiting, all []schedule.Waiting) (missed int,
	err error) {
	m := &s.memory
	// First the changes, which are newer than the page: an item that came since the last look was not missed.
	seen := m.seen
	changed, err := s.readChanges(ctx)
	if err != nil || !changed.whole {
		return 0, err
	}
	if page.compares() {
		m.parked = nil
		if missed, err = s.missed(ctx, found, all, changed, seen); err != nil {
			return 0, err
		}
	}
	m.schedule.Load(all, changed.Changed)
	m.unread = m.unread[1:]
	if more := m.turnPage(page, all, pageQueues); !more && page.compares() {
		s.demand.forget(&m.schedule)
	}
	return missed, nil
}

// turnPage notes what follows a page that was read.
func (m *memory) turnPage(page unread, all []schedule.Waiting, queues int) (more bool) {
	if more = len(all) == queues; more {
		last := all[queues-1]
		page.after = &keyQueue{last.Workspace, last.Priority, last.Key}
		m.unread = append(m.unread, page)
	} else if page.compares() {
		m.schedule.Forget()
	}
	return more
}

// readChanges reads and applies the changes since the last look. If some may be missing, it loads everything.
func (s *Store) readChanges(ctx context.Context) (changed learnt, err error) {
	m := &s.memory
	asked, seen := time.Now(), m.seen
	rows, err := postgres.Read[news](ctx, s.Pool, "read changes", sql.Text("look"), seen, mostArrivals, m.epoch)
	if err != nil {
		return changed, err
	}
	if changed = m.learn(rows, asked); !changed.whole {
		return changed, s.load(ctx)
	}
	if changed.crowded {
		err = s.readArrivals(ctx, seen, changed)
	}
	return changed, err
}

// arrival is a row of arrivals: a key queue of a transaction.
type arrival struct {
	XID        string
	Workspace  schedule.WorkspaceID `db:"workspace_id"`
	Priority   int
	LimitKey   string
	Due        time.Time
	WakeNumber *int64
}

// readArrivals reads what was enqueued between the snapshot of the look before and that of the last one.
func (s *Store) readArrivals(ctx context.Context, before string, changed learnt) error {
	m := &s.memory
	rows, err := postgres.Read[arrival](ctx, s.Pool, "read arrivals", sql.Text("arrivals"), before, m.seen, pageQueues)
	if err != nil {
		m.seen = before // the next look reads the same changes again
		return err
	}
	queues := map[string]int{}
	for _, r := range rows {
		changed.Workspaces[r.Workspace] = true
		m.schedule.Learn(schedule.Change{Workspace: r.Workspace, Number: postgres.OrZero(r.WakeNumber), Waits: true,
			Priority: r.Priority, Key: r.LimitKey, Due: r.Due})
		if queues[r.XID]++; queues[r.XID] == pageQueues {
			m.unread = append(m.unread, unread{xid: &r.XID, after: &keyQueue{r.Workspace, r.Priority, r.LimitKey}})
		}
	}
	m.arrived += len(rows)
	return nil
}

// waiting is a row of a load.
type waiting struct {
	head
	Workspace       *schedule.WorkspaceID `db:"workspace_id"`
	Priority        *int
	LimitKey        string
	Due             *time.Time `db:"run_at"`
	ID              *int64
	WakeNumber      int64
	Held            *int
	Limit           *int `db:"slots"`
	BurstLimit      *int
	WorkspacePaused *bool
	Parked          bool
	OwnFull         bool
	AllFull         bool
}

// readWaiting reads a page of what waits.
func (s *Store) readWaiting(ctx context.Context, page unread, queues int) (found []waiting, all []schedule.Waiting,
	err error) {
	found, err = postgres.ReadWithin[waiting](ctx, loadTimeout, s.Pool, "load waiting items", sql.Text("load"),
		page.args(queues)...)
	if err != nil {
		return nil, nil, err
	}
	if len(found) == 0 {
		return nil, nil, errors.New(
			"load waiting items: pgdispatch.settings has no row: run `insert into pgdispatch.settings default values`")
	}
	all = make([]schedule.Waiting, 0, len(found))
	for _, r := range found {
		if r.Workspace != nil {
			if r.Priority == nil || r.Due == nil || r.ID == nil || r.Held == nil || r.Limit == nil || r.BurstLimit == nil ||
				r.WorkspacePaused == nil {
				return nil, nil, fmt.Errorf("load waiting items: %w",
					postgres.Unexpected("a line without its first item, its holders or its limits"))
			}
			all = append(all, schedule.Waiting{Workspace: *r.Workspace, Number: r.WakeNumber, Priority: *r.Priority,
				Key: r.LimitKey, From: schedule.Position{Due: *r.Due, ID: *r.ID}, Held: *r.Held, Limit: *r.Limit,
				BurstLimit: *r.BurstLimit, Paused: *r.WorkspacePaused, OwnFull: r.OwnFull, AllFull: r.AllFull})
		}
	}
	return found, all, nil
}

// load resets the schedule and reads everything that waits.
func (s *Store) load(ctx context.Context) error {
	m := &s.memory
	m.seen, m.unread = "", []unread{{}}
	epoch, err := postgres.Value[*string](ctx, s.Pool, "read the epoch", sql.Text("epoch"))
	if err != nil {
		return err
	}
	m.forgot = m.forgot || m.epoch != nil && (epoch == nil || *epoch != *m.epoch)
	m.epoch = epoch

	for more := true; more; {
		asked, page := time.Now(), m.unread[0]
		found, all, err := s.readWaiting(ctx, page, loadQueues)
		if err != nil {
			m.seen = "" // the next look loads again
			return err
		}
		if page.after == nil { // changes since then are read again
			m.schedule.Reset()
			m.learnHead(found[0].head, asked)
			m.comparedAt = asked.Add(rand.N(compareInterval / 10)) // replicas that start together do not compare together
		}
		m.unread = nil
		m.schedule.Load(all, schedule.Changed{})
		more = m.turnPage(page, all, loadQueues)
	}
	return nil
}

// missed returns in how many workspaces items were due of which no notification or look had reported anything. An item
// that was enqueued after the look before is not one: if the look after did not report it, another replica has claimed
// it meanwhile. Nor is a parked item.
func (s *Store) missed(ctx context.Context, found []waiting, all []schedule.Waiting, changed learnt,
	before string) (workspaces int, err error) {
	parked := map[int64]bool{}
	for _, r := range found {
		if r.Parked {
			parked[*r.ID] = true
		}
	}
	ids := []int64{}
	for _, w := range s.memory.schedule.Missed(found[0].Now, all, changed.Changed) {
		if !parked[w.From.ID] {
			ids = append(ids, w.From.ID)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	of, err := postgres.Values[string](ctx, s.Pool, "find missed items", sql.Text("enqueued_before"), ids, before)
	return len(of), err
}
