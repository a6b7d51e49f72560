package temporal

import (
	"testing"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// aSignal approves an execution.
var aSignal = Signal{Execution: Execution{ID: "e1"}, To: "run-1", RequestID: "r1", Name: "approve"}

func send(t *testing.T, service *fakeService, signal Signal) (string, error) {
	t.Helper()
	return (&Client{Service: service, Namespace: "shop", Identity: "replica_1"}).Signal(t.Context(), signal)
}

func TestASignalGoesToOneRunWithItsOwnRequestID(t *testing.T) {
	t.Parallel()
	service, signal := &fakeService{}, aSignal
	for _, payload := range [][]byte{[]byte(`{"n": 1}`), nil} {
		signal.Payload = payload
		require.Empty(t, must.Get(send(t, service, signal)).In(t))
	}
	got := service.signals[0]
	to := got.GetWorkflowExecution()
	require.Equal(t, "execution-e1 run-1", to.GetWorkflowId()+" "+to.GetRunId())
	require.Equal(t, []string{"shop", "approve", "pgdispatch-signal-r1", "replica_1"},
		[]string{got.GetNamespace(), got.GetSignalName(), got.GetRequestId(), got.GetIdentity()})
	require.Equal(t, `{"n": 1}`, string(got.GetInput().GetPayloads()[0].GetData()))
	require.Nil(t, service.signals[1].GetInput(), "without a payload it has no argument")
}

// An unanswered signal may have reached a run that has closed since, so it is offered to each run from the first on.
func TestASignalToAClosedRunIsSentNowhereElse(t *testing.T) {
	gone := serviceerror.NewNotFound("workflow execution already completed")
	newest := func(runID string, open bool) *workflowpb.WorkflowExecutionInfo {
		info := described(runID, "e1", open)
		info.FirstRunId = "run-0"
		return info
	}
	stranger, next := described("run-9", "stranger", true), history{closed(continued("run-2"))}
	last := history{closed(completed("")), closed(completed(""))}
	type given struct {
		unanswered bool
		to         string
		newest     *workflowpb.WorkflowExecutionInfo
		closed     history
		continues  string
		want       error
		sent       int
	}
	must.Each(t, map[string]given{
		"it continues":                     {false, "run-1", newest("run-2", true), nil, "run-2", nil, 1},
		"Temporal has no such ID":          {false, "run-1", nil, nil, "", ErrMissing, 1},
		"a stranger took the ID":           {false, "run-1", stranger, nil, "", ErrMissing, 1},
		"it is not known which run got it": {true, "", newest("run-9", true), nil, "run-0", nil, 0},
		"the workflow is gone":             {true, "", nil, nil, "", ErrMissing, 0},
		"the ID is a stranger's":           {true, "", stranger, nil, "", ErrEnded, 0},
		"the next run, not the open one":   {true, "run-1", newest("run-9", true), next, "run-2", nil, 1},
		"the next run, if none is open":    {true, "run-1", newest("run-9", false), next, "run-2", nil, 1},
		"the run is gone, others are not":  {true, "run-1", newest("run-9", false), nil, "run-9", nil, 1},
		"it was the last":                  {true, "run-9", newest("run-9", false), last, "", ErrEnded, 1},
	}, func(t *testing.T, row given) {
		service, signal := &fakeService{newest: row.newest, stop: gone}, aSignal
		service.answers = append(row.closed, fails(gone), fails(gone))
		signal.To, signal.Unanswered = row.to, row.unanswered
		continues, err := send(t, service, signal)
		require.ErrorIs(t, err, row.want)
		require.Equal(t, row.continues, continues)
		require.Len(t, service.signals, row.sent)
	})
}

func TestASignalThatGotNoAnswerMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		answer  error
		outcome engine.Outcome
		away    bool
	}{
		{serviceerror.NewUnavailable("connection refused"), engine.Unanswered, true},
		{serviceerror.NewNamespaceNotFound("shop"), engine.Blocked, false},
		{serviceerror.NewInvalidArgument("Blob data size exceeds limit."), engine.Permanent, false},
	} {
		_, err := send(t, &fakeService{stop: row.answer}, aSignal)
		require.Equal(t, row.outcome, Classify(err), "%s", row.answer)
		if row.away {
			require.ErrorIs(t, err, ErrAway)
		}
		require.NotErrorIs(t, err, ErrEnded)
	}
}
