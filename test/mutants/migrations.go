package main

// migrations: an upgrade does not disturb concurrent writers.
var migrations = []mutant{
	{"triggers are replaced one table at a time", "one transaction locks all tables, one after another",
		[]edit{{"migrate.replaceTriggers", `strings.SplitSeq(file.Text, "\n\n")`, `strings.SplitSeq(file.Text, "\x00")`}},
		"./sql/migrate", "TestTriggersAreReplacedWithoutADeadlockWithATransactionThatWritesSeveralTables"},
	{"a migration waits half a second for a lock", "writers wait for a migration that waits, or fail in a deadlock",
		[]edit{{"migrate.step", `"set lock_timeout = '"+lockTimeout+"'"`, `"select 1"`}},
		"./sql/migrate", "TestAMigrationGivesWayToATransactionThatNeedsATableWhichItHasLocked"},
	{"a migration in a deadlock is repeated", "an upgrade beside writers fails",
		[]edit{{"postgres.FailedToLock", " || HasCode(err, deadlockDetected)", ""}},
		"./sql/migrate", "TestAMigrationGivesWayToATransactionThatNeedsATableWhichItHasLocked"},
	{"functions of earlier versions keep their grants", "replicas of an earlier version may no longer call its functions",
		[]edit{{"sql/schema/grants.sql", "and p.proname in ({{ . }})", ""}},
		"./sql/migrate", "TestUpLeavesFunctionsAloneThatItDoesNotHave"},
	{"the gate is logged", "on a standby that is promoted soon after a migration, every insert fails",
		[]edit{{"sql/tables/016_other_peoples_postgres.sql",
			"create sequence pgdispatch.gate", "create unlogged sequence pgdispatch.gate"}},
		"./sql", "TestMigrateUp_WorksOnAStandbyPromotedAtOnce"},
	{"a part of the housekeeping fails alone", "a table that refuses a change stops all other housekeeping",
		[]edit{{"sql function keep_house", `exception when others then {{ template "part_failed" }};`, ""}},
		"./sql", "TestSweep_EachPartFailsAlone"},
	{"recovery fails alone", "an item that cannot be cancelled keeps expired leases from being requeued",
		[]edit{{"sql function sweep_due", "late := pgdispatch.cancel_late(at_most); exception when others then " +
			`{{ template "part_failed" }};`, "late := pgdispatch.cancel_late(at_most);"}},
		"./sql", "TestSweep_EachPartFailsAlone"},
	{"marks have an identity", "with a publication for all tables, no mark is ever deleted",
		[]edit{{"sql/tables/016_other_peoples_postgres.sql", "alter table pgdispatch.marks replica identity full;", ""}},
		"./sql", "TestPublicationForAllTables_StopsNothing"},
	{"sequences are set past their tables", "in a logical copy, every insert fails",
		[]edit{{"migrate.advanceSequences", "highest[name] = value", "_ = value"}},
		"./sql", "TestMigrateUp_SetsEachSequencePastItsTable"},
}
