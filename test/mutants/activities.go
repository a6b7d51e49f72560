package main

// activities: standalone activities start once, end, and are told apart from others' and from workflows.
var activities = []mutant{
	{"an activity's start rejects a second run", "a repeated start of a closed activity runs it again",
		[]edit{{"temporal.order.asActivity", "REUSE_POLICY_REJECT_DUPLICATE", "REUSE_POLICY_ALLOW_DUPLICATE"}},
		"./internal/temporal", "TestAnItemOfAnActivityStartsItUnderTheSameIdentity"},
	{"an activity is ours only by its header", "an activity of somebody else is taken for the item's",
		[]edit{{"temporal.runOf", "&& marked.ExecutionID == executionID", "&& true"}},
		"./internal/temporal", "TestARepeatedStartFindsItsActivityAndNoOther"},
	{"an activity of a reused ID is looked for", "an unanswered start runs its activity again once its ID was reused",
		[]edit{{"temporal.Client.ownActivity", "case runOf(described.GetInfo(), start.ID).ours:",
			"case described == nil:"}},
		"./internal/temporal", "TestAnUnansweredActivityIsNotSentAgainAfterItsIDWasReused"},
	{"an activity's start requests no callback", "Temporal refuses the start, and workflows lose their callbacks",
		[]edit{{"temporal.Client.sendWithCallback", "if request.activity != nil ||", "if"}},
		"./internal/temporal", "TestAnItemOfAnActivityStartsItUnderTheSameIdentity"},
	{"an empty poll is no end", "an activity counts as completed when a long poll ends empty",
		[]edit{{"temporal.Client.outcome", "if err != nil || response.GetOutcome() != nil {", "if true {"}},
		"./internal/temporal", "TestTheEndOfAnActivityIsItsOutcome"},
	{"results of activities are decoded", "an operator sees ciphertext",
		[]edit{{"temporal.Client.activityEnd",
			"if err := t.decode(ctx, execution, outcome.GetResult(), outcome.GetFailure()); err != nil {",
			"if err := error(nil); err != nil {"}},
		"./internal/temporal", "TestAnActivityIsEncodedAndItsEndDecoded"},
}
