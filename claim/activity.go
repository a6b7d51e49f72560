package claim

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Presence is what a replica says of itself with every heartbeat.
type Presence struct {
	Version string
	Workers int
	State   ReplicaState
}

// ReplicaState is how a replica was at its last heartbeat.
type ReplicaState struct {
	// Busy is how many items it had in its hands.
	Busy int `json:"busy"`
	// BreakerOpen: Temporal does not take workflows from it; it has paused and probes.
	BreakerOpen bool `json:"breaker_open"`
	// PausedNamespaces is how many of Temporal's namespaces take none from it.
	PausedNamespaces int `json:"paused_namespaces"`
	// Listening says whether LISTEN is in force; nil: it is off.
	Listening *bool `json:"listening,omitempty"`
	// OnDuty: notifications are meant for this replica.
	OnDuty bool `json:"on_duty"`
	// StartsPerSecond is what it started since the heartbeat before.
	StartsPerSecond float64 `json:"starts_per_second"`
	// WakeUps counts what made it look at the table, since it was started.
	WakeUps map[string]int64 `json:"wake_ups,omitempty"`
}

// Waits counts starts by how long their items had waited: the nth of those of up to 2^(n/4) eighths of a millisecond, which is
// less than a fifth more than those of the one before.
type Waits []int64

// maxWaits is enough for a month.
const maxWaits = 140

// Add counts one.
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

// Merge counts what another one counted.
func (w *Waits) Merge(other Waits) {
	if len(other) > len(*w) {
		*w = append(*w, make(Waits, len(other)-len(*w))...)
	}
	for n, count := range other {
		(*w)[n] += count
	}
}

// Total is how many were counted.
func (w Waits) Total() (total int64) {
	for _, count := range w {
		total += count
	}
	return total
}

// Quantile is what that share of all waited at the most, a fifth too long at the worst; 0 where there are none.
func (w Waits) Quantile(share float64) time.Duration {
	rank, seen := int64(math.Ceil(share*float64(w.Total()))), int64(0)
	for n, count := range w {
		if seen += count; count > 0 && seen >= rank {
			return time.Duration(math.Exp2(float64(n)/4) / 8 * float64(time.Millisecond))
		}
	}
	return 0
}

// NoteStarts adds what this replica started since its last note to the present minute.
func (s *Store) NoteStarts(ctx context.Context, waits Waits) error {
	return s.exec(ctx, "note starts", sql.ActivityNote, waits.Total(), []int64(waits))
}

// Minute is what happened in one. Ends are counted when a sweep sees them, some seconds later.
type Minute struct {
	At        time.Time `json:"at"`
	Started   int64     `json:"started"`
	Completed int64     `json:"completed"`
	Failed    int64     `json:"failed"`
	Cancelled int64     `json:"cancelled"`
	// Waiting, Claimed and Running are how many items did at the first sweep of the minute, see Depth; nil: nobody swept.
	Waiting *int64 `json:"waiting"`
	Claimed *int64 `json:"claimed"`
	Running *int64 `json:"running"`
	Waits   Waits  `json:"-"`
	// Passed is how much of the minute is over.
	Passed time.Duration `json:"-" db:"-"`
}

// StartsPerSecond is what was started a second. Of the present minute, it is what the replicas have noted so far.
func (m Minute) StartsPerSecond() float64 {
	if m.Passed <= 0 {
		return 0
	}
	return float64(m.Started) / m.Passed.Seconds()
}

// noted is a minute as it is read, and the time at which it was.
type noted struct {
	Minute
	Now time.Time
}

// activity reads the minutes of so long, none left out, the present one last.
func (s *Store) activity(ctx context.Context, back time.Duration) ([]Minute, error) {
	rows, err := read[noted](ctx, s.async(), "read activity", sql.ActivityRead, back)
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
