package main

// gathering: started items wait a moment to be settled together, but never where somebody needs their leases or slots.
var gathering = []mutant{
	{"what is started waits for company", "each started item is settled alone",
		[]edit{{"dispatch.run.gathers", "return len(r.started) > 0 && r.roomy", "return false && r.roomy"}},
		"./dispatch", "TestStartedItemsWaitForOthersToBeSettledWithThem"},
	{"nothing started waits while W is nearly used up", "other replicas wait for leases that nobody needs any more",
		[]edit{{"dispatch.run.gathers", "len(r.started) > 0 && r.roomy &&", "len(r.started) > 0 &&"}},
		"./dispatch", "TestStartedItemsDoNotWaitWhileWIsNearlyUsedUp"},
	{"a busy replica settles in its claims", "a busy replica holds more leases than it has workers, or leaves some idle",
		[]edit{{"dispatch.run.gathers", "&& 2*r.idle >= r.Workers", ""}},
		"./dispatch", "TestStartedItemsAreSettledByTheClaimOfABusyReplica"},
	{"an awaited slot is settled at once", "the end of a workflow is noticed later, although items wait for its slot",
		[]edit{{"dispatch.run.keep", "if done.started.item.Awaited {", "if false {"}},
		"./dispatch", "TestAStartedItemWhoseSlotOthersAwaitIsSettledAtOnce"},
	{"a full workspace's slot is awaited", "nobody knows that items wait for a slot",
		[]edit{{"schedule.Schedule.Awaited", "l.closed && len(l.levels) > 0 ||", ""}},
		"./claim/schedule", "TestTheScheduleGivesTheOrderOfANaiveList"},
}
