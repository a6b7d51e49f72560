package operate

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// ReplicaState is the state of a replica at its last heartbeat.
type ReplicaState struct {
	// Busy is the number of items it held.
	Busy int `json:"busy"`
	// BreakerOpen reports whether its circuit breaker is open: Temporal accepts no workflows from it, so it has paused and
	// probes.
	BreakerOpen bool `json:"breaker_open"`
	// BreakerSince is since when it has been open. Nil if it is not.
	BreakerSince *time.Time `json:"breaker_since,omitempty"`
	// PausedNamespaces is the number of Temporal namespaces that it has paused because they accept no workflows.
	PausedNamespaces int `json:"paused_namespaces"`
	// Listening reports whether LISTEN is active. Nil means that LISTEN is disabled.
	Listening *bool `json:"listening,omitempty"`
	// OnDuty reports whether it is the replica that notifications are for.
	OnDuty bool `json:"on_duty"`
	// StartsPerSecond is its rate of starts over the last ten seconds or, if there were few, over the last minute.
	StartsPerSecond float64 `json:"starts_per_second"`
	// WakeUps counts, by source, what made it look at the table since it started.
	WakeUps map[string]int64 `json:"wake_ups,omitempty"`
}

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

// Minute is the activity of one minute. Ends are counted when a sweep sees them, some seconds later.
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

// noted is a minute and the database time at which it was read.
type noted struct {
	Minute
	Now time.Time
}

// activity returns the minutes since back ago without gaps, the current minute last. Nil if nothing was recorded.
func (s *Store) activity(ctx context.Context, back time.Duration) ([]Minute, error) {
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
