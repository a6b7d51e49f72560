package telemetry

// The kinds of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// Metric describes one metric. Scrapes and OTLP use the same name, which includes unit and kind.
type Metric struct {
	Name, Kind, Unit string
	// Label is the metric's only label. Empty means that it has none.
	Label string
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
	return append(append(processing(), handing()...), state()...)
}

// processing returns the metrics of claims and of other database work.
func processing() []Metric {
	return []Metric{
		{Name: "pgdispatch_wakeups_total", Kind: counter, Unit: "claims", Label: "source",
			Values:  []string{"start", "notification", "call", "gate", "completion", "sweeper", "worker", "timer", "poll"},
			Meaning: "Looks at the table, by what made the replica look: an enqueuer's notification, another replica's call, the gate that was shut, an execution that ended, the sweeper, a worker that came free, an item that fell due (or a look while awake), the poll."},
		{Name: "pgdispatch_claims_total", Kind: counter, Unit: "claims", Label: "result", Values: []string{"items", "empty", "error"},
			Meaning: "Claims that found items, found none, or were not answered. A look that leaves nothing to ask for is no claim."},
		{Name: "pgdispatch_claim_entries_total", Kind: counter, Unit: "entries",
			Meaning: "What claims asked for: each time a workspace at one priority, or the starts that nobody answered."},
		{Name: "pgdispatch_claims_vain_total", Kind: counter, Unit: "entries",
			Meaning: "Entries that gave nothing, because another replica was faster or this one's memory was out of date. It costs a moment, and the answer corrects it."},
		{Name: "pgdispatch_claim_duration_seconds", Kind: histogram, Unit: "seconds", Buckets: fast,
			Meaning: "What a claim took, its wait for the claim lock and the settles that it took along included. Claims without an answer are not in it."},
		{Name: "queue_processing_batch_size", Kind: histogram, Unit: "items", Buckets: sizes,
			Meaning: "Items that a claim found. Claims that found none are not in it."},
		{Name: "queue_processing_duration_seconds", Kind: histogram, Unit: "seconds", Buckets: fast,
			Meaning: "From a claim that found items until the last of them was settled or lost."},
		{Name: "claim_lock_acquisition_failures", Kind: counter, Unit: "claims",
			Meaning: "Claims that timed out or were broken off by Postgres while they waited for the claim lock or held it."},
		{Name: "queue_items_at_capacity_total", Kind: counter, Unit: "workspaces",
			Meaning: "Times that a workspace with more waiting was found at its limit; once until it has room again. Its items are not claimed, so none is released for it."},
		{Name: "pgdispatch_settles_total", Kind: counter, Unit: "items", Label: "verb", Values: []string{"dispatched", "retry", "release", "fail"},
			Meaning: "Items whose claim ended: handed over, to be tried again, handed back with nothing counted, failed for good."},
		{Name: "pgdispatch_settle_batch_size", Kind: histogram, Unit: "items", Buckets: sizes,
			Meaning: "Items that one statement settled, alone or within a claim."},
		{Name: "pgdispatch_settle_duration_seconds", Kind: histogram, Unit: "seconds", Buckets: fast,
			Meaning: "What a settle took that went by itself. Those within a claim are in the claim's duration."},
		{Name: "pgdispatch_store_errors_total", Kind: counter, Unit: "statements", Label: "operation",
			Values:  []string{"claim", "settle", "heartbeat", "sweep", "finish", "adopt", "delete", "depth"},
			Meaning: "Statements that Postgres refused or did not answer."},
		{Name: "queue_stale_recovery_count", Kind: counter, Unit: "items",
			Meaning: "Items given back to the queue because their lease ran out: of a replica that died, hung or was cut off."},
		{Name: "pgdispatch_unannounced_total", Kind: counter, Unit: "workspaces",
			Meaning: "Workspaces with due items that nobody had announced, found by the look that each replica takes every minute. Must stay 0."},
		{Name: "pgdispatch_deleted_total", Kind: counter, Unit: "rows", Label: "kind", Values: []string{"items", "dead_letters", "executions"},
			Meaning: "Rows deleted because their retention was over."},
	}
}

