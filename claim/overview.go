package claim

import (
	"context"
	"time"
)

// Overview is all of it at a glance. What it costs to read does not grow with the queue.
type Overview struct {
	Depth    Depth     `json:"queue"`
	Replicas []Replica `json:"replicas"`
	// Minutes are the last sixty, the present one last; nil: no replica ran in them.
	Minutes []Minute `json:"minutes"`
	// Stalled is what runs and does not progress, that of the most executions first.
	Stalled []StallFor `json:"stalled"`
}

// overviewSpan is how far back an overview looks.
const overviewSpan = time.Hour

// mostStalled is how much an overview has of what does not progress.
const mostStalled = 20

// Overview reads it.
func (s *Store) Overview(ctx context.Context) (o Overview, err error) {
	if o.Depth, err = s.QueueDepth(ctx); err != nil {
		return o, err
	}
	if o.Replicas, err = s.Replicas(ctx); err != nil {
		return o, err
	}
	if o.Stalled, err = s.Stalled(ctx, mostStalled); err != nil {
		return o, err
	}
	o.Minutes, err = s.activity(ctx, overviewSpan)
	return o, err
}

// Ended counts what ended within the overview's minutes.
func (o Overview) Ended() (completed, failed, cancelled int64) {
	for _, m := range o.Minutes {
		completed, failed, cancelled = completed+m.Completed, failed+m.Failed, cancelled+m.Cancelled
	}
	return completed, failed, cancelled
}

// Pickup is how long items waited, from when they were due until their workflow was started.
type Pickup struct {
	P50, P99 time.Duration
	Starts   int64         // that were measured
	Over     time.Duration // the time in which they were
}

// Pickup is that of the last two minutes or, where nothing was started in them, of the hour.
func (o Overview) Pickup() Pickup {
	for _, minutes := range []int{2, len(o.Minutes)} {
		var waits Waits
		for _, m := range o.Minutes[max(len(o.Minutes)-minutes, 0):] {
			waits.Merge(m.Waits)
		}
		if total := waits.Total(); total > 0 {
			return Pickup{waits.Quantile(.5), waits.Quantile(.99), total, time.Duration(minutes) * time.Minute}
		}
	}
	return Pickup{}
}

// StartsPerSecond is what the replicas started of late, each since its heartbeat before the last.
func (o Overview) StartsPerSecond() (sum float64) {
	for _, r := range o.Replicas {
		sum += r.State.StartsPerSecond
	}
	return sum
}

// WakeUps counts what made the replicas look at the table, since each was started.
func (o Overview) WakeUps() map[string]int64 {
	all := map[string]int64{}
	for _, r := range o.Replicas {
		for source, count := range r.State.WakeUps {
			all[source] += count
		}
	}
	return all
}
