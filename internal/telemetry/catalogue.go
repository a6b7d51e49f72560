package telemetry

import "slices"

// The kinds of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// Metric describes one metric. Scrapes and OTLP use the same name, which includes unit and kind.
type Metric struct {
	Name, Kind, Unit string
	// Former is the name that the metric had before. It is exported, too, until the next minor version. Empty if there is
	// none.
	Former string
	// Label is the metric's label. Empty means that it has none.
	Label string
	// Within is a second label, of series whose value holds only within what it names. Empty means that none has one.
	Within string
	// Values are the label's values. A counter exports each of them from the start, as 0.
	Values []string
	// Buckets are the upper bounds of a histogram's buckets.
	Buckets []float64
	Meaning string
}

var (
	fast    = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	waiting = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 15, 60, 300, 1800, 3600, 21600, 86400}
	sizes   = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
	tries   = []float64{1, 2, 3, 4, 5, 7, 10, 20, 50, 100}
)

// Catalogue returns all metrics, in the order of the reference documentation. Every instrument is created from its
// entry here.
func Catalogue() []Metric {
	return slices.Concat(processing(), handing(), state(), limitState(), signalState())
}

// processing returns the metrics of claims and of other database work.
func processing() []Metric {
	return []Metric{
		{Name: "pgdispatch_wakeups_total", Kind: counter, Unit: "claims", Label: "source",
			Values: []string{"start", "notification", "call", "gate", "completion", "sweeper", "worker", "timer", "poll"},
			Meaning: "Checks of the queue by trigger. `call`: another replica's; `gate`: it closed; `completion`: an " +
				"execution ended; `timer`: an item became due."},
		{Name: "pgdispatch_claims_total", Kind: counter, Unit: "claims", Label: "result",
			Values:  []string{"items", "empty", "error"},
			Meaning: "Claims by result; `error`: no answer. A check that finds nothing to claim makes none."},
		{Name: "pgdispatch_claim_statements_total", Kind: counter, Unit: "claims", Label: "statement",
			Values: []string{"single", "declined", "procedure"},
			Meaning: "Answered claims by statement. `single`: the plain statement for one key queue, which costs less; " +
				"`procedure`: everything else; `declined`: the plain one took nothing, and the procedure followed."},
		{Name: "pgdispatch_claim_stalls_total", Kind: counter, Unit: "claims",
			Meaning: "Claims of an item that had been startable for more than 50 ms although this replica knew that " +
				"something waits, had a free worker, and Temporal accepted workflows: claims had stopped, or Postgres was slow."},
		{Name: "pgdispatch_claim_entries_total", Kind: counter, Unit: "entries",
			Meaning: "Entries requested by claims. An entry is one workspace at one priority, or the unanswered starts."},
		{Name: "pgdispatch_claims_vain_total", Kind: counter, Unit: "entries",
			Meaning: "Requested entries without items: another replica was faster, or this one's memory was stale."},
		{Name: "pgdispatch_claim_duration_seconds", Kind: histogram, Unit: "seconds", Buckets: fast,
			Meaning: "Duration of an answered claim, with its wait for the claim lock and the settles in its statement."},
		{Name: "pgdispatch_claim_batch_size", Former: "queue_processing_batch_size", Kind: histogram, Unit: "items",
			Buckets: sizes,
			Meaning: "Items of a claim that found any."},
		{Name: "pgdispatch_claim_processing_seconds", Former: "queue_processing_duration_seconds", Kind: histogram,
			Unit: "seconds", Buckets: fast,
			Meaning: "Time from a claim that found items until the last of them was settled or lost."},
		{Name: "pgdispatch_claim_lock_failures_total", Former: "claim_lock_acquisition_failures", Kind: counter,
			Unit:    "claims",
			Meaning: "Claims that timed out, or that Postgres aborted, while they waited for or held the claim lock."},
		{Name: "pgdispatch_workspaces_at_capacity_total", Former: "queue_items_at_capacity_total", Kind: counter,
			Unit:    "workspaces",
			Meaning: "Times a workspace with waiting items was found at its limit, once until it has room again."},
		{Name: "pgdispatch_settles_total", Kind: counter, Unit: "items", Label: "verb",
			Values:  []string{"dispatched", "retry", "release", "fail"},
			Meaning: "Settled items. `release` counts no attempt."},
		{Name: "pgdispatch_settle_batch_size", Kind: histogram, Unit: "items", Buckets: sizes,
			Meaning: "Items settled by one statement, separately or as part of a claim."},
		{Name: "pgdispatch_settle_duration_seconds", Kind: histogram, Unit: "seconds", Buckets: fast,
			Meaning: "Duration of a separate settle. The claim's duration includes those within a claim."},
		{Name: "pgdispatch_store_errors_total", Kind: counter, Unit: "statements", Label: "operation",
			Values:  []string{"claim", "settle", "heartbeat", "sweep", "finish", "adopt", "delete", "depth"},
			Meaning: "Statements that Postgres rejected or did not answer."},
		{Name: "pgdispatch_items_recovered_total", Former: "queue_stale_recovery_count", Kind: counter, Unit: "items",
			Meaning: "Items whose lease expired: their replica died, hung or was disconnected."},
		{Name: "pgdispatch_unannounced_total", Kind: counter, Unit: "workspaces",
			Meaning: "Workspaces whose due items were not announced, found by each replica's full check once a minute. " +
				"Must stay 0."},
		{Name: "pgdispatch_deleted_total", Kind: counter, Unit: "rows", Label: "kind",
			Values:  []string{"items", "dead_letters", "executions"},
			Meaning: "Rows deleted by retention."},
	}
}

