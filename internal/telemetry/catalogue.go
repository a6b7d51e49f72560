package telemetry

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Metric describes one metric. Scrapes and OTLP use the same name, which includes unit and kind.
type Metric struct {
	Name, Unit string
	// Kind is counter, histogram or gauge.
	Kind string
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

// Catalogue returns all metrics, in the order of the reference documentation.
func Catalogue() []Metric {
	_, made, _ := newInstruments(noop.Meter{}) // which makes no errors
	return made.all
}

// instruments are all metrics of a replica, a field each. The functions below name and describe them.
type instruments struct {
	// Claims: what triggers them, how they end, by which statement, what they ask for and find, and how long they take.
	wakeUps, claims, claimStatements                         counterBy
	claimStalls, claimEntries, claimsVain, claimLockFailures counter
	claimDuration, claimBatchSize, claimProcessing           histogram
	// What claims find out about workspaces: those that are full, and those that nobody announced.
	workspacesAtCapacity, unannounced counter
	// Settles by verb, and how many items one settles.
	settles                         counterBy
	settleBatchSize, settleDuration histogram
	// Statements that failed, items whose lease expired, and rows that retention deleted.
	storeErrors, deleted counterBy
	itemsRecovered       counter
	itemsLate            counter

	// Items by how their hand-over ended, and what it took.
	itemsDispatched, leaseLosses counter
	itemsFailed, startFailures   counterBy
	// Waits until Temporal had the workflow, since the item was due and since it was startable.
	wait, startableWait         histogram
	startDuration, itemAttempts histogram
	// Executions: their ends by outcome and by how they were found, and those taken over.
	executionsEnded, endsFound, callbacks counterBy
	executionsAdopted                     counter
	// Signals by outcome, and how long a delivered one waited.
	signals    counterBy
	signalWait histogram
	// Calls of the codec server by result, and what they took.
	codecRequests counterBy
	codecDuration histogram

	// The replica itself.
	itemsHeld, workers, watches, breakerOpen, namespacesPaused gauge
	listenerConnected, onDuty, ready, buildInfo, databaseUp    gauge
	upkeepFailing                                              gauge
	// The queue, the same in every replica.
	queueItems, oldestWaiting, oldestUnanswered, oldestUncertain, deadLettersOpen, replicas, maxClaims, paused gauge
	itemsParked, itemsFailingAlone, executionsMissing                                                          gauge
	notificationQueue, taskQueuesWithoutPoller, stalledExecutions, signalsUndelivered, oldestSignal            gauge
	// The workspaces with the most items, and the most used limits.
	workspaceWaiting, workspaceActive, workspaceLimit gauge
	limitActive, limitMax, limitWaiting, limitFull    gauge
}

// newInstruments makes all instruments.
func newInstruments(meter metric.Meter) (*instruments, *maker, error) {
	all, m := &instruments{}, &maker{meter: meter}
	all.addProcessing(m)
	all.addHanding(m)
	all.addCodec(m)
	all.addState(m)
	all.addLimits(m)
	all.addSignals(m)
	return all, m, errors.Join(m.errs...)
}

// addProcessing adds the metrics of claims and of other database work.
func (i *instruments) addProcessing(m *maker) {
	i.wakeUps = m.counterBy(Metric{Name: "pgdispatch_wakeups_total", Unit: "claims", Label: "source",
		Values: []string{"start", "notification", "call", "gate", "completion", "sweeper", "worker", "timer", "poll"},
		Meaning: "Checks of the queue by trigger. `call`: another replica's; `gate`: it closed; `completion`: an " +
			"execution ended; `timer`: an item became due."})
	i.claims = m.counterBy(Metric{Name: "pgdispatch_claims_total", Unit: "claims", Label: "result",
		Values: []string{"items", "empty", "error", "uncertain"},
		Meaning: "Claims by result; `error`: nothing was claimed; `uncertain`: the answer was lost, so it may have taken " +
			"items, which are given back once a claim is answered. A check that finds nothing makes none."})
	i.claimStatements = m.counterBy(Metric{Name: "pgdispatch_claim_statements_total", Unit: "claims", Label: "statement",
		Values: []string{"plain", "declined", "procedure"},
		Meaning: "Answered claims. `plain`: the cheaper statement, which knows no limit keys, rates or bursts; " +
			"`declined`: it took nothing, and the procedure followed."})
	i.claimStalls = m.counter(Metric{Name: "pgdispatch_claim_stalls_total", Unit: "claims",
		Meaning: "Claims of an item that had been startable for over 50 ms beside a free worker: claims had " +
			"stopped, or Postgres was slow."})
	i.claimEntries = m.counter(Metric{Name: "pgdispatch_claim_entries_total", Unit: "entries",
		Meaning: "Entries requested by claims: a workspace at one priority, or the unanswered starts."})
	i.claimsVain = m.counter(Metric{Name: "pgdispatch_claims_vain_total", Unit: "entries",
		Meaning: "Requested entries without items: another replica was faster."})
	i.claimDuration = m.histogram(Metric{Name: "pgdispatch_claim_duration_seconds", Unit: "seconds", Buckets: fast,
		Meaning: "Duration of an answered claim, with its wait for the claim lock and its settles."})
	i.claimBatchSize = m.histogram(Metric{Name: "pgdispatch_claim_batch_size", Unit: "items", Buckets: sizes,
		Meaning: "Items of a claim that found any."})
	i.claimProcessing = m.histogram(Metric{Name: "pgdispatch_claim_processing_seconds",
		Unit: "seconds", Buckets: fast,
		Meaning: "From a claim that found items until the last was settled or lost."})
	i.claimLockFailures = m.counter(Metric{Name: "pgdispatch_claim_lock_failures_total", Unit: "claims",
		Meaning: "Claims that timed out or were aborted while they waited for or held the claim lock."})
	i.workspacesAtCapacity = m.counter(Metric{Name: "pgdispatch_workspaces_at_capacity_total", Unit: "workspaces",
		Meaning: "Times a workspace with waiting items was found at its limit, once until it has room."})
	i.settles = m.counterBy(Metric{Name: "pgdispatch_settles_total", Unit: "items", Label: "verb",
		Values:  []string{"dispatched", "retry", "release", "fail"},
		Meaning: "Settled items. `release` counts no attempt."})
	i.settleBatchSize = m.histogram(Metric{Name: "pgdispatch_settle_batch_size", Unit: "items", Buckets: sizes,
		Meaning: "Items settled by one statement."})
	i.settleDuration = m.histogram(Metric{Name: "pgdispatch_settle_duration_seconds", Unit: "seconds", Buckets: fast,
		Meaning: "Duration of a settle outside of a claim."})
	i.storeErrors = m.counterBy(Metric{Name: "pgdispatch_store_errors_total", Unit: "statements", Label: "operation",
		Values:  []string{"claim", "settle", "heartbeat", "sweep", "finish", "adopt", "delete", "depth"},
		Meaning: "Statements that Postgres rejected or did not answer."})
	i.itemsRecovered = m.counter(Metric{Name: "pgdispatch_items_recovered_total", Unit: "items",
		Meaning: "Items whose lease expired: their replica died, hung or was disconnected."})
	i.itemsLate = m.counter(Metric{Name: "pgdispatch_items_late_total", Unit: "items",
		Meaning: "Items that were cancelled because they were not claimed before their `start_before`."})
	i.unannounced = m.counter(Metric{Name: "pgdispatch_unannounced_total", Unit: "workspaces",
		Meaning: "Workspaces whose due items were not announced, found by a check once a minute. Must stay 0."})
	i.deleted = m.counterBy(Metric{Name: "pgdispatch_deleted_total", Unit: "rows", Label: "kind",
		Values:  []string{"items", "dead_letters", "executions"},
		Meaning: "Rows deleted by retention."})
}

// addHanding adds the metrics of starts and of their executions.
func (i *instruments) addHanding(m *maker) {
	i.itemsDispatched = m.counter(Metric{Name: "pgdispatch_items_dispatched_total", Unit: "items",
		Meaning: "Items whose start by Temporal is recorded."})
	i.itemsFailed = m.counterBy(Metric{Name: "pgdispatch_items_failed_total", Unit: "items", Label: "reason",
		Values: []string{"workspace_not_found", "definition_not_found", "no_version", "holder_lost", "forgotten", "abandoned",
			"refused", "attempts_exhausted", "workflow_failed", "workflow_timed_out", "workflow_canceled",
			"workflow_terminated"},
		Meaning: "Items that failed permanently. `refused`: Temporal can never accept the request; `holder_lost`: " +
			"three replicas in a row were lost with it; `forgotten`: a start was never answered, and Temporal may " +
			"have forgotten its workflow; `abandoned`: its starts failed for minutes while others started, or a person " +
			"gave it up; `workflow_…`: how it ended."})
	i.wait = m.histogram(Metric{Name: "pgdispatch_wait_seconds", Unit: "seconds", Buckets: waiting,
		Meaning: "From when an item was due (insert, run_at, or end of a backoff) until Temporal had its " +
			"workflow. Includes waiting for capacity."})
	i.startableWait = m.histogram(Metric{Name: "pgdispatch_startable_wait_seconds", Unit: "seconds", Buckets: waiting,
		Meaning: "Of pgdispatch_wait_seconds, the part without waiting for capacity, rates, pauses " +
			"or namespaces."})
	i.startDuration = m.histogram(Metric{Name: "pgdispatch_start_duration_seconds", Unit: "seconds", Buckets: fast,
		Meaning: "Time until Temporal answered a start."})
	i.startFailures = m.counterBy(Metric{Name: "pgdispatch_start_failures_total", Unit: "starts", Label: "outcome",
		Values: []string{"permanent", "retryable", "busy", "not_sent", "blocked", "unreached", "throttled", "unanswered",
			"forgotten", "unregistered", "panic"},
		Meaning: "Failed starts. docs/lifecycle.md explains the outcomes."})
	i.itemAttempts = m.histogram(Metric{Name: "pgdispatch_item_attempts", Unit: "attempts", Buckets: tries,
		Meaning: "Attempts of an item until it was dispatched or failed."})
	i.leaseLosses = m.counter(Metric{Name: "pgdispatch_lease_losses_total", Unit: "items",
		Meaning: "Items that this replica could not settle within their lease. Another recovers them."})
	i.executionsEnded = m.counterBy(Metric{Name: "pgdispatch_executions_ended_total", Unit: "executions", Label: "outcome",
		Values:  []string{"completed", "failed", "canceled", "terminated", "timed_out"},
		Meaning: "Executions whose end this replica recorded."})
	i.endsFound = m.counterBy(Metric{Name: "pgdispatch_ends_found_total", Unit: "executions", Label: "way",
		Values:  []string{"watch", "callback", "sweep"},
		Meaning: "Ends that this replica recorded first, by long poll, callback or list of closed workflows."})
	i.callbacks = m.counterBy(Metric{Name: "pgdispatch_callbacks_total", Unit: "callbacks", Label: "result",
		Values: []string{"ended", "open", "unauthorized", "refused", "unavailable"},
		Meaning: "Completion callbacks. `ended`: recorded; `open`: another run continues; `unauthorized`: invalid " +
			"token; `refused`: not a POST; `unavailable`: Temporal sends it again."})
	i.executionsAdopted = m.counter(Metric{Name: "pgdispatch_executions_adopted_total", Unit: "executions",
		Meaning: "Unwatched executions that this replica took over."})
	i.signals = m.counterBy(Metric{Name: "pgdispatch_signals_total", Unit: "signals", Label: "outcome",
		Values: []string{"delivered", "failed", "given_up"},
		Meaning: "Tries to deliver a signal. `failed`: it will be tried again; `given_up`: its workflow had " +
			"ended, its item never started, or Temporal can never accept it."})
	i.signalWait = m.histogram(Metric{Name: "pgdispatch_signal_seconds", Unit: "seconds", Buckets: waiting,
		Meaning: "From pgdispatch.signal until Temporal accepted it, including the rest of the transaction and " +
			"the wait for the start."})
}

// addCodec adds the metrics of calls of the codec server.
func (i *instruments) addCodec(m *maker) {
	i.codecRequests = m.counterBy(Metric{Name: "pgdispatch_codec_requests_total", Unit: "requests", Label: "result",
		Values: []string{"encoded", "decoded", "refused", "unavailable"},
		Meaning: "Calls of the codec server, with probes. `refused`: it refuses these payloads; `unavailable`: no " +
			"answer, or it refuses everything."})
	i.codecDuration = m.histogram(Metric{Name: "pgdispatch_codec_duration_seconds", Unit: "seconds", Buckets: fast,
		Meaning: "Duration of a call of the codec server. pgdispatch_start_duration_seconds includes it."})
}

// addState adds the gauges of the replica and of the queue.
func (i *instruments) addState(m *maker) {
	i.itemsHeld = m.gauge(Metric{Name: "pgdispatch_items_held", Unit: "items",
		Meaning: "Items that this replica holds."})
	i.workers = m.gauge(Metric{Name: "pgdispatch_workers", Unit: "workers", Meaning: "Workers of this replica."})
	i.watches = m.gauge(Metric{Name: "pgdispatch_watches", Unit: "executions",
		Meaning: "Executions that this replica watches."})
	i.breakerOpen = m.gauge(Metric{Name: "pgdispatch_breaker_open", Unit: "0 or 1",
		Meaning: "1: Temporal does not accept workflows; this replica only probes."})
	i.namespacesPaused = m.gauge(Metric{Name: "pgdispatch_namespaces_paused", Unit: "namespaces",
		Meaning: "Namespaces, of several, that accept no workflows."})
	i.listenerConnected = m.gauge(Metric{Name: "pgdispatch_listener_connected", Unit: "0 or 1",
		Meaning: "1: LISTEN is active. Absent with PGDISPATCH_LISTEN=off."})
	i.onDuty = m.gauge(Metric{Name: "pgdispatch_on_duty", Unit: "0 or 1",
		Meaning: "1: this replica receives enqueuers' notifications. Absent with PGDISPATCH_LISTEN=off."})
	i.ready = m.gauge(Metric{Name: "pgdispatch_ready", Unit: "0 or 1", Meaning: "1: /readyz reports ready."})
	i.upkeepFailing = m.gauge(Metric{Name: "pgdispatch_upkeep_failing", Unit: "0 or 1", Label: "part",
		Values: upkeepParts(),
		Meaning: "1: this part of the upkeep fails. `leases`, `start_before`, `watches`, `clock`: items or executions are " +
			"not recovered; `sweep`: none of them is. The others count and delete what is for display."})
	i.buildInfo = m.gauge(Metric{Name: "pgdispatch_build_info", Unit: "1", Label: "version",
		Meaning: "The running version."})
	i.databaseUp = m.gauge(Metric{Name: "pgdispatch_database_up", Unit: "0 or 1",
		Meaning: "1: the queue's depth could be read. At 0, the metrics below are absent."})
	i.queueItems = m.gauge(Metric{Name: "pgdispatch_queue_items", Unit: "items", Label: "status",
		Values: []string{"PENDING", "SCHEDULED", "UNANSWERED", "UNCERTAIN", "CLAIMED", "DISPATCHED"},
		Meaning: "Items that have not ended. `PENDING`: due; `SCHEDULED`: not yet, up to 10,000; `UNANSWERED`: their " +
			"start was sent; `UNCERTAIN`: their lease expired, so it may have been sent or not. " +
			"Above 10,000, estimated from Postgres' statistics."})
	i.oldestWaiting = m.gauge(Metric{Name: "pgdispatch_oldest_waiting_seconds", Unit: "seconds",
		Meaning: "How long the oldest PENDING item has been due; 0: none is."})
	i.oldestUnanswered = m.gauge(Metric{Name: "pgdispatch_oldest_unanswered_seconds", Unit: "seconds",
		Meaning: "Age of the oldest unanswered start; 0: there is none."})
	i.oldestUncertain = m.gauge(Metric{Name: "pgdispatch_oldest_uncertain_seconds", Unit: "seconds",
		Meaning: "Age of the oldest uncertain claim; 0: there is none."})
	i.deadLettersOpen = m.gauge(Metric{Name: "pgdispatch_dead_letters_open", Unit: "items",
		Meaning: "Open dead letters; 10,000 means 10,000 or more."})
	i.replicas = m.gauge(Metric{Name: "pgdispatch_replicas", Unit: "replicas", Meaning: "Live replicas."})
	i.maxClaims = m.gauge(Metric{Name: "pgdispatch_max_claims", Unit: "items",
		Meaning: "W: maximum number of items leased at once."})
	i.paused = m.gauge(Metric{Name: "pgdispatch_paused", Unit: "0 or 1", Meaning: "1: paused by the settings."})
	i.itemsParked = m.gauge(Metric{Name: "pgdispatch_items_parked", Unit: "items",
		Meaning: "Items that a trigger or constraint keeps from being claimed."})
	i.itemsFailingAlone = m.gauge(Metric{Name: "pgdispatch_items_failing_alone", Unit: "items",
		Meaning: "Items whose starts failed three times or more while others of their namespaces started."})
	i.executionsMissing = m.gauge(Metric{Name: "pgdispatch_executions_missing", Unit: "executions",
		Meaning: "Running executions that Temporal does not find."})
	i.notificationQueue = m.gauge(Metric{Name: "pgdispatch_notification_queue_ratio", Unit: "0 to 1",
		Meaning: "How full Postgres' notification queue is. From 0.1 on, commits do not notify and items wait for " +
			"polls."})
	i.taskQueuesWithoutPoller = m.gauge(Metric{Name: "pgdispatch_task_queues_without_poller", Unit: "queues",
		Meaning: "Task queues with open executions that no worker has polled for minutes."})
	i.stalledExecutions = m.gauge(Metric{Name: "pgdispatch_stalled_executions", Unit: "executions", Label: "reason",
		Values: []string{"no_poller", "task_failing"},
		Meaning: "Executions on a task queue without poller, or whose workflow task fails repeatedly, among those " +
			"checked."})
	i.workspaceWaiting = m.gauge(Metric{Name: "pgdispatch_workspace_waiting", Unit: "items", Label: "workspace_id",
		Meaning: "Due items of the PGDISPATCH_METRICS_WORKSPACES workspaces with the most items."})
	i.workspaceActive = m.gauge(Metric{Name: "pgdispatch_workspace_active", Unit: "items", Label: "workspace_id",
		Meaning: "Items of these workspaces that hold slots."})
	i.workspaceLimit = m.gauge(Metric{Name: "pgdispatch_workspace_limit", Unit: "items", Label: "workspace_id",
		Meaning: "Limits of these workspaces."})
}

// addLimits adds the gauges of the limits of keys. PGDISPATCH_METRICS_LIMITS sets the number of their series.
func (i *instruments) addLimits(m *maker) {
	const key, within = "key", "workspace_id"
	i.limitActive = m.gauge(Metric{Name: "pgdispatch_limit_active", Unit: "items", Label: key, Within: within,
		Meaning: "Items with the limit's key that hold slots, of the PGDISPATCH_METRICS_LIMITS most used limits. " +
			"A limit over all workspaces has no `workspace_id`. Both labels are `other` for the sum of all " +
			"others, among the newest 10,000 items that hold slots."})
	i.limitMax = m.gauge(Metric{Name: "pgdispatch_limit_max", Unit: "items", Label: key, Within: within,
		Meaning: "How many items these limits allow at once; absent if they limit rates only."})
	i.limitWaiting = m.gauge(Metric{Name: "pgdispatch_limit_waiting", Unit: "items", Label: key, Within: within,
		Meaning: "Due items that wait with the key of these limits, up to 1,000; `other`: up to 100 of each other key."})
	i.limitFull = m.gauge(Metric{Name: "pgdispatch_limit_full", Unit: "0 or 1", Label: key, Within: within,
		Meaning: "1: this limit allows no start now."})
}

// addSignals adds the gauges of signals.
func (i *instruments) addSignals(m *maker) {
	i.signalsUndelivered = m.gauge(Metric{Name: "pgdispatch_signals_undelivered", Unit: "signals",
		Meaning: "Open signals, also of workflows that have not started; 10,000 means 10,000 or more."})
	i.oldestSignal = m.gauge(Metric{Name: "pgdispatch_oldest_signal_seconds", Unit: "seconds",
		Meaning: "Age of the oldest open signal that waits for neither its workflow's start nor an earlier " +
			"signal; 0: there is none."})
}
