package main

// ambiguity: what may have been started holds its slot until somebody knows.
var ambiguity = []mutant{
	{"unanswered start holds its slot", "an item that waits holds no slot, whatever may run",
		[]edit{{"sql/functions/item_stage.sql", "case when outcome_unknown then 'DOUBT' else 'WAITS' end", "'WAITS'"}},
		"./sql", "TestUnansweredStartHoldsItsSlotUntilItIsAnswered"},
	{"expired lease holds its slot", "an item whose holder died waits like any other",
		[]edit{{"sql/functions/requeue.sql", "outcome_unknown = true", "outcome_unknown = q.outcome_unknown"}},
		"./sql", "TestExpiredLeasesAreNotCountedAndGoBackAtOnce"},
	{"doubt outlives a release", "a later release answers for an earlier start",
		[]edit{{"sql/claim/release.sql", "q.outcome_unknown or done.unknown", "done.unknown"}},
		"./sql", "TestUnansweredStartHoldsItsSlotUntilItIsAnswered"},
	{"doubt of a replica that ends", "what a replica gives back at its end holds no slot",
		[]edit{{"sql/replica/release_owned.sql", "outcome_unknown = true", "outcome_unknown = q.outcome_unknown"}},
		"./sql", "TestReleaseOwnedGivesBackAReplicasOwnClaimsOnly"},
	{"no answer is doubt", "a start that nobody answered is released as if it had not been sent",
		[]edit{{"dispatch/worker.go", "settlement.Verb, settlement.Unknown = claim.Release, true", "settlement.Verb = claim.Release"}},
		"./dispatch", "TestSettlementSaysHowAnOutcomeEndsAClaim"},
	{"look before failing", "an item fails although an earlier start of it may run",
		[]edit{{"dispatch/worker.go", "if settlement.Verb == claim.Fail && item.OutcomeUnknown {", "if false {"}},
		"./dispatch", "TestItemThatMayBeRunningIsLookedForBeforeItFails"},
	{"cancel leaves what may run", "only a constraint is in the way of withdrawing what may run",
		[]edit{{"sql/functions/cancel.sql", "and not q.outcome_unknown", ""}},
		"./sql", "TestCancelWithdrawsWhatWaitsAndNothingElse"},
	{"what Temporal may have forgotten is parked", "a start is repeated however long ago the first one was",
		[]edit{{"dispatch/memory.go", "if item.UnansweredFor < remembered(retention) {", "if true {"}},
		"./dispatch", "TestItemThatTemporalMayHaveForgottenIsNotStarted"},
}
