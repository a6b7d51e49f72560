package simpg

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// What replicas read from the simulated Postgres, and what becomes of started items.

// Seen is what each row of a look and of a load begins with.
type Seen struct {
	Seen         string
	UnansweredAt *time.Time
	Suspect      bool
}

func (s *Postgres) head() Seen {
	h := Seen{Seen: encodeSnapshot(s.snapshot())}
	if s.Lies == "open transactions are not told" {
		h.Seen = encodeSnapshot(snapshot{xmax: s.snapshot().xmin()})
	}
	if due, suspect := s.unansweredAt(); !due.IsZero() {
		h.UnansweredAt, h.Suspect = &due, suspect
	}
	return h
}

func encodeSnapshot(s snapshot) string {
	open := make([]string, 0, len(s.open))
	for _, xid := range slices.Sorted(slices.Values(s.open)) {
		open = append(open, fmt.Sprint(xid))
	}
	return fmt.Sprintf("%d:%d:%s", s.xmin(), s.xmax, strings.Join(open, ","))
}

func decodeSnapshot(text string) (s snapshot) {
	parts := strings.SplitN(text, ":", 3)
	_, _ = fmt.Sscan(parts[1], &s.xmax)
	for xid := range strings.SplitSeq(parts[2], ",") {
		var open int64
		if _, err := fmt.Sscan(xid, &open); err == nil {
			s.open = append(s.open, open)
		}
	}
	return s
}

// Look is the statement look. Gap means that everything must be loaded; all, that all limits may have changed.
func (s *Postgres) Look(seen string, most int, epoch *string) (h Seen, gap, all bool, changes []schedule.Change) {
	news := s.look(decodeSnapshot(seen), most)
	gap = news.gap || epoch == nil || *epoch != uuid.UUID(s.epoch).String()
	if s.Lies == "looks tell nothing" {
		news.changes = nil
	}
	for n := range news.changes {
		news.changes[n].Number = int64(news.changes[n].Workspace[0])
	}
	return s.head(), gap, news.all, news.changes
}

// EpochNow is the epoch that a sweep returns. Zero is none.
func (s *Postgres) EpochNow() string { return uuid.UUID(s.epoch).String() }

// EpochID is the statement epoch.
func (s *Postgres) EpochID(tx *Tx) string {
	s.beginEpoch(tx)
	return uuid.UUID(cmp.Or(s.epoch, tx.epoch)).String()
}

// Load is the statement load: the key queues after another, in their order, of a transaction or, if xid is 0, of all.
func (s *Postgres) Load(xid int64, after *schedule.Waiting, most int) (Seen, []schedule.Waiting) {
	all := s.load(func(r *itemRow) bool { return xid == 0 || r.xid == xid })
	order := func(a, b schedule.Waiting) int { // items without a key are last
		return cmp.Or(bytes.Compare(a.Workspace[:], b.Workspace[:]), b.Priority-a.Priority,
			strings.Compare(cmp.Or(a.Key, "\xff"), cmp.Or(b.Key, "\xff")))
	}
	slices.SortFunc(all, order)
	if after != nil {
		all = slices.DeleteFunc(all, func(w schedule.Waiting) bool { return order(w, *after) <= 0 })
	}
	return s.head(), all[:min(most, len(all))]
}

// Arrivals is the statement arrivals: for each transaction between two snapshots its first key queues.
func (s *Postgres) Arrivals(before, seen string, most int) map[int64][]schedule.Waiting {
	arrivals := map[int64][]schedule.Waiting{}
	for _, r := range s.rows {
		if _, known := arrivals[r.xid]; !known && r.status == rowWaits && !decodeSnapshot(before).sees(r.xid) &&
			decodeSnapshot(seen).sees(r.xid) {
			_, arrivals[r.xid] = s.Load(r.xid, nil, most)
		}
	}
	return arrivals
}

// EnqueuedBefore is the statement enqueued_before: the workspaces of those of the items that the snapshot sees.
func (s *Postgres) EnqueuedBefore(items []int64, seen string) (workspaces []string) {
	for _, id := range items {
		name := uuid.UUID(s.rows[id].workspace).String()
		if decodeSnapshot(seen).sees(s.rows[id].xid) && !slices.Contains(workspaces, name) {
			workspaces = append(workspaces, name)
		}
	}
	return workspaces
}

// Swept is what a sweep finds.
type Swept struct {
	Requeued     int
	NextExpiryIn *time.Duration
	Open, Mine   int
	OldestOpen   int64 // transaction
	Unwatched    bool
}

