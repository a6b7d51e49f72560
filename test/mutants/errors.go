package main

// afterErrors: what a component has to do once a call has failed.
var afterErrors = []mutant{
	{"a lost settle frees its worker", "each lease that is lost before its settle costs a worker for good",
		[]edit{{"dispatch.run.endStarted", "r.end(s, err) r.idle++", "r.end(s, err); if err == nil { r.idle++ }"}},
		"./dispatch", "TestWhicheverCallFailsAllEndsAsIfNoneHad"},
	{"a failed settle frees its worker", "each settle that fails costs a worker for good",
		[]edit{{"dispatch.run.settleStarted", "r.outcomes <- result{outcome: engine.Started}",
			"if err == nil { r.outcomes <- result{outcome: engine.Started} }"}},
		"./dispatch", "TestWhicheverCallFailsAllEndsAsIfNoneHad"},
	{"a failed claim looks again", "items whose notification a failed claim had wait for a poll",
		[]edit{{"dispatch.run.claim", "r.look = true // the named workspaces were not claimed", ""}},
		"./dispatch", "TestWhicheverCallFailsAllEndsAsIfNoneHad"},
	{"a settling lease stops no worker", "a lease that is lost while it is settled stops its worker's next item",
		[]edit{{"dispatch.run.handOver", "r.held.settling(lease)", ""}},
		"./dispatch", "TestALeaseThatIsLostWhileItsStartIsSettledDoesNotStopTheWorkersNextItem"},
	{"outcomes of signals outlive an error", "a delivered signal is sent again after an error of the database",
		[]edit{{"request.Signaler.settleAndSend", "taken, err := s.Store.TakeSignals(ctx, s.settled, started, room)",
			"settled := s.settled; s.settled = nil; taken, err := s.Store.TakeSignals(ctx, settled, started, room)"}},
		"./request", "TestAnOutcomeThatCouldNotBeRecordedIsRecordedLater"},
	{"excess watches outlive an error", "an execution that nobody watches seems to be watched",
		[]edit{{"complete.Watcher.tend", "w.excess = append(w.excess, excess...)", ""}},
		"./complete", "TestWhatCouldNotBeGivenUpIsGivenUpLaterAndAdoptingFollows"},
	{"a requeue does not put off the next lease", "a lease that expires after a requeue waits for a whole interval",
		[]edit{{"sweeper.Sweeper.sweep", "if swept.NextExpiryIn != nil {",
			"if swept.NextExpiryIn != nil && requeued == 0 {"}},
		"./sweeper", "TestWaitsForTheLeaseThatRunsOutNext"},
}
