package proxy

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// counting is a Temporal that counts starts.
type counting struct {
	workflowservice.UnimplementedWorkflowServiceServer
	starts atomic.Int64
}

func (c *counting) StartWorkflowExecution(
	_ context.Context, request *workflowservice.StartWorkflowExecutionRequest,
) (*workflowservice.StartWorkflowExecutionResponse, error) {
	c.starts.Add(1)
	return &workflowservice.StartWorkflowExecutionResponse{RunId: "run of " + request.GetWorkflowId()}, nil
}

// newFrontend returns a proxy in front of a counting Temporal, and a client of it.
func newFrontend(t *testing.T) (*Frontend, *counting, workflowservice.WorkflowServiceClient) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	temporal := &counting{}
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, temporal)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	f, err := NewFrontend(listener.Addr().String(), &Steps{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	conn, err := grpc.NewClient("passthrough:///"+f.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return f, temporal, workflowservice.NewWorkflowServiceClient(conn)
}

func start(t *testing.T, client workflowservice.WorkflowServiceClient, within time.Duration) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	response, err := client.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{WorkflowId: "a"})
	return response.GetRunId(), err
}

func TestTheFrontendPassesCallsAndErrorsOn(t *testing.T) {
	t.Parallel()
	_, _, client := newFrontend(t)
	run, err := start(t, client, soon)
	require.NoError(t, err)
	require.Equal(t, "run of a", run)
	_, err = client.DescribeWorkflowExecution(t.Context(), &workflowservice.DescribeWorkflowExecutionRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
}

// unanswered is how long a call without an answer waits: long enough to be forwarded, even on a busy machine.
const unanswered = time.Second

func TestWhatARuleDoesToAStart(t *testing.T) {
	t.Parallel()
	broken := status.Error(codes.Unavailable, "it broke")
	for _, c := range []struct {
		name   string
		rule   Rule
		want   codes.Code
		starts int64
	}{
		{"void: done and not answered", Rule{Method: Start, Void: true}, codes.DeadlineExceeded, 1},
		{"swallow: not done, not answered", Rule{Method: Start, Swallow: true}, codes.DeadlineExceeded, 0},
		{"lie: done and denied", Rule{Method: Start, Lie: broken}, codes.Unavailable, 1},
		{"refuse: not done", Rule{Method: Start, Refuse: broken}, codes.Unavailable, 0},
		{"delay: answered too late", Rule{Method: Start, Delay: soon}, codes.DeadlineExceeded, 1},
		{"another method", Rule{Method: "DescribeWorkflowExecution", Refuse: broken}, codes.OK, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, temporal, client := newFrontend(t)
			_, err := start(t, client, soon) // the client is connected
			require.NoError(t, err)
			f.Set(c.rule)
			within := soon
			if c.want == codes.DeadlineExceeded {
				within = unanswered
			}
			_, err = start(t, client, within)
			require.Equal(t, c.want, status.Code(err))
			require.Equal(t, c.starts, temporal.starts.Load()-1)
			f.Set(Rule{})
			_, err = start(t, client, soon)
			require.NoError(t, err, "it is lifted")
		})
	}
}

func TestARuleMayBeForOneCall(t *testing.T) {
	t.Parallel()
	f, _, client := newFrontend(t)
	f.Set(Rule{Method: Start, Calls: 1, Refuse: status.Error(codes.Unavailable, "once")})
	_, err := start(t, client, soon)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, 1, f.Hits())
	_, err = start(t, client, soon)
	require.NoError(t, err)
}
