package operate

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Overview is a summary of the queue and the replicas. The cost of reading it does not grow with the queue.
type Overview struct {
	Depth    Depth     `json:"queue"`
	Replicas []Replica `json:"replicas"`
	// Minutes are the last sixty minutes, the current one last. Nil if no replica ran in them.
	Minutes []Minute `json:"minutes,omitempty"`
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
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { o.Depth, err = s.QueueDepth(ctx); return err })
	g.Go(func() (err error) { // takes about as long
		if o.Limits, err = s.LimitUse(ctx, MostLimits); err != nil {
			return err
		}
		if o.Replicas, err = s.Replicas(ctx); err != nil {
			return err
		}
		if o.Stalled, err = s.Stalled(ctx, mostStalled); err != nil {
			return err
		}
		o.Minutes, err = s.Activity(ctx, overviewSpan)
		return err
	})
	err = g.Wait()
	return o, err
}

func (s *Store) scopedOverview(ctx context.Context) (o Overview, err error) {
	if o.Depth, err = s.QueueDepth(ctx); err != nil {
		return o, err
	}
	if o.Replicas, err = s.shownReplicas(ctx); err != nil {
		return o, err
	}
	o.Stalled, err = s.Stalled(ctx, mostStalled)
	return o, err
}

// Standing returns an overview with only what says whether anything is started: the replicas, and of the depth
// MaxClaims and Paused. It costs a small part of Overview.
func (s *Store) Standing(ctx context.Context) (o Overview, err error) {
	settings, err := s.Settings(ctx)
	if err != nil {
		return o, err
	}
	o.Depth.MaxClaims, o.Depth.Paused = settings.MaxClaims, settings.Paused
	o.Replicas, err = s.shownReplicas(ctx)
	return o, err
}

// shownReplicas is Replicas or, within workspaces, of each only what holds back starts.
func (s *Store) shownReplicas(ctx context.Context) (shown []Replica, err error) {
	replicas, err := s.Replicas(ctx)
	if err != nil || s.Scope == nil {
		return replicas, err
	}
	for _, r := range replicas {
		shown = append(shown, Replica{State: ReplicaState{BreakerOpen: r.State.BreakerOpen,
			BreakerSince: r.State.BreakerSince, CodecAway: r.State.CodecAway, Listening: r.State.Listening}})
	}
	return shown, nil
}

// depthLimit is the number of items up to which a status is counted exactly. It bounds the cost of a read, however long
// the queue is.
const depthLimit = 10_000