// handing returns the metrics of starts and of their executions.
func handing() []Metric {
	return []Metric{
		{Name: "pgdispatch_items_dispatched_total", Former: "queue_items_dispatched_total", Kind: counter, Unit: "items",
			Meaning: "Items whose start by Temporal is recorded."},
		{Name: "pgdispatch_items_failed_total", Former: "queue_items_failed_total", Kind: counter, Unit: "items",
			Label: "reason",
			Values: []string{"workspace_not_found", "definition_not_found", "no_version", "holder_lost", "forgotten", "refused",
				"attempts_exhausted",
				"workflow_failed", "workflow_timed_out", "workflow_canceled", "workflow_terminated"},
			Meaning: "Items that failed permanently. `refused`: Temporal can never accept the request; `holder_lost`: three " +
				"replicas in a row were lost with the item; `forgotten`: a start was never answered, and Temporal may no longer " +
				"retain its workflow; `workflow_…`: how the workflow ended."},
		{Name: "pgdispatch_wait_seconds", Kind: histogram, Unit: "seconds", Buckets: waiting,
			Meaning: "Time from when an item was due (its insert, a later run_at, or the end of a backoff) until Temporal had " +
				"its workflow. Includes waiting for capacity."},
		{Name: "pgdispatch_startable_wait_seconds", Kind: histogram, Unit: "seconds", Buckets: waiting,
			Meaning: "Startable to started: the part of pgdispatch_wait_seconds that is pgdispatch's own, without waiting for " +
				"capacity, rates, pauses or namespaces. See docs/operating.md."},
		{Name: "pgdispatch_start_duration_seconds", Kind: histogram, Unit: "seconds", Buckets: fast,
			Meaning: "Time until Temporal answered a start."},
		{Name: "pgdispatch_start_failures_total", Former: "queue_dispatch_failures_total", Kind: counter, Unit: "starts",
			Label: "outcome",
			Values: []string{"permanent", "retryable", "busy", "not_sent", "blocked", "unreached", "throttled", "unanswered",
				"forgotten", "panic"},
			Meaning: "Failed starts. docs/lifecycle.md explains the outcomes."},
		{Name: "pgdispatch_item_attempts", Former: "queue_item_attempts", Kind: histogram, Unit: "attempts", Buckets: tries,
			Meaning: "Attempts of an item until it was dispatched or failed."},
		{Name: "pgdispatch_lease_losses_total", Kind: counter, Unit: "items",
			Meaning: "Items that this replica could not settle within their lease. Another recovers them; none is started " +
				"twice."},
		{Name: "pgdispatch_executions_ended_total", Kind: counter, Unit: "executions", Label: "outcome",
			Values:  []string{"completed", "failed", "canceled", "terminated", "timed_out"},
			Meaning: "Executions whose end this replica recorded."},
		{Name: "pgdispatch_ends_found_total", Kind: counter, Unit: "executions", Label: "way",
			Values: []string{"watch", "callback", "sweep"},
			Meaning: "Ends that this replica recorded first, by long poll, callback or list of closed workflows. Reported " +
				"ends are not counted."},
		{Name: "pgdispatch_callbacks_total", Kind: counter, Unit: "callbacks", Label: "result",
			Values: []string{"ended", "open", "unauthorized", "refused", "unavailable"},
			Meaning: "Completion callbacks. `ended`: recorded, now or before; `open`: another run continues; " +
				"`unauthorized`: invalid token; `refused`: not a POST; `unavailable`: Temporal sends it again."},
		{Name: "pgdispatch_executions_adopted_total", Kind: counter, Unit: "executions",
			Meaning: "Unwatched executions that this replica took over."},
		{Name: "pgdispatch_signals_total", Kind: counter, Unit: "signals", Label: "outcome",
			Values: []string{"delivered", "failed", "given_up"},
			Meaning: "Tries to deliver a signal. `delivered`: Temporal accepted it; `failed`: it will be tried again; " +
				"`given_up`: its workflow had ended, its item never started, or Temporal can never accept it."},
		{Name: "pgdispatch_signal_seconds", Kind: histogram, Unit: "seconds", Buckets: waiting,
			Meaning: "Time from pgdispatch.signal until Temporal accepted the signal, including the rest of the " +
				"transaction and the wait for the workflow's start."},
	}
}

