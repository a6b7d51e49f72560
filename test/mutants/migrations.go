package main

// migrations: an upgrade does not disturb concurrent writers.
var migrations = []mutant{
	{"triggers are replaced one table at a time", "one transaction locks all tables, one after another",
		[]edit{{"sql/migrate/functions.go", `strings.SplitSeq(file.Text, "\n\n")`, `strings.SplitSeq(file.Text, "\x00")`}},
		"./sql/migrate", "TestTriggersAreReplacedWithoutADeadlockWithATransactionThatWritesSeveralTables"},
}
