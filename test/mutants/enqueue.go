package main

// enqueuing: one item for many calls of pgdispatch.enqueue.
var enqueuing = []mutant{
	{"a key is taken once", "two items take a key at once",
		[]edit{{"sql/functions/take_key.sql", "\n    where k.item_id = seen;", ";"}},
		"./sql", "TestManyClientsOfOneKeyHaveOneLiveItem"},
	{"a claimed item is not replaced", "an item that was claimed meanwhile is given other params",
		[]edit{{"sql/functions/replace_waiting.sql",
			"q.status = 'PENDING' and not q.outcome_unknown and not pgdispatch.kept_out(q.workspace_id)\n      and exists",
			"exists"}},
		"./sql", "TestAReplacementWaitsForTheClaimThatIsUnderWay"},
	{"replacing respects the isolation", "an enqueuer replaces another workspace's item",
		[]edit{{"sql/functions/replace_waiting.sql", " and not pgdispatch.kept_out(q.workspace_id)\n      and exists",
			"\n      and exists"}},
		"./sql", "TestIsolationKeepsKeysToTheirWorkspace"},
	{"a changed item is announced", "an item that changes while a claim chooses it waits for a minute",
		[]edit{{movedFile, "or old.enqueue_xid <> pg_current_xact_id()", ""}},
		"./sql", "TestAnItemThatChangesWhileAClaimChoosesItIsClaimedByTheNext"},
}