// Sweep is the statement sweep. alive reports whether a replica renews its presence.
func (s *Postgres) Sweep(tx *Tx, owner int, alive func(int) bool) (swept Swept) {
	before := len(tx.rows)
	s.requeue(tx)
	swept.Requeued, swept.OldestOpen = len(tx.rows)-before, s.snapshot().xmin()
	for _, row := range s.rows {
		if in := row.lease.Sub(s.now); row.status == rowClaimed && in > 0 &&
			(swept.NextExpiryIn == nil || in < *swept.NextExpiryIn) {
			swept.NextExpiryIn = &in
		}
		if row.status != rowDispatched {
			continue
		}
		if swept.Open++; row.watcher == owner {
			swept.Mine++
		}
		swept.Unwatched = swept.Unwatched || row.watcher == 0 || !alive(row.watcher)
	}
	return swept
}

// Trim deletes marks that every replica has seen.
func (s *Postgres) Trim() { s.trim() }

// WorkflowEnded says that the workflow of an item has ended at Temporal.
func (s *Postgres) WorkflowEnded(id int64) { s.ended[id] = true }

// Finish is the function finish for one item. It returns whether this is the first report of its end.
func (s *Postgres) Finish(tx *Tx, id int64) bool {
	row := s.rows[id]
	if row.status == rowEnded || row.status == rowWaits || row.over {
		return false
	}
	if s.Lies == "ends are not recorded" {
		return true
	}
	next := s.change(tx, row)
	next.over = true
	if row.status == rowDispatched {
		next.status = rowEnded
		tx.mark(schedule.Change{Workspace: row.workspace, Items: 1, Keys: row.keys()})
	}
	return true
}

// Adopt is the statement adopt: the unwatched executions that it takes over.
func (s *Postgres) Adopt(tx *Tx, owner, most int, watching []int64, alive func(int) bool) (taken []int64) {
	for _, row := range s.rows {
		unwatched := row.watcher == 0 || !alive(row.watcher) ||
			row.watcher == owner && !slices.Contains(watching, row.id)
		if row.status == rowDispatched && !row.locked && unwatched && len(taken) < most {
			s.change(tx, row).watcher = owner
			taken = append(taken, row.id)
		}
	}
	return taken
}

// GiveUpWatches is the statement give_up_watches. Nil means all.
func (s *Postgres) GiveUpWatches(tx *Tx, owner int, items []int64) {
	for _, r := range s.rows {
		if r.status == rowDispatched && !r.locked && r.watcher == owner && (items == nil || slices.Contains(items, r.id)) {
			s.change(tx, r).watcher = 0
		}
	}
}

// Holds reports whether an item holds a slot, or has one open change.
func (s *Postgres) Holds(id int64) bool { return s.rows[id].holds() }

// Left counts the items that have not ended and can: not those that wait for the limit key Full or for next year, nor
// those that a transaction keeps locked or that a trigger rejects.
func (s *Postgres) Left(kept *Tx) (left int) {
	for _, row := range s.rows[1:] {
		waits := row.status == rowWaits && (row.key == s.Full && row.key != "" || row.due.Sub(s.now) > year ||
			s.Refuses[row.id] || kept != nil && kept.version(row) != nil)
		if !waits && (row.status != rowEnded || row.locked) {
			left++
		}
	}
	return left
}

const year = 365 * 24 * time.Hour

// InsertCrowd adds so many key queues, whose items wait for next year, and behind them an item that is due.
func (s *Postgres) InsertCrowd(tx *Tx, queues int) {
	for n := range queues {
		s.insert(tx, schedule.WorkspaceID{1}, fmt.Sprintf("k%04d", n), 1, s.now.Add(2*year))
	}
	s.insert(tx, schedule.WorkspaceID{byte(s.Workspaces())}, "", 0, s.now)
}

// Rows counts all items.
func (s *Postgres) Rows() int { return len(s.rows) - 1 }

// Describe lists the items that have not ended.
func (s *Postgres) Describe() string {
	var b strings.Builder
	for _, row := range s.rows[1:] {
		if row.status != rowEnded || row.locked {
			fmt.Fprintf(&b, "item %d: status %d, owner %d, token %d, lost %d, due %s, lease %s, watched by %d, %t, %t\n",
				row.id, row.status, row.owner, row.token, row.lost, row.due.Format("05.000"), row.lease.Format("05.000"),
				row.watcher, row.locked, row.over)
		}
	}
	return b.String()
}

// LimitWorkspace changes the limits of a workspace, or those of its plan, at once. The transaction announces it.
func (s *Postgres) LimitWorkspace(tx *Tx, workspace, limit, burst int, plan bool) {
	s.limits[workspace+1], s.bursts[workspace+1] = limit, burst
	if tx.wakes = true; plan {
		tx.markAll()
	} else {
		tx.mark(schedule.Change{Workspace: schedule.WorkspaceID{byte(workspace + 1)}})
	}
}

