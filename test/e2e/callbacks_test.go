package e2e

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	temporalproxy "go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// freeAddress returns an address without a listener.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// callbackTo makes a replica serve and request callbacks. The test server allows 127.0.0.1, which localhost does not
// match.
func callbackTo(address string) []string {
	return []string{"PGDISPATCH_CALLBACK_URL=http://" + address + "/callbacks", "PGDISPATCH_CALLBACK_ADDR=" + address}
}

// onlyCallbacks disables the other ways to detect ends: watches and lists of closed workflows.
func (s *stack) onlyCallbacks() {
	s.t.Helper()
	s.exec("update pgdispatch.close_sweep set looked_at = 'infinity'")
}

func TestTemporalItselfSaysEveryEnd(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.onlyCallbacks()
	address := freeAddress(t)
	called := s.replica(append(callbackTo(address), "PGDISPATCH_MAX_WATCHES=0", anyPort)...).ready()
	// Any replica accepts a callback, whichever started the workflow, because a proxy may choose.
	s.replica("PGDISPATCH_MAX_WATCHES=0", "PGDISPATCH_CALLBACK_URL=http://"+address+"/callbacks",
		"PGDISPATCH_CALLBACK_ADDR="+freeAddress(t)).ready()

	s.exec(`update pgdispatch.workflow_definitions set execution_timeout = '1 second' where workspace_id = $1
		and name = 'Hold'`, s.workspace["PRO"])
	executions := append(s.enqueue("FREE", "Echo", 5), s.enqueue("PRO", "Again", 1)...)
	executions = append(executions, s.enqueue("PRO", "Fail", 1)...)
	executions = append(executions, s.enqueue("PRO", "Hold", 1)...)
	held := s.enqueue("PRO", "Cancelled", 2)
	s.terminateAndCancel(held)
	executions = append(executions, held...)

	s.requireEnds(len(executions), map[string]string{
		executions[0]: "COMPLETED ", executions[5]: "FAILED second run failed",
		executions[6]: "FAILED the oven is cold (Oven): no gas",
		executions[7]: "TIMED_OUT workflow timed out", held[0]: "TERMINATED workflow was terminated: enough",
		held[1]: "CANCELED workflow was cancelled",
	})
	require.LessOrEqual(t, s.greatestRunning()[s.workspace["FREE"]], 1, "Temporal ran no more than the limit")
	s.requireSlotsMatchTemporal()
	s.eventually(func() bool {
		return strings.Count(called.Log(), `"msg":"Execution ended"`) == len(executions)
	}, "each end is logged once")
	s.eventually(func() bool {
		_, metrics := called.get("/metrics")
		return strings.Contains(metrics, `pgdispatch_ends_found_total{way="callback"} 10`)
	}, "each end is counted once, after it was logged")

	response, err := http.Post("http://"+address+"/callbacks", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
}

func TestWhereTemporalAllowsNoCallbacksNothingFailsForThem(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	_, port, err := net.SplitHostPort(freeAddress(t))
	require.NoError(t, err)
	replica := s.replica(callbackTo("localhost:" + port)...).ready()
	executions := append(s.enqueue("FREE", "Echo", 5), s.enqueue("PRO", "Echo", 20)...)
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == len(executions) }, "all executions complete")
	require.Zero(t, s.count("failure_count > 0"))
	require.Equal(t, 1, strings.Count(replica.Log(), "Temporal rejects completion callbacks"), "logged once")
	s.requireOneRunEach(executions)
	s.requireSlotsMatchTemporal()
}

