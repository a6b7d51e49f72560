package telemetry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// depthTimeout bounds one read of the queue's depth. It is shorter than a scrape's timeout.
	depthTimeout = 3 * time.Second
	// depthAge is the maximum age of a cached read. It bounds how often scrapes query the database.
	depthAge = 5 * time.Second
)

// Queue is the part of the store that Gauges reads.
type Queue interface {
	QueueDepth(ctx context.Context) (operate.Depth, error)
	WorkspaceStatistics(ctx context.Context, atMost int) ([]operate.WorkspaceStatistics, error)
	LimitUse(ctx context.Context, atMost int) (operate.LimitUse, error)
}

// Gauges reads a replica's state at the time of a scrape. Set its fields before Observe and do not change them
// afterwards.
type Gauges struct {
	Queue Queue
	// Workspaces is the number of workspaces with gauges of their own, those with the most items first. Zero disables
	// these gauges. Reading them counts every item of every workspace.
	Workspaces int
	// Limits is the number of limits with gauges of their own, the most used ones. The others are summed up.
	Limits  int
	Workers int
	// Watches returns the number of executions that the replica waits for at Temporal.
	Watches func() int
	// Listening reports whether LISTEN is active, OnDuty whether notifications are addressed to this replica.
	// Nil means that LISTEN is off.
	Listening, OnDuty func() bool
	// Ready reports whether the replica is ready.
	Ready func(ctx context.Context) bool

	t  *Telemetry
	mu sync.Mutex
	look
}

// look is one read of the queue's state.
type look struct {
	at         time.Time
	depth      operate.Depth
	workspaces []operate.WorkspaceStatistics
	limits     *operate.LimitUse // nil if they could not be read
	err        error
}

// Observe registers g, so that every scrape and every export reads it. It does nothing if metrics are off.
func (t *Telemetry) Observe(g *Gauges) error {
	if t.instruments == nil {
		return nil
	}
	g.t = t
	gauges := t.instruments.gauges
	all := make([]metric.Observable, 0, len(gauges))
	for _, name := range slices.Sorted(maps.Keys(gauges)) {
		all = append(all, gauges[name])
	}
	_, err := t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		set := func(name string, value float64, labels ...metric.ObserveOption) {
			o.ObserveFloat64(gauges[name], value, labels...)
		}
		g.observeReplica(ctx, set)
		g.observeQueue(ctx, set)
		return nil
	}, all...)
	if err != nil {
		return fmt.Errorf("register gauges: %w", err)
	}
	return nil
}

type setter func(name string, value float64, labels ...metric.ObserveOption)

func (g *Gauges) observeReplica(ctx context.Context, set setter) {
	set("pgdispatch_items_held", float64(g.t.heldItems.held()))
	set("pgdispatch_workers", float64(g.Workers))
	set("pgdispatch_watches", float64(g.Watches()))
	paused, _ := g.t.pulse.pauses()
	set("pgdispatch_breaker_open", truth(g.t.BreakerOpen()))
	set("pgdispatch_namespaces_paused", float64(paused))
	set("pgdispatch_build_info", 1, label("version", g.t.version))
	set("pgdispatch_ready", truth(g.Ready(ctx)))
	if g.Listening != nil {
		set("pgdispatch_listener_connected", truth(g.Listening()))
		set("pgdispatch_on_duty", truth(g.OnDuty()))
	}
}