// state returns the gauges, which are read at the time of the scrape.
func state() []Metric {
	return []Metric{
		{Name: "pgdispatch_items_held", Kind: gauge, Unit: "items",
			Meaning: "Items that this replica has claimed and not settled."},
		{Name: "pgdispatch_workers", Kind: gauge, Unit: "workers", Meaning: "Workers of this replica."},
		{Name: "pgdispatch_watches", Kind: gauge, Unit: "executions",
			Meaning: "Executions that this replica watches in Temporal."},
		{Name: "pgdispatch_breaker_open", Kind: gauge, Unit: "0 or 1",
			Meaning: "1: Temporal does not accept workflows; this replica only probes."},
		{Name: "pgdispatch_namespaces_paused", Kind: gauge, Unit: "namespaces",
			Meaning: "Namespaces, of several, that accept no workflows; this replica only probes them."},
		{Name: "pgdispatch_listener_connected", Kind: gauge, Unit: "0 or 1",
			Meaning: "1: LISTEN is active. Absent with PGDISPATCH_LISTEN=off."},
		{Name: "pgdispatch_on_duty", Kind: gauge, Unit: "0 or 1",
			Meaning: "1: this replica receives enqueuers' notifications. Absent with PGDISPATCH_LISTEN=off."},
		{Name: "pgdispatch_ready", Kind: gauge, Unit: "0 or 1", Meaning: "1: /readyz reports ready."},
		{Name: "pgdispatch_build_info", Kind: gauge, Unit: "1", Label: "version", Meaning: "The running version."},
		{Name: "pgdispatch_database_up", Kind: gauge, Unit: "0 or 1",
			Meaning: "1: the queue's depth could be read. At 0, the metrics below are absent."},
		{Name: "pgdispatch_queue_items", Kind: gauge, Unit: "items", Label: "status",
			Values: []string{"PENDING", "UNANSWERED", "CLAIMED", "DISPATCHED"},
			Meaning: "Items that have not ended. `UNANSWERED`: PENDING items whose start was sent but not answered; they hold " +
				"slots and are not counted as `PENDING`. The same in every replica: use the maximum, not the sum. Exact up to " +
				"10,000, then estimated from Postgres' statistics."},
		{Name: "pgdispatch_oldest_waiting_seconds", Kind: gauge, Unit: "seconds",
			Meaning: "How long the oldest PENDING item has been due; 0: none is."},
		{Name: "pgdispatch_oldest_unanswered_seconds", Kind: gauge, Unit: "seconds",
			Meaning: "Age of the oldest unanswered start; 0: there is none."},
		{Name: "pgdispatch_dead_letters_open", Kind: gauge, Unit: "items",
			Meaning: "Open dead letters; 10,000 means 10,000 or more."},
		{Name: "pgdispatch_replicas", Kind: gauge, Unit: "replicas", Meaning: "Live replicas."},
		{Name: "pgdispatch_max_claims", Kind: gauge, Unit: "items",
			Meaning: "W: maximum number of items leased at once."},
		{Name: "pgdispatch_paused", Kind: gauge, Unit: "0 or 1", Meaning: "1: paused by the settings."},
		{Name: "pgdispatch_items_parked", Kind: gauge, Unit: "items",
			Meaning: "Items that a trigger or constraint keeps from being claimed; retried after a minute or more."},
		{Name: "pgdispatch_notification_queue_ratio", Kind: gauge, Unit: "0 to 1",
			Meaning: "How full Postgres' notification queue is. From 0.1 on, commits do not notify and items wait for a poll."},
		{Name: "pgdispatch_task_queues_without_poller", Kind: gauge, Unit: "queues",
			Meaning: "Task queues with open executions that no worker has polled for minutes, checked about once a minute."},
		{Name: "pgdispatch_stalled_executions", Kind: gauge, Unit: "executions", Label: "reason",
			Values: []string{"no_poller", "task_failing"},
			Meaning: "Executions on a task queue without poller, or whose workflow task fails repeatedly, among those " +
				"checked so far."},
		{Name: "pgdispatch_workspace_waiting", Kind: gauge, Unit: "items", Label: "workspace_id",
			Meaning: "PENDING items of the workspaces with the most items, as many as PGDISPATCH_METRICS_WORKSPACES."},
		{Name: "pgdispatch_workspace_active", Kind: gauge, Unit: "items", Label: "workspace_id",
			Meaning: "Items of these workspaces that hold slots: CLAIMED, DISPATCHED and unanswered."},
		{Name: "pgdispatch_workspace_limit", Kind: gauge, Unit: "items", Label: "workspace_id",
			Meaning: "Limits of these workspaces."},
	}
}

