package main

const (
	tryGate  = `if {{ template "sleeps" }} then`
	peepGate = "if pg_sequence_last_value('pgdispatch.gate') = 1 then"
)

// gate: sleeping dispatchers are woken.
var gate = []mutant{
	{"gate is tried exclusively", "a dispatcher sleeps without waiting for transactions that saw no sleeper",
		[]edit{{"sql name gate_shut", "pg_try_advisory_xact_lock(", "pg_try_advisory_xact_lock_shared("}},
		"./notify", "TestASleeperWaitsForWhoeverWasToldThatNobodySleeps"},
	{"claim after the gate is shut", "a dispatcher sleeps without looking once more",
		[]edit{{"notify.Gate.shut", "g.Shutting()", ""}},
		"./notify", "TestWhoeverFallsAsleepIsToldToLookOnceMore"},
	{"insert tries the gate", "an insert assumes that no dispatcher sleeps",
		[]edit{{"sql function item_enqueued", tryGate, "if false then"}},
		"./sql", "TestEveryCommittedEnqueueIsHeardOnce"},
	{"insert keeps the gate to its end", "an insert checks the gate and lets it go",
		[]edit{{"sql function item_enqueued", tryGate, peepGate}},
		"./sql", "TestWhoeverWasToldThatNobodySleepsKeepsTheGateToItsEnd"},
	{"freed slot tries the gate", "a move assumes that no dispatcher sleeps",
		[]edit{{"sql function wake_for", tryGate, "if false then"}},
		"./sql", "TestChangesThatMayFreeCapacityAreHeard"},
	{"freed slot keeps the gate to its end", "a move checks the gate and lets it go",
		[]edit{{"sql function wake_for", tryGate, peepGate}},
		"./sql", "TestWhoeverWasToldThatNobodySleepsKeepsTheGateToItsEnd"},
	{"changed limit tries the gate", "a change of a limit assumes that no dispatcher sleeps",
		[]edit{{"sql function wake", tryGate, "if false then"}},
		"./sql", "TestChangesThatMayFreeCapacityAreHeard"},
	{"changed limit keeps the gate to its end", "a change of a limit checks the gate and lets it go",
		[]edit{{"sql function wake", tryGate, peepGate}},
		"./sql", "TestWhoeverWasToldThatNobodySleepsKeepsTheGateToItsEnd"},
	{"no notification while the queue fills", "an enqueue fails after another client has filled the notification queue",
		[]edit{{"sql part sleeps", `and {{ template "room" }}`, ""}},
		"./sql", "TestAStrangerWhoFillsTheNotificationQueueStopsNoEnqueue"},
	{"only a sure holder is named", "a replica that cannot see all sessions names another one than the holder",
		[]edit{{"sql name notify_holder", "not c.hidden and", ""}},
		"./sql", "TestOnlyASessionThatSurelyHoldsTheNotificationQueueIsNamed"},
	{"one on duty", "every replica is on duty, and each insert wakes all",
		[]edit{{"sql name gate_duty", "pg_try_advisory_lock(", "pg_try_advisory_lock_shared("}},
		"./notify", "TestOneIsOnDutyAndABusyOneHandsItOver"},
}
