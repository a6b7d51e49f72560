package finish

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	activitypb "go.temporal.io/api/activity/v1"
	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/pgdispatch/pgdispatch/internal/codectest"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// frontend is a Temporal that knows what has ended.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	failed map[string]bool // IDs of workflows and activities with those of their runs
}

var cold = &failurepb.Failure{Message: "the oven is cold"}

func (f *frontend) DescribeActivityExecution(_ context.Context, r *workflowservice.DescribeActivityExecutionRequest,
) (*workflowservice.DescribeActivityExecutionResponse, error) {
	answer := &workflowservice.DescribeActivityExecutionResponse{}
	if f.failed[r.GetActivityId()+r.GetRunId()] {
		answer.Outcome = &activitypb.ActivityExecutionOutcome{
			Value: &activitypb.ActivityExecutionOutcome_Failure{Failure: cold}}
	}
	return answer, nil
}

func (f *frontend) DescribeWorkflowExecution(_ context.Context, r *workflowservice.DescribeWorkflowExecutionRequest,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	status := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if f.failed[r.GetExecution().GetWorkflowId()] {
		status = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status}}, nil
}

func (f *frontend) GetWorkflowExecutionHistory(_ context.Context, r *workflowservice.GetWorkflowExecutionHistoryRequest,
) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	history := &historypb.History{} // without the close event
	if f.failed[r.GetExecution().GetWorkflowId()+r.GetExecution().GetRunId()] {
		history.Events = []*historypb.HistoryEvent{{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{
				WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{Failure: cold}}}}
	}
	return &workflowservice.GetWorkflowExecutionHistoryResponse{History: history}, nil
}

// reports lets a reporter report the end that a worker's request says, and returns what was said.
func (f *frontend) reports(t *testing.T, e *ear, request any) []string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	r := New(e, nil)
	end, found := r.ended(request)
	require.True(t, found)
	end.conn = conn
	require.NoError(t, r.report(t.Context(), end))
	return e.all()
}

func TestWhatFailedIsSaidOnceTemporalTriesNoMore(t *testing.T) {
	t.Parallel()
	for kind, fails := range failures {
		f := &frontend{}
		require.Empty(t, f.reports(t, &ear{}, fails(kind+":execution-"+execution)), kind)
		f.failed = map[string]bool{"execution-" + execution: true}
		require.Equal(t, []string{execution + "=FAILED"}, f.reports(t, &ear{}, fails(kind+":execution-"+execution)), kind)
	}
}

// Two items follow the workflow, of which one waits for a later run, and an item of an activity has the same ID.
func TestAnEndUnderAnIDThatItemsNameIsSaidForThoseWhoseRunHasEnded(t *testing.T) {
	t.Parallel()
	f := &frontend{failed: map[string]bool{"order-1 run-1": true, "order-1 run-3": true}}
	for kind, want := range map[string]string{"workflow": "ended=FAILED", "activity": "mail=FAILED"} {
		e := &ear{runs: map[string]map[string]string{
			"workflow shop order-1": {"ended": " run-1", "open": " run-2"}, "activity shop order-1": {"mail": " run-3"},
			"workflow other order-1": {"elsewhere": " run-1"}}}
		require.Equal(t, []string{want}, f.reports(t, e, failures[kind](kind+":order-1")))
	}
}

// failures are what workers of each kind send when their work has failed.
var failures = map[string]func(resource string) any{
	"activity": func(resource string) any {
		return &workflowservice.RespondActivityTaskFailedRequest{Namespace: "shop", ResourceId: resource, Failure: cold}
	},
	"workflow": func(resource string) any {
		return &workflowservice.RespondWorkflowTaskCompletedRequest{Namespace: "shop", ResourceId: resource,
			Commands: []*commandpb.Command{{CommandType: enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION}}}
	},
}

func TestAWorkerWithACodecReportsWhatItsWorkflowsReturned(t *testing.T) {
	t.Parallel()
	r := New(nil, nil)
	r.Codec = codectest.NewCodec()
	encrypting := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), r.Codec)
	result := must.Get(encrypting.ToPayloads(3)).In(t)
	failure := &failurepb.Failure{Message: "the oven is cold"}
	require.NoError(t, converter.EncodeCommonFailureAttributes(encrypting, failure))
	completed := &commandpb.Command{CommandType: completes,
		Attributes: &commandpb.Command_CompleteWorkflowExecutionCommandAttributes{
			CompleteWorkflowExecutionCommandAttributes: &commandpb.CompleteWorkflowExecutionCommandAttributes{Result: result}}}
	failed := &commandpb.Command{CommandType: enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION,
		Attributes: &commandpb.Command_FailWorkflowExecutionCommandAttributes{
			FailWorkflowExecutionCommandAttributes: &commandpb.FailWorkflowExecutionCommandAttributes{Failure: failure}}}
	for command, want := range map[*commandpb.Command]how{
		completed: {"COMPLETED", "", "3"}, failed: {outcome: "FAILED", reason: "the oven is cold"},
	} {
		before := proto.CloneOf(command)
		require.Equal(t, want, r.closes(command))
		require.True(t, proto.Equal(before, command), "the request stays as it is")
	}

	r.Codec = codectest.NewCodec() // of another key
	require.Contains(t, r.closes(completed).reason, `encoding "binary/encrypted"`)
	require.Equal(t, "Encoded failure", r.closes(failed).reason)
	require.Equal(t, how{outcome: "COMPLETED"}, r.closes(&commandpb.Command{CommandType: completes}))
}