// limitState returns the gauges of the limits of keys. PGDISPATCH_METRICS_LIMITS sets the number of their series.
func limitState() []Metric {
	const key, within = "key", "workspace_id"
	return []Metric{
		{Name: "pgdispatch_limit_active", Kind: gauge, Unit: "items", Label: key, Within: within,
			Meaning: "Items with the limit's key that hold slots, of the PGDISPATCH_METRICS_LIMITS most used limits. A limit " +
				"over all workspaces has no `workspace_id`. Both labels are `other` for the sum of all others, among the newest " +
				"10,000 items that hold slots. The same in every replica."},
		{Name: "pgdispatch_limit_max", Kind: gauge, Unit: "items", Label: key, Within: within,
			Meaning: "How many items these limits allow at once; absent if they limit rates only."},
		{Name: "pgdispatch_limit_waiting", Kind: gauge, Unit: "items", Label: key, Within: within,
			Meaning: "Due items with the key of these limits, or `other`, among the 10,000 waiting items that arrived first."},
		{Name: "pgdispatch_limit_full", Kind: gauge, Unit: "0 or 1", Label: key, Within: within,
			Meaning: "1: this limit allows no start now, by its number of items or by a rate."},
	}
}

// signalState returns the gauges of signals.
func signalState() []Metric {
	return []Metric{
		{Name: "pgdispatch_signals_undelivered", Kind: gauge, Unit: "signals",
			Meaning: "Open signals, also of workflows that have not started; 10,000 means 10,000 or more. The same in every " +
				"replica."},
		{Name: "pgdispatch_oldest_signal_seconds", Kind: gauge, Unit: "seconds",
			Meaning: "Age of the oldest open signal that waits for neither its workflow's start nor an earlier signal; 0: " +
				"there is none. The same in every replica."},
	}
}