func (g *Gauges) observeQueue(ctx context.Context, set setter) {
	seen := g.recent(ctx)
	set("pgdispatch_database_up", truth(seen.err == nil))
	if seen.err != nil {
		return
	}
	d := seen.depth
	oldest, unanswered := orZero(d.OldestWaiting), orZero(d.OldestUnanswered)
	set("pgdispatch_queue_items", float64(d.Pending), label("status", "PENDING"))
	set("pgdispatch_queue_items", float64(d.Claimed), label("status", "CLAIMED"))
	set("pgdispatch_queue_items", float64(d.Dispatched), label("status", "DISPATCHED"))
	set("pgdispatch_queue_items", float64(d.Unanswered), label("status", "UNANSWERED"))
	set("pgdispatch_oldest_waiting_seconds", oldest.Seconds())
	set("pgdispatch_oldest_unanswered_seconds", unanswered.Seconds())
	set("pgdispatch_dead_letters_open", float64(d.DeadLetters))
	set("pgdispatch_replicas", float64(d.Replicas))
	set("pgdispatch_max_claims", float64(d.MaxClaims))
	set("pgdispatch_paused", truth(d.Paused))
	set("pgdispatch_notification_queue_ratio", d.NotifyQueue)
	set("pgdispatch_items_parked", float64(d.Parked))
	set("pgdispatch_signals_undelivered", float64(d.Signals))
	set("pgdispatch_oldest_signal_seconds", orZero(d.OldestSignal).Seconds())
	set("pgdispatch_task_queues_without_poller", float64(d.IdleQueues))
	set("pgdispatch_stalled_executions", float64(d.WithoutPoller), label("reason", "no_poller"))
	set("pgdispatch_stalled_executions", float64(d.Failing), label("reason", "task_failing"))
	for _, w := range seen.workspaces {
		id := label("workspace_id", w.WorkspaceID)
		set("pgdispatch_workspace_waiting", float64(w.Waiting), id)
		set("pgdispatch_workspace_active", float64(w.Claimed+w.Running+w.Unanswered), id)
		set("pgdispatch_workspace_limit", float64(w.MaxConcurrentWorkflows), id)
	}
	if seen.limits != nil {
		observeLimits(*seen.limits, set)
	}
}

// otherLimits is the value of both labels for the sum of the limits without gauges of their own. No workspace has it as
// ID.
const otherLimits = "other"

func observeLimits(use operate.LimitUse, set setter) {
	for _, l := range use.Limits {
		of := limitLabels(l.Key, l.WorkspaceID)
		set("pgdispatch_limit_active", float64(l.Active), of)
		set("pgdispatch_limit_waiting", float64(l.Waiting), of)
		set("pgdispatch_limit_full", truth(l.Full()), of)
		if l.MaxConcurrent != nil {
			set("pgdispatch_limit_max", float64(*l.MaxConcurrent), of)
		}
	}
	others := limitLabels(otherLimits, otherLimits)
	set("pgdispatch_limit_active", float64(use.OthersActive), others)
	set("pgdispatch_limit_waiting", float64(use.OthersWaiting), others)
}

// limitLabels returns the labels of a limit. An empty workspace means over all workspaces.
func limitLabels(key, workspace string) metric.MeasurementOption {
	if workspace == "" {
		return label("key", key)
	}
	return metric.WithAttributes(attribute.String("key", key), attribute.String("workspace_id", workspace))
}

// recent reads the queue's state, or returns a read no older than depthAge. Concurrent callers share one read.
func (g *Gauges) recent(ctx context.Context) look {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.at.IsZero() && time.Since(g.at) < depthAge {
		return g.look
	}
	ctx, cancel := context.WithTimeoutCause(ctx, depthTimeout,
		fmt.Errorf("read queue depth timed out after %s", depthTimeout))
	defer cancel()
	var seen look
	if seen.depth, seen.err = g.Queue.QueueDepth(ctx); seen.err == nil && g.Workspaces > 0 {
		seen.workspaces, seen.err = g.Queue.WorkspaceStatistics(ctx, g.Workspaces)
	}
	g.t.failed("depth", seen.err)
	if seen.err == nil {
		seen.limits = g.readLimits(ctx)
	}
	seen.at = time.Now()
	g.look = seen
	return seen
}

// readLimits returns nil if the limits cannot be read, as with functions of an earlier version. The other gauges are
// not lost with them.
func (g *Gauges) readLimits(ctx context.Context) *operate.LimitUse {
	use, err := g.Queue.LimitUse(ctx, g.Limits)
	g.t.failed("depth", err)
	if err != nil {
		return nil
	}
	return &use
}

func orZero(d *time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return *d
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
