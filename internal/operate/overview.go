package operate

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Overview is a summary of the queue and the replicas. The cost of reading it does not grow with the queue.
type Overview struct {
	Depth    Depth     `json:"queue"`
	Replicas []Replica `json:"replicas"`
	// Minutes are the last sixty minutes, the current one last. Nil if no replica ran in them.
	Minutes []Minute `json:"minutes"`
	// Stalled lists what runs without progress, those with the most executions first.
	Stalled []StallFor `json:"stalled"`
	// Limits is how the limits of keys are used.
	Limits LimitUse `json:"limits"`
}

// overviewSpan is the time that Minutes covers.
const overviewSpan = time.Hour

// mostStalled is the maximum length of Stalled.
const mostStalled = 20

// MostLimits is the maximum length of Limits.Limits.
const MostLimits = 20

// Overview returns the current overview. Within workspaces it leaves out what cannot be told apart by workspace: the
// minutes, the limits, the task queues, the notification queue, and of the replicas all but what holds back starts.
// Counts then stop at 10,000.
func (s *Store) Overview(ctx context.Context) (o Overview, err error) {
	if s.Scope != nil {
		return s.scopedOverview(ctx)
	}
	if o.Depth, err = s.QueueDepth(ctx); err != nil {
		return o, err
	}
	if o.Replicas, err = s.Replicas(ctx); err != nil {
		return o, err
	}
	if o.Stalled, err = s.Stalled(ctx, mostStalled); err != nil {
		return o, err
	}
	if o.Limits, err = s.LimitUse(ctx, MostLimits); err != nil {
		return o, err
	}
	o.Minutes, err = s.activity(ctx, overviewSpan)
	return o, err
}

func (s *Store) scopedOverview(ctx context.Context) (o Overview, err error) {
	if o.Depth, err = s.depth(ctx, sql.Text("view_depth"), s.Scope, depthLimit); err != nil {
		return o, err
	}
	replicas, err := s.Replicas(ctx)
	if err != nil {
		return o, err
	}
	for _, r := range replicas {
		o.Replicas = append(o.Replicas, Replica{State: ReplicaState{BreakerOpen: r.State.BreakerOpen,
			BreakerSince: r.State.BreakerSince, Listening: r.State.Listening}})
	}
	o.Stalled, err = s.Stalled(ctx, mostStalled)
	return o, err
}

// Ended returns the number of executions that ended within the overview's minutes.
func (o Overview) Ended() (completed, failed, cancelled int64) {
	for _, m := range o.Minutes {
		completed, failed, cancelled = completed+m.Completed, failed+m.Failed, cancelled+m.Cancelled
	}
	return completed, failed, cancelled
}

// Latency is how long items waited for their start.
type Latency struct {
	P50, P99 time.Duration
	Starts   int64         // number of measured starts
	Over     time.Duration // length of the measured period
}

// DueToStarted returns the latency from when items became due until their workflows were started. Waits for capacity
// are in it. It is over the last two minutes or, if nothing was started in them, over the whole overview.
func (o Overview) DueToStarted() Latency {
	return o.latency(func(m Minute) Waits { return m.Waits })
}

// StartableToStarted returns the latency from when nothing but the replicas held items back until their workflows were
// started. It is over the same time as DueToStarted.
func (o Overview) StartableToStarted() Latency {
	return o.latency(func(m Minute) Waits { return m.StartableWaits })
}

func (o Overview) latency(of func(Minute) Waits) Latency {
	for _, minutes := range []int{2, len(o.Minutes)} {
		var waits Waits
		for _, m := range o.Minutes[max(len(o.Minutes)-minutes, 0):] {
			waits.Merge(of(m))
		}
		if total := waits.Total(); total > 0 {
			return Latency{waits.Quantile(.5), waits.Quantile(.99), total, time.Duration(minutes) * time.Minute}
		}
	}
	return Latency{}
}

// StartsPerSecond returns the sum of the replicas' start rates, each as of its last heartbeat.
func (o Overview) StartsPerSecond() (sum float64) {
	for _, r := range o.Replicas {
		sum += r.State.StartsPerSecond
	}
	return sum
}

// WakeUps returns the sums of the replicas' wake-ups by source, each counted since the replica started.
func (o Overview) WakeUps() map[string]int64 {
	all := map[string]int64{}
	for _, r := range o.Replicas {
		for source, count := range r.State.WakeUps {
			all[source] += count
		}
	}
	return all
}
