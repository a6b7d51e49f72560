package finish

import (
	"testing"

	"github.com/stretchr/testify/require"
	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/pgdispatch/pgdispatch/internal/codectest"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

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
