package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// encodings records the compression of each call.
type encodings chan string

func (encodings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (encodings) HandleConn(context.Context, stats.ConnStats)                       {}
func (encodings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (e encodings) HandleRPC(_ context.Context, event stats.RPCStats) {
	if header, ok := event.(*stats.InHeader); ok && strings.HasSuffix(header.FullMethod, "/StartWorkflowExecution") {
		e <- header.Compression
	}
}

// taker accepts every start.
type taker struct {
	workflowservice.UnimplementedWorkflowServiceServer
}

func (taker) StartWorkflowExecution(context.Context,
	*workflowservice.StartWorkflowExecutionRequest) (*workflowservice.StartWorkflowExecutionResponse, error) {
	return &workflowservice.StartWorkflowExecutionResponse{RunId: "run"}, nil
}

// Compressing a small request costs more than sending it.
func TestStartsTravelUncompressedUnlessTheyAreLarge(t *testing.T) {
	t.Parallel()
	heard := make(encodings, 2)
	server := grpc.NewServer(grpc.StatsHandler(heard))
	workflowservice.RegisterWorkflowServiceServer(server, taker{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, namespace, err := temporal.Target{Address: listener.Addr().String()}.Dial(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(connection.Close)
	starter := &temporal.Client{Service: connection.WorkflowService(), Namespace: namespace}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, c := range []struct {
		params   int
		encoding string
	}{{1 << 10, ""}, {1 << 20, "gzip"}} {
		_, err := starter.Start(ctx, temporal.Start{
			QueueItemID: 1, Execution: temporal.Execution{ID: "11111111-1111-4111-8111-111111111111"},
			WorkflowType: "Order", TaskQueue: "orders",
			NodeIDs: []byte("[]"), Params: fmt.Appendf(nil, "%q", strings.Repeat("x", c.params)),
		})
		require.NoError(t, err)
		require.Equal(t, c.encoding, <-heard, "%d bytes", c.params)
	}
}

func TestARealServerTakesACompressedStart(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	s.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
		select workspace_id, id, jsonb_build_object('greeting', repeat('hello ', 20000))
		from pgdispatch.workflow_definitions where workspace_id = $1 and name = 'Echo'`, s.workspace["PRO"])
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 1 }, "the workflow completes")
}
