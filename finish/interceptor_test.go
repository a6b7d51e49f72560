package finish

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/pgdispatch/pgdispatch/internal/looptest"
)

const execution = "0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01"

// ear is a store that records reports.
type ear struct {
	runs  map[string]map[string]string // that executions follow, by kind, namespace and workflow ID
	mu    sync.Mutex
	heard []string
	fails error
}

func (e *ear) Finish(ctx context.Context, executionID, outcome, _, _ string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, executionID+"="+outcome)
	return e.fails == nil, e.fails
}

func (e *ear) Running(_ context.Context, kind, namespace, workflowID string) (map[string]string, error) {
	return e.runs[kind+" "+namespace+" "+workflowID], e.fails
}

func (e *ear) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.heard...)
}

// running runs a reporter. By default Temporal's answers succeed.
func running(t *testing.T, test func(r *Reporter, e *ear)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &ear{}
		r := New(e, nil)
		looptest.Run(t, r.Run)
		test(r, e)
	})
}

// complete makes a worker answer a workflow task with one command.
func complete(r *Reporter, resource string, command enumspb.CommandType, answer error) error {
	return send(r, &workflowservice.RespondWorkflowTaskCompletedRequest{ResourceId: resource,
		Commands: []*commandpb.Command{{CommandType: command}}}, answer)
}

// send makes a worker send a request.
func send(r *Reporter, request any, answer error) error {
	err := r.Intercept(context.Background(), "/", request, nil, nil,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return answer })
	synctest.Wait()
	return err
}

const (
	completes = enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION
	continues = enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION
	cancels   = enumspb.COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION
	timer     = enumspb.COMMAND_TYPE_START_TIMER
)

func TestAnEndIsSaidOnceTemporalHasTakenIt(t *testing.T) {
	running(t, func(r *Reporter, e *ear) {
		require.NoError(t, complete(r, "workflow:execution-"+execution, completes, nil))
		require.NoError(t, complete(r, "workflow:execution-"+execution, cancels, nil))
		require.Equal(t, []string{execution + "=COMPLETED", execution + "=CANCELED"}, e.all())
	})
}

func TestTheEndOfAStandaloneActivityIsSaid(t *testing.T) {
	running(t, func(r *Reporter, e *ear) {
		for _, request := range []any{
			&workflowservice.RespondActivityTaskCompletedRequest{ResourceId: "activity:execution-" + execution},
			&workflowservice.RespondActivityTaskCanceledRequest{ResourceId: "activity:execution-" + execution},
		} {
			require.NoError(t, send(r, request, nil))
			require.Error(t, send(r, request, errors.New("activity not found")))
		}
		require.Equal(t, []string{execution + "=COMPLETED", execution + "=CANCELED"}, e.all())
	})
}

func TestNothingElseIsSaid(t *testing.T) {
	running(t, func(r *Reporter, e *ear) {
		for _, request := range []any{
			&workflowservice.RespondActivityTaskCompletedRequest{ResourceId: "workflow:execution-" + execution},
			&workflowservice.RecordActivityTaskHeartbeatRequest{ResourceId: "activity:execution-" + execution},
			&workflowservice.RespondWorkflowTaskFailedRequest{ResourceId: "workflow:execution-" + execution},
			&workflowservice.DescribeNamespaceRequest{},
		} {
			require.NoError(t, send(r, request, nil))
		}
		require.NoError(t, complete(r, "activity:execution-"+execution, completes, nil))
		refused := errors.New("unhandled command")
		require.ErrorIs(t, complete(r, "workflow:execution-"+execution, completes, refused), refused, "it continues")
		for _, resource := range []string{"", "workflow:order-1", "workflow:execution-of-a-stranger", "execution-" +
			execution} {
			require.NoError(t, complete(r, resource, completes, nil))
		}
		for _, command := range []enumspb.CommandType{continues, timer} {
			require.NoError(t, complete(r, "workflow:execution-"+execution, command, nil))
		}
		require.Empty(t, e.all())
	})
}

func TestAWorkerNeitherWaitsNorFailsWhenTheDatabaseIsAway(t *testing.T) {
	running(t, func(r *Reporter, e *ear) {
		e.fails = errors.New("connection refused")
		began := time.Now()
		for n := range 3 * atMostWaiting {
			require.NoError(t, complete(r, "workflow:execution-"+execution, completes, nil), strconv.Itoa(n))
		}
		require.Equal(t, began, time.Now())
		require.Len(t, e.all(), speakers, "further reports wait, and those beyond the queue are dropped")
		time.Sleep(10 * time.Second)
		require.Less(t, len(e.all()), 12*speakers)
	})
}
