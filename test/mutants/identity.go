package main

// identity: however often a start is sent, it is the same request, and nobody else's workflow is taken for ours.
var identity = []mutant{
	{"request ID is the item's", "each attempt has a request ID of its own",
		[]edit{{"dispatch/temporal.go", `"pgdispatch-" + item.ExecutionID`, `fmt.Sprint("pgdispatch-", item.ExecutionID, item.Token)`}},
		"./dispatch", "TestSameItemGivesTheSameRequest"},
	{"REJECT_DUPLICATE", "a workflow ID may be used again when its run has ended",
		[]edit{{"dispatch/temporal.go", "WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE", "WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE"}},
		"./dispatch", "TestStartAsksForTheWorkflowOfTheItem"},
	{"conflict policy FAIL", "whatever runs under the ID is taken for ours",
		[]edit{{"dispatch/temporal.go", "WORKFLOW_ID_CONFLICT_POLICY_FAIL", "WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING"}},
		"./dispatch", "TestStartAsksForTheWorkflowOfTheItem"},
	{"memo tells ours from a stranger's", "a stranger's workflow under our ID is success",
		[]edit{{"dispatch/temporal.go", "return bytes.Equal(info.GetMemo().GetFields()[memoKey].GetData(), jsonString(item.ExecutionID))",
			"return bytes.Equal(jsonString(item.ExecutionID), jsonString(item.ExecutionID))"}},
		"./dispatch", "TestAlreadyStartedByAStrangerFailsTheItem"},
	{"repeated start keeps its version", "a start that may have arrived is repeated with a newer version of its definition",
		[]edit{{claimFile, "(not q.outcome_unknown or v.id = coalesce(", "(true or v.id = coalesce("}},
		"./sql", "TestARepeatedStartKeepsItsVersionAndANewOneTakesTheNewest"},
	{"repeated start keeps its namespace", "a start that may have arrived is repeated where its definition says now",
		[]edit{{claimFile, "coalesce(e.namespace, d.namespace, own_namespace)", "coalesce(d.namespace, own_namespace)"}},
		"./sql", "TestAnUnansweredStartStaysInItsNamespace"},
	{"claim under way is not torn", "a claim is cancelled with its replica, and nobody knows what it holds",
		[]edit{{"dispatch/dispatcher.go", "r.ask(context.WithoutCancel(ctx), wanted)", "r.ask(ctx, wanted)"}},
		"./dispatch", "TestClaimUnderWayIsNotTornByTheEnd"},
}