// handing returns the metrics of starts and of their executions.
func handing() []Metric {
	return []Metric{
		{Name: "queue_items_dispatched_total", Kind: counter, Unit: "items",
			Meaning: "Items handed over: Temporal has the workflow, and the item says so."},
		{Name: "queue_items_failed_total", Kind: counter, Unit: "items", Label: "reason",
			Values: []string{"workspace_not_found", "definition_not_found", "no_version", "holder_lost", "forgotten", "refused", "attempts_exhausted",
				"workflow_failed", "workflow_timed_out", "workflow_canceled", "workflow_terminated"},
			Meaning: "Items that failed for good. `refused`: Temporal can never take the request; `holder_lost`: three replicas in a row were lost with it; `forgotten`: a start was never answered, and Temporal may not know its workflow any more; `workflow_…`: how the workflow ended."},
		{Name: "pgdispatch_wait_seconds", Kind: histogram, Unit: "seconds", Buckets: waiting,
			Meaning: "Due to started: from when an item was due until Temporal had its workflow: from its insert, from its " +
				"run_at where that is later, or from the end of the pause after a failure. Time spent waiting for capacity is " +
				"in it."},
		{Name: "pgdispatch_startable_wait_seconds", Kind: histogram, Unit: "seconds", Buckets: waiting,
			Meaning: "Startable to started: as pgdispatch_wait_seconds, but from the last moment, if that is later, at " +
				"which the replica that claims the item knew its workspace to be full, paused or at its rate, all leases (W) " +
				"to be in use, everything to be paused, its Temporal namespace to accept no workflows, or its row to be " +
				"locked. What is left is pgdispatch's own delay. A free slot counts from when a look at the table or a " +
				"notification has told the replica; a free lease from the claim that used it."},
		{Name: "pgdispatch_start_duration_seconds", Kind: histogram, Unit: "seconds", Buckets: fast,
			Meaning: "What Temporal took to answer a start, whatever the answer."},
		{Name: "queue_dispatch_failures_total", Kind: counter, Unit: "starts", Label: "outcome",
			Values:  []string{"permanent", "retryable", "not_sent", "blocked", "unreached", "throttled", "unanswered", "forgotten", "panic"},
			Meaning: "Starts that did not succeed, by what that means for the item: see the lifecycle's table of outcomes."},
		{Name: "queue_item_attempts", Kind: histogram, Unit: "attempts", Buckets: tries,
			Meaning: "How many attempts an item had taken when it was handed over or failed."},
		{Name: "pgdispatch_lease_losses_total", Kind: counter, Unit: "items",
			Meaning: "Hand-overs whose claim this replica could not end: the lease had run out, or the database was away for as long as it lasts. Another replica has the item then; it is not started twice."},
		{Name: "pgdispatch_executions_ended_total", Kind: counter, Unit: "executions", Label: "outcome",
			Values: []string{"completed", "failed", "canceled", "terminated", "timed_out"}, Meaning: "Executions whose end this replica recorded."},
		{Name: "pgdispatch_ends_found_total", Kind: counter, Unit: "executions", Label: "way", Values: []string{"watch", "callback", "sweep"},
			Meaning: "Ends that this replica was the first to record, by how it learnt of them: its long poll, Temporal's callback, the list of closed workflows. What a worker or an application says itself is in none."},
		{Name: "pgdispatch_callbacks_total", Kind: counter, Unit: "callbacks", Label: "result",
			Values:  []string{"ended", "open", "unauthorized", "refused", "unavailable"},
			Meaning: "Completion callbacks, by what came of them: the end is recorded (by this or before), another run goes on, the token is not valid, not a POST, Temporal or the database was away and the callback comes again."},
		{Name: "pgdispatch_executions_adopted_total", Kind: counter, Unit: "executions",
			Meaning: "Executions that nobody watched, and that this replica took over."},
	}
}