// Depth is the current state of the whole queue. Counts below 10,000 are exact. From 10,000 on they are estimates from
// Postgres' statistics and never less than 10,000.
type Depth struct {
	Pending int64 `json:"pending"` // due; neither the scheduled, the unanswered nor the uncertain are in it
	// Scheduled is the number of PENDING items that are not due yet. It counts up to 10,000, and ScheduledExact reports
	// whether these are all.
	Scheduled      int64 `json:"scheduled"`
	ScheduledExact bool  `json:"scheduled_exact"`
	// Unanswered is the number of PENDING items whose start was sent and not answered. They hold slots: their workflows
	// may be running. OldestUnanswered is the time since the first of these starts was sent. Nil if there is none.
	Unanswered       int64          `json:"unanswered"`
	OldestUnanswered *time.Duration `json:"oldest_unanswered_ns"`
	// Uncertain is the number of PENDING items whose lease expired, because the answer to their claim or their replica was
	// lost: their start may have been sent or not. They hold slots, too. OldestUncertain is as above.
	Uncertain       int64          `json:"uncertain"`
	OldestUncertain *time.Duration `json:"oldest_uncertain_ns"`
	Claimed         int64          `json:"claimed"`
	Dispatched      int64          `json:"dispatched"`
	DeadLetters     int64          `json:"dead_letters"` // open, among the newest 10,000 failures
	// DeadLettersExact reports whether DeadLetters counts all open dead letters.
	DeadLettersExact bool `json:"dead_letters_exact"`
	// OldestWaiting is how long the oldest due item has been due. Nil if no item is due.
	OldestWaiting *time.Duration `json:"oldest_waiting_ns"`
	Replicas      int64          `json:"replicas"`   // live replicas
	MaxClaims     int            `json:"max_claims"` // W
	Paused        bool           `json:"paused"`
	// PausedSince and PausedBy are since when and by whom all claims have been paused, or max-claims is 0. Nil and empty
	// if neither is so, or if the audit log does not know, as after a change with plain SQL.
	PausedSince *time.Time `json:"paused_since,omitempty"`
	PausedBy    string     `json:"paused_by,omitempty"`
	// IdleQueues is the number of task queues with executions but no poller, WithoutPoller the number of executions on
	// them, and Failing the number of executions whose workflow task fails repeatedly, as of the last look for stalls.
	IdleQueues    int64 `json:"idle_task_queues"`
	WithoutPoller int64 `json:"executions_without_poller"`
	Failing       int64 `json:"executions_failing"`
	// NotifyQueue is the used fraction of the Postgres cluster's notification queue, 0 to 1; see notify.QueueBound.
	NotifyQueue float64 `json:"notification_queue"`
	// Parked is the number of items that cannot be claimed because a trigger or constraint rejects the update, and
	// ParkedFirst the ID and error of the one that was parked first. ParkedFirst is empty if there is none.
	Parked      int64  `json:"parked"`
	ParkedFirst string `json:"parked_first"`
	// FailingAlone is the number of items whose starts failed three times or more while others of their namespaces
	// started, and FailingAloneFirst the ID and error of the one that has failed for the longest time. Empty if there is
	// none.
	FailingAlone      int64  `json:"failing_alone"`
	FailingAloneFirst string `json:"failing_alone_first"`
	// Missing is the number of running executions that Temporal does not find, and Vanished the namespaces in which they
	// are so many that nothing is started.
	Missing  int64    `json:"missing"`
	Vanished []string `json:"vanished"`
	// Signals is the number of undelivered signals, and OldestSignal the age of the oldest whose turn it is. Nil if none
	// is. SignalsGivenUp is the number of those given up in the last day.
	Signals        int64          `json:"signals_undelivered"`
	OldestSignal   *time.Duration `json:"oldest_signal_ns"`
	SignalsGivenUp int64          `json:"signals_given_up"`
}

// VanishedRemedy is what a person can do if so many running executions are missing that nothing is started.
const VanishedRemedy = "check that TEMPORAL_ADDRESS leads to the right cluster, and that its store is not an older " +
	"copy; if the workflows are gone, `pgdispatch executions give-up --all`"

// NotifyQueueFills reports whether the notification queue is so full that triggers do not notify.
func (d Depth) NotifyQueueFills() bool { return d.NotifyQueue >= notify.QueueBound }

// IsEstimate reports whether a count of waiting or running items is an estimate from Postgres' statistics.
func IsEstimate(count int64) bool { return count >= depthLimit }

// QueueDepth returns the state of the queue or, within workspaces, of their part of it. It waits for no locks.
func (s *Store) QueueDepth(ctx context.Context) (Depth, error) {
	if s.Scope != nil {
		return s.depth(ctx, sql.Text("view_depth"), s.Scope, depthLimit)
	}
	return s.depth(ctx, sql.Text("queue_depth"), depthLimit)
}

func (s *Store) depth(ctx context.Context, statement string, args ...any) (Depth, error) {
	depths, err := postgres.Read[Depth](ctx, s.DB, "read queue depth", statement, args...)
	if err == nil && len(depths) != 1 {
		err = fmt.Errorf("read queue depth: pgdispatch.settings has %d rows, it must have one", len(depths))
	}
	if err != nil {
		return Depth{}, err
	}
	return depths[0], nil
}

