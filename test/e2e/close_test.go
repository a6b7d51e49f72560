package e2e

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"

	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/finish"
)

// reportingWorker starts a worker that reports ends itself, and returns its task queue.
func (s *stack) reportingWorker() (queue string) {
	s.t.Helper()
	config, err := pgxpool.ParseConfig(s.url)
	require.NoError(s.t, err)
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(s.t, err)
	reporter := finish.New(&complete.Postgres{DB: pool}, slog.New(slog.NewTextHandler(s.t.Output(), nil)))
	c, err := client.Dial(
		client.Options{HostPort: temporalAddress(s.t), Logger: temporallog.NewStructuredLogger(newQuietLogger()),
			ConnectionOptions: client.ConnectionOptions{
				DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(reporter.Intercept)}}})
	require.NoError(s.t, err)
	queue = s.queue + "-reporting"
	w := startWorker(s.t, c, queue)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reporter.Run(ctx) }()
	s.t.Cleanup(func() { w.Stop(); c.Close(); stop(); <-done; pool.Close() })
	return queue
}

// newReportingStack returns a stack whose worker alone says what has ended: nothing is watched, and nobody has the turn
// to list what has closed.
func newReportingStack(t *testing.T) *stack {
	s := newStack(t)
	s.exec("delete from pgdispatch.close_sweep")
	s.queue = s.reportingWorker()
	s.exec("update pgdispatch.workflow_definitions set task_queue = $1", s.queue)
	s.replica("PGDISPATCH_MAX_WATCHES=0").ready()
	return s
}

func TestAWorkerSaysWhatHasEndedOfActivitiesAndOfWorkflowsWithTheirOwnIDs(t *testing.T) {
	t.Parallel()
	s := newReportingStack(t)
	s.defineActivity("PRO", "Pass", "{}")
	s.defineActivity("PRO", "Break", `{"retry_policy": {"maximum_attempts": 2, "initial_interval": "1ms"}}`)
	passes, breaks := s.enqueue("PRO", "Pass", 1)[0], s.enqueue("PRO", "Break", 1)[0]
	require.Equal(t, `activity COMPLETED COMPLETED {"greeting": "hello"}`, s.ended(passes))
	require.Equal(t, "activity FAILED FAILED the oven is cold (Oven): no gas", s.ended(breaks))
	s.workspace["reject"] = s.workspace["PRO"]
	id := uuid.NewString() // of a workflow and an activity
	s.defineActivity("PRO", "Beat", `{"heartbeat_timeout": "5m"}`)
	workflow, activity := s.enqueueAs("reject", "Hold", id), s.enqueueAs("reject", "Beat", id)
	s.eventually(func() bool { return s.statusOf(activity) == "DISPATCHED" }, "both run")
	s.exec("select pgdispatch.request_cancel($1)", activity)
	require.Equal(t, "activity FAILED CANCELED activity was cancelled", s.ended(activity))
	require.Equal(t, "DISPATCHED", s.statusOf(workflow))
	s.release(id)
	require.Contains(t, s.ended(workflow), "workflow COMPLETED COMPLETED")
}

func TestAWorkerSaysWhatHasEnded(t *testing.T) {
	t.Parallel()
	s := newReportingStack(t)
	executions := append(s.enqueue("FREE", "Echo", 5), s.enqueue("FREE", "Again", 1)...)
	executions = append(executions, s.enqueue("FREE", "Fail", 1)...)
	s.eventually(func() bool {
		return s.count("status in ('COMPLETED', 'FAILED')") == len(executions)
	}, "all ends are recorded")
	require.Equal(t, "the oven is cold (Oven): no gas",
		one[string](s, "select last_error from pgdispatch.workflow_execution_queue where execution_id = $1", executions[6]))
	s.requireResult(executions[0])
	require.Equal(t, 1, one[int](s, "select max(n)::int from audit.greatest_held"))
	require.LessOrEqual(t, s.greatestRunning()[s.workspace["FREE"]], 1, "Temporal ran no more than the limit")
}

// BenchmarkCloseToNextStart runs items of a FREE workspace one after another and measures from Temporal's close time to
// the next workflow's start time. For comparison it measures how late its own long poll sees a close in the same run.
//
//	go test -C test ./e2e -run '^$' -bench CloseToNextStart -benchtime 1x
func BenchmarkCloseToNextStart(b *testing.B) {
	for _, way := range []string{"watched", "said by the worker", "called back"} {
		b.Run(way, func(b *testing.B) {
			s := newStack(b)
			var options []string
			switch way {
			case "said by the worker":
				s.exec("update pgdispatch.workflow_definitions set task_queue = $1", s.reportingWorker())
			case "called back":
				options = callbackTo(freeAddress(b))
			}
			s.replica(options...).ready()
			const items = 200
			for b.Loop() {
				executions := s.enqueue("FREE", "Echo", items)
				s.eventually(func() bool {
					return s.count("status = 'COMPLETED'")%items == 0 && s.count("status in ('PENDING', 'CLAIMED', 'DISPATCHED')") == 0
				}, "all executions complete")
				report(b, "floor", s.longPolls(50))
				report(b, "next", s.gaps(executions))
			}
		})
	}
}

// longPolls ends workflows one after another, and returns how long after each close a long poll was answered.
func (s *stack) longPolls(workflows int) []time.Duration {
	s.t.Helper()
	var took []time.Duration
	for range workflows {
		run, err := s.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: s.queue}, "Hold",
			input{})
		require.NoError(s.t, err)
		answered := make(chan time.Duration, 1)
		go func() {
			event, err := s.client.GetWorkflowHistory(context.Background(), run.GetID(), run.GetRunID(), true,
				enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT).Next()
			if err != nil {
				s.t.Error(err)
			}
			answered <- time.Since(event.GetEventTime().AsTime())
		}()
		<-time.After(20 * time.Millisecond) // the long poll waits by now
		require.NoError(s.t, s.client.SignalWorkflow(context.Background(), run.GetID(), "", "go", nil))
		took = append(took, <-answered)
	}
	return took
}

// gaps returns the times from each execution's close to the next one's start, by Temporal's clock.
func (s *stack) gaps(executions []string) []time.Duration {
	s.t.Helper()
	var gaps []time.Duration
	var closed time.Time
	for _, execution := range executions {
		response, err := s.client.DescribeWorkflowExecution(context.Background(), "execution-"+execution, "")
		require.NoError(s.t, err)
		info := response.GetWorkflowExecutionInfo()
		if !closed.IsZero() {
			gaps = append(gaps, info.GetStartTime().AsTime().Sub(closed))
		}
		closed = info.GetCloseTime().AsTime()
	}
	return gaps
}

func report(b *testing.B, name string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, name+"-p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, name+"-p99-ms")
}