// state returns the gauges, which are read at the time of the scrape.
func state() []Metric {
	return []Metric{
		{Name: "pgdispatch_items_held", Kind: gauge, Unit: "items", Meaning: "Items that this replica has claimed and not settled."},
		{Name: "pgdispatch_workers", Kind: gauge, Unit: "workers", Meaning: "Workers of this replica."},
		{Name: "pgdispatch_watches", Kind: gauge, Unit: "executions", Meaning: "Executions that this replica waits for at Temporal."},
		{Name: "pgdispatch_breaker_open", Kind: gauge, Unit: "0 or 1", Meaning: "1: Temporal does not take workflows, and this replica only probes."},
		{Name: "pgdispatch_namespaces_paused", Kind: gauge, Unit: "namespaces",
			Meaning: "Of several namespaces, those that take no workflows and are only probed by this replica."},
		{Name: "pgdispatch_listener_connected", Kind: gauge, Unit: "0 or 1", Meaning: "1: LISTEN is in force. Not there with PGDISPATCH_LISTEN=off."},
		{Name: "pgdispatch_on_duty", Kind: gauge, Unit: "0 or 1", Meaning: "1: enqueuers' notifications are meant for this replica. Not there with PGDISPATCH_LISTEN=off."},
		{Name: "pgdispatch_ready", Kind: gauge, Unit: "0 or 1", Meaning: "1: /readyz says ready."},
		{Name: "pgdispatch_build_info", Kind: gauge, Unit: "1", Label: "version", Meaning: "The version that runs."},
		{Name: "pgdispatch_database_up", Kind: gauge, Unit: "0 or 1", Meaning: "1: the queue's depth could be read. At 0, the metrics below are not there."},
		{Name: "pgdispatch_queue_items", Kind: gauge, Unit: "items", Label: "status", Values: []string{"PENDING",
			"UNANSWERED", "CLAIMED", "DISPATCHED"},
			Meaning: "Items that have not ended; `UNANSWERED`: PENDING items whose start was sent and not answered, which " +
				"hold slots and are not counted as `PENDING`. The same in every replica: take the maximum, not the sum. Exact " +
				"up to 10,000; above that, as many as Postgres' statistics say."},
		{Name: "pgdispatch_oldest_waiting_seconds", Kind: gauge, Unit: "seconds",
			Meaning: "How long the PENDING item has been due that has been due longest; 0: none is. The same in every replica."},
		{Name: "pgdispatch_oldest_unanswered_seconds", Kind: gauge, Unit: "seconds",
			Meaning: "How long ago the first of the unanswered starts was sent; 0: there is none. The same in every replica."},
		{Name: "pgdispatch_dead_letters_open", Kind: gauge, Unit: "items", Meaning: "Items that failed for good and that nobody has seen to; 10,000 means that many or more. The same in every replica."},
		{Name: "pgdispatch_replicas", Kind: gauge, Unit: "replicas", Meaning: "Replicas that live."},
		{Name: "pgdispatch_max_claims", Kind: gauge, Unit: "items", Meaning: "W: how many items may be leased at once, over all replicas."},
		{Name: "pgdispatch_paused", Kind: gauge, Unit: "0 or 1", Meaning: "1: the settings say that nothing is to be claimed."},
		{Name: "pgdispatch_items_parked", Kind: gauge, Unit: "items",
			Meaning: "Items that wait and that a trigger or a constraint of the database lets nobody claim; they are tried again every minute or more. The same in every replica."},
		{Name: "pgdispatch_notification_queue_ratio", Kind: gauge, Unit: "0 to 1",
			Meaning: "How full the notification queue of the Postgres cluster is. From 0.1 on, commits are not announced and items wait for a poll. The same in every replica."},
		{Name: "pgdispatch_task_queues_without_poller", Kind: gauge, Unit: "queues",
			Meaning: "Task queues that executions run on and that no worker has polled for minutes, as the last look found it, a minute or so ago. The same in every replica."},
		{Name: "pgdispatch_stalled_executions", Kind: gauge, Unit: "executions", Label: "reason", Values: []string{"no_poller", "task_failing"},
			Meaning: "Executions that do not progress: on such a task queue, or with a workflow task that fails again and again; of the latter, as many as have been asked about. The same in every replica."},
		{Name: "pgdispatch_workspace_waiting", Kind: gauge, Unit: "items", Label: "workspace_id",
			Meaning: "PENDING items of the workspaces with the most items, as many workspaces as PGDISPATCH_METRICS_WORKSPACES says; with 0, none."},
		{Name: "pgdispatch_workspace_active", Kind: gauge, Unit: "items", Label: "workspace_id",
			Meaning: "Likewise: CLAIMED, DISPATCHED and unanswered items, which hold slots."},
		{Name: "pgdispatch_workspace_limit", Kind: gauge, Unit: "items", Label: "workspace_id", Meaning: "Likewise: the workspace's limit of active items."},
	}
}