// Replica is a live replica.
type Replica struct {
	ID       string        `json:"id"`
	Version  string        `json:"version"`
	Workers  int           `json:"workers"`
	Up       time.Duration `json:"up_ns"`
	Leased   int64         `json:"leased"`
	Watching int64         `json:"watching"`
	Heard    time.Duration `json:"heard_ns"` // time since its last heartbeat
	State    ReplicaState  `json:"state"`    // as of its last heartbeat
}

// Replicas returns the live replicas, the oldest first.
func (s *Store) Replicas(ctx context.Context) ([]Replica, error) {
	replicas, err := postgres.Read[Replica](ctx, s.DB, "read replicas", sql.Text("replicas"))
	for n, r := range replicas {
		if r.Heard > staleAfter {
			state := &replicas[n].State
			state.Stale, state.StartsPerSecond = true, 0
			state.BreakerOpen, state.BreakerSince, state.BreakerCause, state.CodecAway = false, nil, "", false
		}
	}
	return replicas, err
}

// staleAfter is the time without a heartbeat from which a replica's state is not known. Replicas send one every ten
// seconds, and one soon after each change.
const staleAfter = 12 * time.Second

// ActivitiesNeed says what makes Temporal start standalone activities.
const ActivitiesNeed = temporal.ActivitiesNeed

// ReplicaState is the state of a replica at its last heartbeat.
type ReplicaState struct {
	// Busy is the number of items it held.
	Busy int `json:"busy"`
	// BreakerOpen reports whether its circuit breaker is open: Temporal accepts no workflows from it, so it has paused and
	// probes.
	BreakerOpen bool `json:"breaker_open"`
	// BreakerSince is since when it has been open. Nil if it is not.
	BreakerSince *time.Time `json:"breaker_since,omitempty"`
	// BreakerCause is why it is open. Empty if it is not.
	BreakerCause string `json:"breaker_cause,omitempty"`
	// CodecAway reports whether the codec server cannot be used, so that nothing is sent to Temporal.
	CodecAway bool `json:"codec_away,omitempty"`
	// Codec identifies the codec server's endpoint: equal for replicas that have the same. Empty if it has none.
	Codec string `json:"codec,omitempty"`
	// Stale reports that the replica has missed heartbeats. Its breaker and its rate are not known then.
	Stale bool `json:"stale,omitempty"`
	// PausedNamespaces is the number of Temporal namespaces that it has paused because they accept no workflows.
	PausedNamespaces int `json:"paused_namespaces"`
	// NoActivities is the version of the Temporal server if it starts no standalone activities and one waits. Otherwise it
	// is empty. PausedNamespaces counts them as a namespace.
	NoActivities string `json:"no_activities,omitempty"`
	// Failing names the parts of its upkeep that fail: see sweeper.Parts.
	Failing []string `json:"failing,omitempty"`
	// Listening reports whether LISTEN is active. Nil means that LISTEN is disabled.
	Listening *bool `json:"listening,omitempty"`
	// OnDuty reports whether it is the replica that notifications are for.
	OnDuty bool `json:"on_duty"`
	// StartsPerSecond is its rate of starts over the last ten seconds or, if there were few, over the last minute.
	StartsPerSecond float64 `json:"starts_per_second"`
	// WakeUps counts, by source, what made it look at the table since it started.
	WakeUps map[string]int64 `json:"wake_ups,omitempty"`
}

// Stall is something that makes no progress: a task queue that no worker polls, or an execution whose workflow task
// fails repeatedly.
type Stall struct {
	Kind       string `json:"kind"` // TASK_QUEUE or EXECUTION
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"` // of the task queue, or the execution's ID
	Executions int    `json:"executions"`
	Detail     string `json:"detail"`
}

// StallFor is a stall and its age.
type StallFor struct {
	Stall
	Since time.Duration `json:"since_ns"` // time since it was detected
}

// Stalled returns up to atMost stalls, those with the most executions first. Of workspaces in scope it returns
// executions only, because a task queue belongs to none.
func (s *Store) Stalled(ctx context.Context, atMost int) ([]StallFor, error) {
	return postgres.Read[StallFor](ctx, s.DB, "read stalls", sql.Text("stalled"), atMost, s.Scope)
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