// A workflow that ends immediately may end before the replica receives the answer to its start.
func TestACallbackMayComeBeforeTheStartsAnswer(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.onlyCallbacks()
	answers := s.holdStarts()
	replica := s.replica(append(callbackTo(freeAddress(t)), "PGDISPATCH_MAX_WATCHES=0")...).ready()
	execution, next := s.enqueue("FREE", "Echo", 1)[0], s.enqueue("FREE", "Echo", 1)[0]
	s.eventually(func() bool {
		return one[bool](s,
			"select exists (select from pgdispatch.workflow_executions where id = $1 and early_outcome = 'COMPLETED')",
			execution)
	}, "its end is recorded")
	require.Equal(t, "CLAIMED", s.statusOf(execution), "the start is not recorded yet")
	close(answers)
	s.eventually(func() bool { return s.statusOf(next) == "COMPLETED" }, "the slot is freed once")
	require.Equal(t, "COMPLETED", s.statusOf(execution))
	s.eventually(func() bool {
		return strings.Count(replica.Log(), `"msg":"Execution ended"`) == 2
	}, "each end is logged once")
	require.LessOrEqual(t, one[int](s, "select max(n)::int from audit.greatest_held"), 1)
	s.requireSlotsMatchTemporal()
}

// holdStarts puts a frontend between replicas and Temporal that withholds answers to starts until the channel is
// closed.
func (s *stack) holdStarts() chan struct{} {
	s.t.Helper()
	answers := make(chan struct{})
	s.intercept(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		answer, err := handler(ctx, request)
		if _, is := request.(*workflowservice.StartWorkflowExecutionRequest); is {
			select {
			case <-answers:
			case <-ctx.Done():
			}
		}
		return answer, err
	})
	return answers
}

// intercept puts a frontend between replicas and Temporal that passes every call to a function.
func (s *stack) intercept(calls grpc.UnaryServerInterceptor) {
	s.t.Helper()
	conn, err := grpc.NewClient(s.temporal, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(s.t, err)
	passOn, err := temporalproxy.NewWorkflowServiceProxyServer(
		temporalproxy.WorkflowServiceProxyOptions{Client: workflowservice.NewWorkflowServiceClient(conn)})
	require.NoError(s.t, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(calls))
	workflowservice.RegisterWorkflowServiceServer(server, passOn)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	go func() { _ = server.Serve(listener) }() // returns at Stop
	s.t.Cleanup(func() { server.Stop(); _ = conn.Close() })
	s.temporal = listener.Addr().String()
}

// The end of a reset run is not the execution's end, whichever replica is called.
func TestACallbackOfAResetWorkflowComesAtItsEnd(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.onlyCallbacks()
	s.replica(append(callbackTo(freeAddress(t)), "PGDISPATCH_MAX_WATCHES=0")...).ready()
	execution := s.enqueue("FREE", "Hold", 1)[0]
	s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "the execution is dispatched")
	s.reset(execution)
	next := s.enqueue("FREE", "Echo", 1)[0]
	s.signal(execution)
	s.eventually(func() bool { return s.statusOf(next) == "COMPLETED" }, "its end is recorded")
	require.Equal(t, "COMPLETED", s.statusOf(execution))
}

// Temporal retries a callback until it is answered. A replica that starts later receives it.
func TestACallbackThatFoundNobodyComesAgain(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.onlyCallbacks()
	address := freeAddress(t)
	first := s.replica(append(callbackTo(address), "PGDISPATCH_MAX_WATCHES=0", "PGDISPATCH_LEASE=1s")...).ready()
	execution := s.enqueue("FREE", "Hold", 1)[0]
	s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "the execution is dispatched")
	require.NoError(t, first.Kill())
	s.signal(execution)
	var refused atomic.Bool
	s.eventually(func() bool {
		answer, err := s.client.DescribeWorkflowExecution(context.Background(), "execution-"+execution, "")
		require.NoError(t, err)
		for _, callback := range answer.GetCallbacks() {
			refused.Store(callback.GetAttempt() > 0)
		}
		return refused.Load()
	}, "Temporal has called back")
	s.replica(append(callbackTo(address), "PGDISPATCH_MAX_WATCHES=0")...)
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "the retried callback records the end")
}
