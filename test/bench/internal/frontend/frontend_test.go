package frontend_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
)

func dial(t *testing.T, options frontend.Options) (*frontend.Server, workflowservice.WorkflowServiceClient) {
	t.Helper()
	server, err := frontend.Start(options)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(server.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return server, workflowservice.NewWorkflowServiceClient(conn)
}

func TestRepeatedStartsAreCountedAndGetTheSameRun(t *testing.T) {
	t.Parallel()
	server, service := dial(t, frontend.Options{})

	first, err := service.StartWorkflowExecution(t.Context(),
		&workflowservice.StartWorkflowExecutionRequest{WorkflowId: "a"})
	require.NoError(t, err)
	again, err := service.StartWorkflowExecution(t.Context(),
		&workflowservice.StartWorkflowExecutionRequest{WorkflowId: "a"})
	require.NoError(t, err)
	other, err := service.StartWorkflowExecution(t.Context(),
		&workflowservice.StartWorkflowExecutionRequest{WorkflowId: "b"})
	require.NoError(t, err)

	require.Equal(t, first.RunId, again.RunId)
	require.NotEqual(t, first.RunId, other.RunId)
	require.Equal(t, frontend.Counts{Starts: 2, Duplicates: 1, Greatest: 1}, server.Counts())
	require.Len(t, server.Arrivals(), 2)
}

func TestStartsMayBeCompressed(t *testing.T) {
	t.Parallel()
	server, service := dial(t, frontend.Options{})
	_, err := service.StartWorkflowExecution(t.Context(), &workflowservice.StartWorkflowExecutionRequest{WorkflowId: "a"},
		grpc.UseCompressor("gzip"))
	require.NoError(t, err)
	require.Equal(t, 1, server.Counts().Starts)
}

func TestHeldStartsAreCountedAtOnce(t *testing.T) {
	t.Parallel()
	server, service := dial(t, frontend.Options{StartDelay: 200 * time.Millisecond})
	var g errgroup.Group
	for n := range 5 {
		g.Go(func() error {
			_, err := service.StartWorkflowExecution(t.Context(),
				&workflowservice.StartWorkflowExecutionRequest{WorkflowId: fmt.Sprint(n)})
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.Greater(t, server.Counts().Greatest, 1)
	require.LessOrEqual(t, server.Counts().Greatest, 5)
}

func TestAwaitReturnsTheArrival(t *testing.T) {
	t.Parallel()
	server, service := dial(t, frontend.Options{})
	began := time.Now()
	var g errgroup.Group
	var at time.Time
	g.Go(func() (err error) { at, err = server.Await(t.Context(), "a"); return err })
	_, err := service.StartWorkflowExecution(t.Context(), &workflowservice.StartWorkflowExecutionRequest{WorkflowId: "a"})
	require.NoError(t, err)
	require.NoError(t, g.Wait())
	require.False(t, at.Before(began))

	after, err := server.Await(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, at, after)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = server.Await(ctx, "never")
	require.ErrorContains(t, err, "never")
}

func TestWorkflowsCloseWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	_, service := dial(t, frontend.Options{CloseAfter: 30 * time.Millisecond})
	_, err := service.StartWorkflowExecution(t.Context(), &workflowservice.StartWorkflowExecutionRequest{WorkflowId: "a"})
	require.NoError(t, err)

	history, err := service.GetWorkflowExecutionHistory(t.Context(), &workflowservice.GetWorkflowExecutionHistoryRequest{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "a"}, WaitNewEvent: true})
	require.NoError(t, err)
	require.Len(t, history.GetHistory().GetEvents(), 1)

	described, err := service.DescribeWorkflowExecution(t.Context(),
		&workflowservice.DescribeWorkflowExecutionRequest{Execution: &commonpb.WorkflowExecution{WorkflowId: "a"}})
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, described.GetWorkflowExecutionInfo().GetStatus())

	_, err = service.GetWorkflowExecutionHistory(t.Context(),
		&workflowservice.GetWorkflowExecutionHistoryRequest{Execution: &commonpb.WorkflowExecution{WorkflowId: "b"}})
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = service.TerminateWorkflowExecution(t.Context(), &workflowservice.TerminateWorkflowExecutionRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
}

func TestWorkflowsThatRunOnHoldTheirPolls(t *testing.T) {
	t.Parallel()
	server, service := dial(t, frontend.Options{CloseAfter: frontend.Never})
	_, err := service.StartWorkflowExecution(t.Context(), &workflowservice.StartWorkflowExecutionRequest{WorkflowId: "a"})
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = service.GetWorkflowExecutionHistory(ctx,
		&workflowservice.GetWorkflowExecutionHistoryRequest{Execution: &commonpb.WorkflowExecution{WorkflowId: "a"},
			WaitNewEvent: true})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.Equal(t, 1, server.Counts().Polls)
}

func TestCloseEndsPollsAtOnceAndIsListedASecondLater(t *testing.T) {
	t.Parallel()
	server, service := dial(t, frontend.Options{CloseAfter: frontend.Never})
	for _, id := range []string{"a", "b", "c", "open"} {
		_, err := service.StartWorkflowExecution(t.Context(), &workflowservice.StartWorkflowExecutionRequest{WorkflowId: id})
		require.NoError(t, err)
	}
	var g errgroup.Group
	g.Go(func() error {
		history, err := service.GetWorkflowExecutionHistory(t.Context(), &workflowservice.GetWorkflowExecutionHistoryRequest{
			Execution: &commonpb.WorkflowExecution{WorkflowId: "a"}, WaitNewEvent: true})
		if err == nil && len(history.GetHistory().GetEvents()) != 1 {
			err = fmt.Errorf("it has not ended: %v", history)
		}
		return err
	})
	require.Eventually(t, func() bool { return server.Counts().Held == 1 }, 10*time.Second, time.Millisecond)
	first := server.Close("a")
	require.NoError(t, g.Wait())
	server.Close("b")
	server.Close("c")
	require.Equal(t, first, server.Close("a"), "it closes once")

	list := func(since time.Time, page []byte) ([]string, []byte) {
		response, err := service.ListWorkflowExecutions(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: "CloseTime >= '" + since.UTC().Format(time.RFC3339Nano) +
				"' and WorkflowId starts_with 'execution-'", PageSize: 2, NextPageToken: page})
		require.NoError(t, err)
		var ids []string
		for _, info := range response.Executions {
			ids = append(ids, info.GetExecution().GetWorkflowId())
		}
		return ids, response.NextPageToken
	}
	require.Eventually(t, func() bool { ids, _ := list(first, nil); return len(ids) == 2 },
		10*time.Second, 10*time.Millisecond)
	ids, next := list(first, nil)
	require.Equal(t, []string{"c", "b"}, ids, "the newest first")
	ids, next = list(first, next)
	require.Equal(t, []string{"a"}, ids)
	require.Empty(t, next)
}
