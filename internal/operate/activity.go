package operate

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// StartWaits is how long started items had waited.
type StartWaits struct {
	// Due counts from when an item was due, so it includes waits for capacity. Startable counts from when nothing but
	// the replicas held it back.
	Due, Startable Waits
	// Workspaces counts the same items by the ID of their workspace.
	Workspaces map[string]WorkspaceStarts
}

// WorkspaceStarts is the started items of a workspace, and how long they had been due: their sum and the longest.
type WorkspaceStarts struct {
	Started         int
	Waited, Longest time.Duration
}

// Add counts one item.
func (w *StartWaits) Add(workspaceID string, due, startable time.Duration) {
	w.Due.Add(due)
	w.Startable.Add(startable)
	w.addTo(workspaceID, WorkspaceStarts{1, max(due, 0), max(due, 0)})
}

// Merge adds the counts of other.
func (w *StartWaits) Merge(other StartWaits) {
	w.Due.Merge(other.Due)
	w.Startable.Merge(other.Startable)
	for id, starts := range other.Workspaces {
		w.addTo(id, starts)
	}
}

func (w *StartWaits) addTo(workspaceID string, more WorkspaceStarts) {
	if w.Workspaces == nil {
		w.Workspaces = map[string]WorkspaceStarts{}
	}
	starts := w.Workspaces[workspaceID]
	w.Workspaces[workspaceID] = WorkspaceStarts{starts.Started + more.Started, starts.Waited + more.Waited,
		max(starts.Longest, more.Longest)}
}

// Waits is a histogram of how long items waited to be started. Bucket n ends at 2^(n/4)/8 ms, less than 20% above the
// bucket before it.
type Waits []int64

// maxWaits is the maximum number of buckets; they reach beyond a month.
const maxWaits = 140

// Add counts one item.
func (w *Waits) Add(waited time.Duration) {
	n := 0
	if eighths := waited.Seconds() * 8000; eighths > 1 {
		n = min(int(math.Ceil(4*math.Log2(eighths))), maxWaits-1)
	}
	if n >= len(*w) {
		*w = append(*w, make(Waits, n+1-len(*w))...)
	}
	(*w)[n]++
}

// Merge adds the counts of another histogram.
func (w *Waits) Merge(other Waits) {
	if len(other) > len(*w) {
		*w = append(*w, make(Waits, len(other)-len(*w))...)
	}
	for n, count := range other {
		(*w)[n] += count
	}
}

// Total returns the number of counted items.
func (w Waits) Total() (total int64) {
	for _, count := range w {
		total += count
	}
	return total
}

// Quantile returns an upper bound on the wait of that share of the items, for example 0.99. It is less than 20% too
// high. Zero if nothing was counted.
func (w Waits) Quantile(share float64) time.Duration {
	rank, seen := int64(math.Ceil(share*float64(w.Total()))), int64(0)
	for n, count := range w {
		if seen += count; count > 0 && seen >= rank {
			return time.Duration(math.Exp2(float64(n)/4) / 8 * float64(time.Millisecond))
		}
	}
	return 0
}

// Minute is the activity of one minute. Ends count in the minute in which a sweep sees them, or in the current one.
type Minute struct {
	At        time.Time `json:"at"`
	Started   int64     `json:"started"`
	Completed int64     `json:"completed"`
	Failed    int64     `json:"failed"`
	Cancelled int64     `json:"cancelled"`
	// Waiting, Claimed and Running are numbers of items at the first sweep of the minute, see Depth. Nil if there was no
	// sweep.
	Waiting *int64 `json:"waiting"`
	Claimed *int64 `json:"claimed"`
	Running *int64 `json:"running"`
	// Waits is from due to started, StartableWaits from startable to started; see StartWaits.
	Waits          Waits `json:"-"`
	StartableWaits Waits `json:"-"`
	// Passed is the elapsed part of the minute.
	Passed time.Duration `json:"-" db:"-"`
}

// Begins returns when the minute begins.
func (m Minute) Begins() time.Time { return m.At }

// StartsPerSecond returns the rate of starts. For the current minute it covers what the replicas have noted so far.
func (m Minute) StartsPerSecond() float64 {
	if m.Passed <= 0 {
		return 0
	}
	return float64(m.Started) / m.Passed.Seconds()
}