// RoomInWorkspace gives a workspace a limit of at least one.
func (s *Postgres) RoomInWorkspace(tx *Tx, workspace int) {
	s.LimitWorkspace(tx, workspace, max(s.limits[workspace+1], 1), s.bursts[workspace+1], false)
}

// Pause stops all claims, or lets them go on.
func (s *Postgres) Pause(tx *Tx, paused bool) {
	s.paused = paused
	tx.markAll()
}

// Paused reports whether the settings stop all claims.
func (s *Postgres) Paused() bool { return s.paused }

// LimitKey sets the limit of a key in a workspace, or over all workspaces if that is -1, or deletes it.
func (s *Postgres) LimitKey(tx *Tx, key string, workspace, most int, rates []Rate, deleted bool) {
	of := scope{everywhere, key}
	if workspace >= 0 {
		of.workspace = schedule.WorkspaceID{byte(workspace + 1)}
	}
	s.setKeyLimit(tx, of, most, rates, deleted)
}

// CalmKeys leaves no key without room except for one, Full, until OpenKey gives it some.
func (s *Postgres) CalmKeys(tx *Tx, full string) {
	for _, l := range slices.Clone(s.keyLimits) {
		rates := slices.Clone(l.rates)
		for n := range rates {
			rates[n].Most = max(rates[n].Most, 1)
		}
		s.setKeyLimit(tx, l.scope, max(l.most, 1), rates, false)
	}
	s.Full = full
	s.setKeyLimit(tx, scope{everywhere, full}, 0, nil, false)
}

// OpenKey gives the full key room, by a limit or by none.
func (s *Postgres) OpenKey(tx *Tx, deleted bool) {
	s.setKeyLimit(tx, scope{everywhere, s.Full}, 1, nil, deleted)
	s.Full = ""
}

// SetAlive sets what reports whether a replica renews its presence.
func (s *Postgres) SetAlive(alive func(int) bool) { s.alive = alive }

// Workspaces is how many there are.
func (s *Postgres) Workspaces() int { return len(s.limits) - 1 }

// InsertUnseen adds an item that no trigger sees.
func (s *Postgres) InsertUnseen(workspace int) int64 {
	tx := s.begin(true)
	row := s.insert(tx, schedule.WorkspaceID{byte(workspace + 1)}, "", 0, s.now)
	row.xid, tx.rows[0].xid, s.Unseen = 0, 0, true
	s.close(tx, true)
	return row.id
}

// LockWaiting lets an application's transaction lock a waiting item. It returns its ID, or 0 if none waits.
func (s *Postgres) LockWaiting(tx *Tx) int64 {
	for _, r := range s.inOrder() {
		if (r.status == rowWaits || r.status == rowDoubt) && !r.locked {
			s.change(tx, r)
			return r.id
		}
	}
	return 0
}

// InsertRefused adds items that a trigger rejects in one workspace, and one item in another.
func (s *Postgres) InsertRefused(tx *Tx) {
	for range 30 {
		s.Refuses[s.insert(tx, schedule.WorkspaceID{1}, "", 0, s.now).id] = true
	}
	s.insert(tx, schedule.WorkspaceID{byte(s.Workspaces())}, "", 0, s.now)
}

// HasExpired reports whether a lease has ended that was not settled.
func (s *Postgres) HasExpired() bool {
	return slices.ContainsFunc(s.rows, func(r *itemRow) bool { return r.status == rowClaimed && !r.lease.After(s.now) })
}

// Payloads are the notifications of a transaction if the gate is shut: see the triggers in sql/schema/item.sql.
func (s *Postgres) Payloads(tx *Tx) (all []string) {
	first, keyed := map[string]time.Time{}, false
	for _, next := range tx.rows {
		if next.xid != tx.xid {
			continue
		}
		level := fmt.Sprintf("%d:%d", next.workspace[0], next.priority)
		if due, found := first[level]; !found || next.due.Before(due) {
			first[level] = next.due
		}
		keyed = keyed || next.key != ""
	}
	named := []string{}
	for _, level := range slices.Sorted(maps.Keys(first)) {
		named = append(named, fmt.Sprintf("%s:%d", level, first[level].UnixMicro()))
	}
	switch {
	case len(named) == 0:
	case keyed || len(named) > 4:
		all = append(all, "")
	default:
		all = append(all, strings.Join(named, ","))
	}
	if tx.wakes {
		all = append(all, "")
	}
	for _, mark := range tx.marks {
		waits := func(r *itemRow) bool { return r.workspace == mark.Workspace && r.status == rowWaits }
		switch {
		case mark.all, tx.wakes:
		case mark.Again || len(mark.Keys) > 0:
			all = append(all, "")
		case slices.ContainsFunc(s.rows, waits):
			all = append(all, fmt.Sprint(mark.Workspace[0]))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
