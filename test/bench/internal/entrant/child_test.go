package entrant

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// encodings is a frontend that records how the last start was compressed.
type encodings struct {
	workflowservice.UnimplementedWorkflowServiceServer
	last atomic.Value
}

func (*encodings) GetSystemInfo(
	context.Context, *workflowservice.GetSystemInfoRequest,
) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{}, nil
}

func (*encodings) StartWorkflowExecution(
	context.Context, *workflowservice.StartWorkflowExecutionRequest,
) (*workflowservice.StartWorkflowExecutionResponse, error) {
	return &workflowservice.StartWorkflowExecutionResponse{RunId: "run"}, nil
}

func (*encodings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*encodings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*encodings) HandleConn(context.Context, stats.ConnStats)                       {}

func (e *encodings) HandleRPC(_ context.Context, s stats.RPCStats) {
	const start = workflowservice.WorkflowService_StartWorkflowExecution_FullMethodName
	if header, ok := s.(*stats.InHeader); ok && header.FullMethod == start {
		e.last.Store(header.Compression)
	}
}

func TestRiverStartsAsTheSDKDoesAndOthersByTheBareStub(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &encodings{}
	server := grpc.NewServer(grpc.StatsHandler(e))
	workflowservice.RegisterWorkflowServiceServer(server, e)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	for _, c := range []struct {
		name, compression string
		connect           func(lab.Child) (*starter, error)
		gzipOff           bool
	}{{"River", "gzip", dialSDK, false}, {"River, gzip off", "", dialSDK, true}, {"bare", "", dial, false}} {
		s, err := c.connect(lab.Child{Frontend: listener.Addr().String(), GzipOff: c.gzipOff})
		require.NoError(t, err)
		require.NoError(t, s.start(t.Context(), 1, "e", "w", "d", "{}"))
		s.close()
		require.Equal(t, c.compression, e.last.Load(), c.name)
	}
}