// Activity returns the minutes since back ago without gaps, the current one last. Nil if no replica ran in them. They
// are kept for a day, and not by workspace: a store within some has none.
func (s *Store) Activity(ctx context.Context, back time.Duration) ([]Minute, error) {
	if s.Scope != nil {
		return nil, nil
	}
	type noted struct {
		Minute
		Now time.Time // by the database's clock
	}
	rows, err := postgres.Read[noted](ctx, s.DB, "read activity", sql.Text("activity_read"), back)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	minutes := make([]Minute, int(back/time.Minute))
	now := rows[len(rows)-1].Now
	newest := now.Truncate(time.Minute)
	for n := range minutes {
		minutes[n].At = newest.Add(-time.Duration(len(minutes)-1-n) * time.Minute)
	}
	for _, row := range rows {
		if n := slices.IndexFunc(minutes, func(m Minute) bool { return m.At.Equal(row.At) }); n >= 0 {
			minutes[n] = row.Minute
		}
	}
	for n := range minutes {
		minutes[n].Passed = min(now.Sub(minutes[n].At), time.Minute)
	}
	return minutes, nil
}

// Condense joins every n minutes into one. Starts are added up, ends are averages per minute, and of the numbers of
// items it keeps the highest.
func Condense(minutes []Minute, n int) []Minute {
	joined := []Minute{}
	for len(minutes) > 0 {
		size := len(minutes) % n // the first may be of fewer
		if size == 0 {
			size = n
		}
		joined = append(joined, join(minutes[:size]))
		minutes = minutes[size:]
	}
	return joined
}

func join(minutes []Minute) Minute {
	all := Minute{At: minutes[0].At}
	for _, m := range minutes {
		all.Started, all.Passed = all.Started+m.Started, all.Passed+m.Passed
		all.Completed, all.Failed, all.Cancelled = all.Completed+m.Completed, all.Failed+m.Failed, all.Cancelled+m.Cancelled
		all.Waiting, all.Claimed, all.Running = higher(all.Waiting, m.Waiting), higher(all.Claimed, m.Claimed),
			higher(all.Running, m.Running)
		all.Waits.Merge(m.Waits)
		all.StartableWaits.Merge(m.StartableWaits)
	}
	n := int64(len(minutes))
	all.Completed, all.Failed, all.Cancelled = (all.Completed+n-1)/n, (all.Failed+n-1)/n, (all.Cancelled+n-1)/n
	return all
}

func higher(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// Stretch is a workspace's activity in some minutes. Ends are counted as those of a Minute.
type Stretch struct {
	At        time.Time
	Known     bool // false for the time before anything was recorded of any workspace
	Started   int64
	Completed int64
	Failed    int64
	Cancelled int64
	// Waited is how long the started items had been due, in total, and Longest the longest of these times.
	Waited, Longest time.Duration
}

// StretchMinutes is the number of minutes of a Stretch.
const StretchMinutes = 5

// WorkspaceActivity returns a workspace's activity since back ago without gaps, the current stretch last. It is kept
// for a day. Nil if the workspace is not in scope.
func (s *Store) WorkspaceActivity(ctx context.Context, id string, back time.Duration) ([]Stretch, error) {
	return postgres.Read[Stretch](ctx, s.DB, "read activity of workspace", sql.Text("workspace_activity_read"), id, back,
		s.Scope)
}

// JoinStretches adds up every n stretches.
func JoinStretches(all []Stretch, n int) []Stretch {
	joined := []Stretch{}
	for len(all) > 0 {
		size := (len(all)-1)%n + 1 // the first may be of fewer
		sum := Stretch{At: all[0].At}
		for _, s := range all[:size] {
			sum.Known = sum.Known || s.Known
			sum.Started, sum.Completed = sum.Started+s.Started, sum.Completed+s.Completed
			sum.Failed, sum.Cancelled = sum.Failed+s.Failed, sum.Cancelled+s.Cancelled
			sum.Waited, sum.Longest = sum.Waited+s.Waited, max(sum.Longest, s.Longest)
		}
		joined, all = append(joined, sum), all[size:]
	}
	return joined
}

// Begins returns when the stretch begins.
func (s Stretch) Begins() time.Time { return s.At }

// Active reports whether anything was started or ended.
func (s Stretch) Active() bool { return s.Started+s.Completed+s.Failed+s.Cancelled > 0 }

// LimitMinute is how a limit was used at one moment of a minute, as in a KeyLimit.
type LimitMinute struct {
	At      time.Time `json:"at"`
	Active  int64     `json:"active"`
	Waiting int64     `json:"waiting"`
}

// Begins returns when the minute begins.
func (m LimitMinute) Begins() time.Time { return m.At }

// ReadHistory reads the History of those of the limits that are in scope.
func (s *Store) ReadHistory(ctx context.Context, limits []KeyLimit) error {
	ids, places := make([]int64, len(limits)), map[int64]int{}
	for n, l := range limits {
		ids[n], places[l.ID] = l.ID, n
	}
	type row struct {
		LimitID int64
		LimitMinute
	}
	rows, err := postgres.Read[row](ctx, s.DB, "read the history of limits", sql.Text("limit_history"), ids, time.Hour,
		s.Scope)
	for _, r := range rows {
		l := &limits[places[r.LimitID]]
		l.History = append(l.History, r.LimitMinute)
	}
	return err
}
