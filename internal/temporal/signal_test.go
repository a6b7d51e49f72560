package temporal

import (
	"context"
	"testing"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// signalService keeps the signals that it gets, and answers with an error.
type signalService struct {
	fakeService
	got    []*workflowservice.SignalWorkflowExecutionRequest
	answer error
}

func (s *signalService) SignalWorkflowExecution(_ context.Context, r *workflowservice.SignalWorkflowExecutionRequest,
	_ ...grpc.CallOption) (*workflowservice.SignalWorkflowExecutionResponse, error) {
	s.got = append(s.got, r)
	return &workflowservice.SignalWorkflowExecutionResponse{}, s.answer
}

func signalTo(t *testing.T, service *signalService, payload string) (string, error) {
	t.Helper()
	signal := Signal{Execution: Execution{ID: "e1"}, To: "run-1", RequestID: "r1", Name: "approve"}
	if payload != "" {
		signal.Payload = []byte(payload)
	}
	return (&Client{Service: service, Namespace: "shop", Identity: "replica_1"}).Signal(t.Context(), signal)
}

func TestASignalGoesToOneRunWithItsOwnRequestID(t *testing.T) {
	t.Parallel()
	service := &signalService{}
	for _, payload := range []string{`{"n": 1}`, ""} {
		continues := must(signalTo(t, service, payload)).in(t)
		require.Empty(t, continues)
	}
	got := service.got[0]
	to := got.GetWorkflowExecution()
	require.Equal(t, "execution-e1 run-1", to.GetWorkflowId()+" "+to.GetRunId())
	require.Equal(t, []string{"shop", "approve", "pgdispatch-signal-r1", "replica_1"},
		[]string{got.GetNamespace(), got.GetSignalName(), got.GetRequestId(), got.GetIdentity()})
	require.Equal(t, `{"n": 1}`, string(got.GetInput().GetPayloads()[0].GetData()))
	require.Nil(t, service.got[1].GetInput(), "without a payload it has no argument")
}

func TestASignalToAClosedRunIsSentNowhereElse(t *testing.T) {
	t.Parallel()
	gone := serviceerror.NewNotFound("workflow execution already completed")
	for name, row := range map[string]struct {
		newest    *workflowpb.WorkflowExecutionInfo
		continues string
		want      error
	}{
		"it continues":            {described("run-2", "e1", true), "run-2", nil},
		"Temporal has no such ID": {nil, "", ErrEnded},
		"a stranger took the ID":  {described("run-2", "stranger", true), "", ErrEnded},
	} {
		t.Run(name, func(t *testing.T) {
			service := &signalService{fakeService: fakeService{newest: row.newest}, answer: gone}
			service.answers = history{func() (*historyResponse, error) { return nil, gone }}
			continues, err := signalTo(t, service, "")
			require.ErrorIs(t, err, row.want)
			require.Equal(t, row.continues, continues)
			require.Len(t, service.got, 1)
		})
	}
}

// An unanswered signal may have reached a run that has closed since, so it passes over none.
func TestAnUnansweredSignalIsOfferedToEachRunFromTheFirstOn(t *testing.T) {
	t.Parallel()
	gone := serviceerror.NewNotFound("workflow execution already completed")
	of := func(event *historypb.HistoryEvent, err error) history {
		return history{func() (*historyResponse, error) {
			return &historyResponse{History: &historypb.History{Events: []*historypb.HistoryEvent{event}}}, err
		}}
	}
	newest := func(runID string, open bool) *workflowpb.WorkflowExecutionInfo {
		info := described(runID, "e1", open)
		info.FirstRunId = "run-0"
		return info
	}
	for name, row := range map[string]struct {
		runID     string
		newest    *workflowpb.WorkflowExecutionInfo
		closed    history
		continues string
		want      error
		sent      int
	}{
		"it is not known which run got it": {"", newest("run-9", true), nil, "run-0", nil, 0},
		"the workflow is gone":             {"", nil, nil, "", ErrEnded, 0},
		"the ID is a stranger's":           {"", described("run-9", "stranger", true), nil, "", ErrEnded, 0},
		"the next run, not the open one": {"run-1", newest("run-9", true), of(continued("run-2"), nil), "run-2", nil,
			1},
		"the next run, if none is open": {"run-1", newest("run-9", false), of(continued("run-2"), nil), "run-2", nil,
			1},
		"the run is gone, others are not": {"run-1", newest("run-9", false), of(nil, gone), "run-9", nil, 1},
		"it was the last":                 {"run-9", newest("run-9", false), of(nil, gone), "", ErrEnded, 1},
	} {
		t.Run(name, func(t *testing.T) {
			service := &signalService{fakeService: fakeService{newest: row.newest}, answer: gone}
			service.answers = append(row.closed, of(nil, gone)...)
			continues, err := (&Client{Service: service, Namespace: "shop"}).Signal(t.Context(),
				Signal{Execution: Execution{ID: "e1"}, To: row.runID, RequestID: "r1", Name: "approve", Unanswered: true})
			require.ErrorIs(t, err, row.want)
			require.Equal(t, row.continues, continues)
			require.Len(t, service.got, row.sent)
		})
	}
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
		_, err := signalTo(t, &signalService{answer: row.answer}, "")
		require.Equal(t, row.outcome, Classify(err), "%s", row.answer)
		if row.away {
			require.ErrorIs(t, err, ErrAway)
		}
		require.NotErrorIs(t, err, ErrEnded)
	}
}
