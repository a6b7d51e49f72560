package temporal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// aNamed is an item that names its workflow's ID.
func aNamed(policy Policy) Start {
	start := anItem()
	start.WorkflowID, start.Policy = "order-17", policy
	return start
}

func TestAPolicyIsLeftToTemporal(t *testing.T) {
	t.Parallel()
	for policy, want := range map[Policy][2]string{
		"": {"RejectDuplicate", "Fail"}, Reject: {"RejectDuplicate", "Fail"}, Reuse: {"AllowDuplicate", "Fail"},
		UseExisting: {"AllowDuplicate", "UseExisting"},
	} {
		service := &startService{}
		must.Get(starterOn(service).Start(t.Context(), aNamed(policy))).In(t)
		r := service.started[0]
		require.Equal(t, "order-17", r.WorkflowId)
		require.Equal(t, want, [2]string{r.WorkflowIdReusePolicy.String(), r.WorkflowIdConflictPolicy.String()})
		require.Equal(t, policy == UseExisting, r.GetOnConflictOptions().GetAttachRequestId())
	}
	service := &startService{}
	_, err := starterOn(service).Start(t.Context(), aNamed("later"))
	require.ErrorContains(t, err, `workflow_id_policy is "later", which this replica does not know: upgrade it`)
	require.Equal(t, engine.Permanent, Classify(err))
	unnamed := anItem()
	unnamed.Policy = Reuse
	must.Get(starterOn(service).Start(t.Context(), unnamed)).In(t)
	require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, service.started[0].WorkflowIdReusePolicy)
}

func TestARunThatAPolicyRejectsIsNamed(t *testing.T) {
	t.Parallel()
	for policy, what := range map[Policy]string{Reject: "run-there, and the", Reuse: "run-there, which is open, and the"} {
		service := &startService{start: alreadyStarted("somebody-else"), describe: describedAs("run-there", "")}
		_, err := starterOn(service).Start(t.Context(), aNamed(policy))
		require.ErrorIs(t, err, ErrExists)
		require.ErrorContains(t, err, `"order-17" is that of run `+what)
		require.Equal(t, engine.Permanent, Classify(err))
	}
}

func TestAnUnansweredStartIsNotSentWhileItsRunIsFound(t *testing.T) {
	t.Parallel()
	forgotten := aNamed(Reuse)
	forgotten.UnansweredFor = time.Hour
	for _, start := range []Start{aNamed(Reuse), aNamed(UseExisting), forgotten} {
		start.Unanswered = start.UnansweredFor == 0
		service := &startService{describe: describedAs("run-continued", start.ID)}
		runID := must.Get(starterOn(service).Start(t.Context(), start)).In(t)
		require.Equal(t, "run-continued", runID)
		require.Empty(t, service.started)

		listed := &startService{describe: describedAs("run-later", ""),
			runs: []*workflowpb.WorkflowExecutionInfo{
				{Execution: &commonpb.WorkflowExecution{RunId: "run-later"}},
				{Execution: &commonpb.WorkflowExecution{RunId: "run-ours"}, Memo: memo(start.ID)},
			}}
		runID = must.Get(starterOn(listed).Start(t.Context(), start)).In(t)
		require.Equal(t, "run-ours", runID, "another client has used the ID since")
		require.Empty(t, listed.started)
		require.Equal(t, []string{"WorkflowId = 'order-17'"}, listed.queries)

		listed.runs = nil
		must.Get(starterOn(listed).Start(t.Context(), start)).In(t)
		require.Len(t, listed.started, 1, "it never ran")
	}
}

func TestAFollowersCallbackIsAttachedUnlessTheRunIsFull(t *testing.T) {
	t.Parallel()
	c := newCaller()
	must.Get(c.Start(t.Context(), aNamed(UseExisting))).In(t)
	require.True(t, c.sent[0].OnConflictOptions.AttachCompletionCallbacks)
	c.refuses = serviceerror.NewFailedPrecondition("cannot attach more than 32 callbacks")
	must.Get(c.Start(t.Context(), aNamed(UseExisting))).In(t)
	require.False(t, c.sent[2].OnConflictOptions.AttachCompletionCallbacks)
	require.True(t, c.Callback.Taken(), "other workflows take callbacks")
}

// An item that follows another's run goes on with it, and with no other run of the ID.
func TestAFollowerGoesOnWithItsRun(t *testing.T) {
	t.Parallel()
	follower := Execution{ID: "e1", WorkflowID: "order-17", RunID: "run-1"}
	newest := described("run-2", "e2", true)
	service := &fakeService{newest: newest}
	require.EqualError(t, (&Client{Service: service}).Stop(t.Context(), Stop{Execution: follower, How: "TERMINATE"}),
		"workflow was not started by pgdispatch")
	newest.FirstRunId = "run-1"
	require.NoError(t, (&Client{Service: service}).Stop(t.Context(), Stop{Execution: follower, How: "TERMINATE"}))
}

func TestAQueryForRunsNamesOnlyWhatVisibilityCompares(t *testing.T) {
	t.Parallel()
	for id, query := range map[string]string{
		"order-17":  "WorkflowId = 'order-17'",
		"it's \\ 1": "WorkflowId starts_with 'it'",
		`a\b'c`:     "WorkflowId starts_with 'a'",
		`"17"`:      "",
	} {
		require.Equal(t, query, new(Client).runsUnder(Execution{WorkflowID: id}), id)
	}
	old := &Client{}
	old.noPrefix.Store(true)
	require.Empty(t, old.runsUnder(Execution{WorkflowID: "it's"}), "a server that cannot search by prefix")
}
