package telemetry

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sweeper"
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
	// Failing returns the parts of the upkeep that fail, with their errors. Nil means that none does.
	Failing func() map[string]string
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
	g.t = t
	_, err := t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		g.observeReplica(ctx, o)
		g.observeQueue(ctx, o)
		return nil
	}, t.gauges...)
	if err != nil {
		return fmt.Errorf("register gauges: %w", err)
	}
	return nil
}

func (g *Gauges) observeReplica(ctx context.Context, o metric.Observer) {
	i := g.t.instruments
	i.itemsHeld.set(o, float64(g.t.heldItems.held()))
	i.workers.set(o, float64(g.Workers))
	i.watches.set(o, float64(g.Watches()))
	paused, _ := g.t.pulse.pauses()
	i.breakerOpen.set(o, truth(g.t.BreakerOpen()))
	i.namespacesPaused.set(o, float64(paused))
	i.buildInfo.set(o, 1, label("version", g.t.version))
	i.ready.set(o, truth(g.Ready(ctx)))
	if g.Failing != nil {
		failing := g.Failing()
		for _, part := range upkeepParts() {
			_, fails := failing[part]
			i.upkeepFailing.set(o, truth(fails), label("part", part))
		}
	}
	if g.Listening != nil {
		i.listenerConnected.set(o, truth(g.Listening()))
		i.onDuty.set(o, truth(g.OnDuty()))
	}
}

// upkeepParts returns the names of all parts of the upkeep.
func upkeepParts() []string {
	recovery, housekeeping := sweeper.Parts()
	return slices.Concat(recovery, housekeeping)
}

func (g *Gauges) observeQueue(ctx context.Context, o metric.Observer) {
	i := g.t.instruments
	seen := g.recent(ctx)
	i.databaseUp.set(o, truth(seen.err == nil))
	if seen.err != nil {
		return
	}
	d := seen.depth
	oldest, unanswered := postgres.OrZero(d.OldestWaiting), postgres.OrZero(d.OldestUnanswered)
	i.queueItems.set(o, float64(d.Pending), label("status", "PENDING"))
	i.queueItems.set(o, float64(d.Scheduled), label("status", "SCHEDULED"))
	i.queueItems.set(o, float64(d.Claimed), label("status", "CLAIMED"))
	i.queueItems.set(o, float64(d.Dispatched), label("status", "DISPATCHED"))
	i.queueItems.set(o, float64(d.Unanswered), label("status", "UNANSWERED"))
	i.queueItems.set(o, float64(d.Uncertain), label("status", "UNCERTAIN"))
	i.oldestWaiting.set(o, oldest.Seconds())
	i.oldestUnanswered.set(o, unanswered.Seconds())
	i.oldestUncertain.set(o, postgres.OrZero(d.OldestUncertain).Seconds())
	i.deadLettersOpen.set(o, float64(d.DeadLetters))
	i.replicas.set(o, float64(d.Replicas))
	i.maxClaims.set(o, float64(d.MaxClaims))
	i.paused.set(o, truth(d.Paused))
	i.notificationQueue.set(o, d.NotifyQueue)
	i.itemsParked.set(o, float64(d.Parked))
	i.itemsFailingAlone.set(o, float64(d.FailingAlone))
	i.executionsMissing.set(o, float64(d.Missing))
	i.signalsUndelivered.set(o, float64(d.Signals))
	i.oldestSignal.set(o, postgres.OrZero(d.OldestSignal).Seconds())
	i.taskQueuesWithoutPoller.set(o, float64(d.IdleQueues))
	i.stalledExecutions.set(o, float64(d.WithoutPoller), label("reason", "no_poller"))
	i.stalledExecutions.set(o, float64(d.Failing), label("reason", "task_failing"))
	for _, w := range seen.workspaces {
		id := label("workspace_id", w.WorkspaceID)
		i.workspaceWaiting.set(o, float64(w.Waiting), id)
		i.workspaceActive.set(o, float64(w.Claimed+w.Running+w.Unanswered), id)
		i.workspaceLimit.set(o, float64(w.MaxConcurrentWorkflows), id)
	}
	if seen.limits != nil {
		i.observeLimits(*seen.limits, o)
	}
}

// otherLimits is the value of both labels for the sum of the limits without gauges of their own. No workspace has it as
// ID.
const otherLimits = "other"

func (i *instruments) observeLimits(use operate.LimitUse, o metric.Observer) {
	for _, l := range use.Limits {
		of := limitLabels(l.Key, l.WorkspaceID)
		i.limitActive.set(o, float64(l.Active), of)
		i.limitWaiting.set(o, float64(l.Waiting), of)
		i.limitFull.set(o, truth(l.Full()), of)
		if l.MaxConcurrent != nil {
			i.limitMax.set(o, float64(*l.MaxConcurrent), of)
		}
	}
	others := limitLabels(otherLimits, otherLimits)
	i.limitActive.set(o, float64(use.OthersActive), others)
	i.limitWaiting.set(o, float64(use.OthersWaiting), others)
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

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
