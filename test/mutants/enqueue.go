package main

// enqueuing: one item for many calls of pgdispatch.enqueue.
var enqueuing = []mutant{
	{"a key is taken once", "two items take a key at once",
		[]edit{{"sql function take_key", "where k.item_id = seen;", ";"}},
		"./sql", "TestManyClientsOfOneKeyHaveOneLiveItem"},
	{"a claimed item is not replaced", "an item that was claimed meanwhile is given other params",
		[]edit{{"sql function replace_waiting",
			"q.status = 'PENDING' and not q.outcome_unknown and not pgdispatch.kept_out(q.workspace_id) and exists",
			"exists"}},
		"./sql", "TestAReplacementWaitsForTheClaimThatIsUnderWay"},
	{"replacing respects the isolation", "an enqueuer replaces another workspace's item",
		[]edit{{"sql function replace_waiting", "and not pgdispatch.kept_out(q.workspace_id) and exists",
			"and exists"}},
		"./sql", "TestIsolationKeepsKeysToTheirWorkspace"},
	{"a changed item is announced", "an item that changes while a claim chooses it waits for a minute",
		[]edit{{movedFile, "or old.enqueue_xid <> pg_current_xact_id()", ""}},
		"./sql", "TestAnItemThatChangesWhileAClaimChoosesItIsClaimedByTheNext"},
	{"a long key is refused by name", "a key of a megabyte fails in an index",
		[]edit{{"sql/schema/triggers.sql", "or octet_length(new.limit_key) > 800)", ")"}},
		"./sql", "TestAMegabyteInAnyTextNamesTheFieldAndTheRemedy"},
	{"a refused value is named", "a workspace or setting is refused without a remedy",
		[]edit{{"sql function refuse_value", "if found then", "if false then"}},
		"./sql", "TestConfigurationRefusesWhatCouldNotBeStarted"},
	{"what insert accepts can be read", "an insert accepts a duration that no replica can read",
		[]edit{{"sql/client/start_options.json", `["duration", 0, 31536000]`, `["duration", 0, 31536000000000]`}},
		"./internal/temporal", "TestTheReplicaReadsAllStartOptionsThatAnInsertAccepts"},
}
