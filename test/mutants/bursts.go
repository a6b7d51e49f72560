package main

// bursts: a workspace may go beyond its limit, exactly as far as its burst limit and only after all others.
var bursts = []mutant{
	{"a burst is asked for", "a claim goes beyond a limit although it did not ask for a burst",
		[]edit{{grantsFile, "case when p.burst then w.most else w.slots end as slots", "w.most as slots"}},
		"./sql", "TestAnEntryStaysWithinTheLimitUnlessItAsksForABurst"},
	{"a burst ends at its limit", "a burst gets as much as requested",
		[]edit{{grantsFile, "case when p.burst then w.most else w.slots end as slots",
			"case when p.burst then 100000 else w.slots end as slots"}},
		"./sql", "TestBurstsAreExactOverManyClaimers"},
	{"a burst counts its holders", "a claim in a burst trusts a bound, so the memory never learns that the burst is over",
		[]edit{{grantsFile, "case when p.burst then 0 else coalesce(w.slots, 1) end as known",
			"coalesce(w.slots, 1) as known"}},
		"./sql", "TestABurstCountsItsHoldersWhateverItsReceipt"},
	{"a limit of 0 has no burst", "a workspace that may start nothing starts a burst",
		[]edit{{"sql/functions/burst_limit.sql", "case when max_concurrent > 0 then greatest(max_concurrent, burst) else " +
			"max_concurrent end", "greatest(max_concurrent, burst)"}},
		"./sql", "TestTheBurstLimitIsThePlansUnlessTheWorkspaceHasItsOwn"},
	{"bursts come last", "a burst takes workers that a workspace within its limit waits for",
		[]edit{{"claim/schedule/schedule.go", "case v.lane.bursts():", "case false:"}},
		"./claim/schedule", "TestABurstComesAfterAllLanesThatAreWithinTheirLimits"},
	{"bursts wait for what is not asked for yet", "a burst overtakes a lower priority that a claim holds back",
		[]edit{{"claim/schedule/propose.go", "if d.burst = true; !d.shut {", "if d.burst = true; true {"}},
		"./claim/schedule", "TestABurstDoesNotOvertakeALowerPriorityThatIsNotAskedForYet"},
	{"a bound starts no burst", "a workspace within its limit is taken for one in a burst",
		[]edit{{"claim/schedule/apply.go", "if st.Bound {", "if false {"}},
		"./claim/schedule", "TestABoundDoesNotMakeALaneBurst"},
	{"a load reads bursts", "a replica that starts during a burst takes the workspace for a full one",
		[]edit{{"claim/schedule/load.go", "if w.Held < w.slots() {", "if w.Held < w.Limit {"}},
		"./claim/schedule", "TestALoadReadsBursts"},
}
