package main

// policy: an outage costs probes, and a bad item harms nobody else.
var policy = []mutant{
	{"outage opens the breaker", "an outage has claims wait for a second, and no more",
		[]edit{{"dispatch/dispatcher.go", "r.breaker.trip(", "r.retryAt = time.Now().Add(time.Second); new(breaker).trip("}},
		"./dispatch", "TestOutageIsProbedByOneItemAndBurnsNoAttempts"},
	{"breaker pauses", "an open breaker lets every claim through",
		[]edit{{"dispatch/breaker.go", "case !b.open():", "case true:"}},
		"./dispatch", "TestBreakerTripsProbesOneAtATimeAndCloses"},
	{"one probe at a time", "after a pause all workers probe",
		[]edit{{"dispatch/breaker.go", "return min(free, 1)", "return free"}},
		"./dispatch", "TestBreakerTripsProbesOneAtATimeAndCloses"},
	{"release counts no attempt", "an outage burns attempts",
		[]edit{{"sql/release.sql", "greatest(q.attempt_count - 1, 0)", "q.attempt_count"}},
		"./sql", "TestReleaseWithoutDoubtGivesTheSlotBack"},
	{"panic is contained", "a panic in one hand-over ends the replica",
		[]edit{{"dispatch/worker.go", "if recovered := recover(); recovered != nil {", "if recovered := any(nil); recovered != nil {"}},
		"./dispatch", "TestPanicInStartIsContainedAndRetriedAsUnknown"},
	{"quarantine after three lost holders", "an item may kill holder after holder",
		[]edit{{claimFile, "q.lost_lease_count >= 3", "false"}},
		"./sql", "TestAnItemThatLostItsHolderThreeTimesIsAProblem"},
}
