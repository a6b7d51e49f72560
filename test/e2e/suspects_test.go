package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// failStarts puts a frontend between replicas and Temporal that fails starts with the error that a function returns for
// their workflow ID, if any.
func (s *stack) failStarts(failure func(ctx context.Context, workflowID string) error) {
	s.t.Helper()
	s.intercept(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if start, is := request.(*workflowservice.StartWorkflowExecutionRequest); is {
			if err := failure(ctx, start.GetWorkflowId()); err != nil {
				return nil, serviceerror.ToStatus(err).Err()
			}
		}
		return handler(ctx, request)
	})
}

// enqueueAlone enqueues an item of Echo, and calls before with its execution before it is committed.
func (s *stack) enqueueAlone(plan string, before func(execution string)) (execution string) {
	s.t.Helper()
	tx, err := s.db.Begin(s.t.Context())
	require.NoError(s.t, err)
	require.NoError(s.t, tx.QueryRow(s.t.Context(), `
		insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
		select d.workspace_id, d.id, '{}' from pgdispatch.workflow_definitions d
		where d.workspace_id = $1 and d.name = 'Echo' returning execution_id::text`, s.workspace[plan]).Scan(&execution))
	before(execution)
	require.NoError(s.t, tx.Commit(s.t.Context()))
	return execution
}

// One item whose starts always fail holds up nobody, on one replica and on three. Once its fault ends, it starts.
func TestReplicas_StartOthersBesideAnItemThatTemporalFails(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(ctx context.Context) error{
		"unavailable": func(context.Context) error { return serviceerror.NewUnavailable("no hosts are available") },
		"internal":    func(context.Context) error { return serviceerror.NewInternal("unable to load the shard") },
		"hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"throttled": func(context.Context) error {
			return serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "too many requests")
		},
		"forbidden": func(context.Context) error { return serviceerror.NewPermissionDenied("not this one", "") },
		"not found": func(context.Context) error { return serviceerror.NewNotFound("not this one") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			var poison atomic.Value
			poison.Store("none")
			s.failStarts(func(ctx context.Context, workflowID string) error {
				if workflowID == poison.Load() {
					return fails(ctx)
				}
				return nil
			})
			replicas := []*replica{s.replica("PGDISPATCH_START_TIMEOUT=1s").ready()}
			if name == "unavailable" || name == "forbidden" {
				replicas = append(replicas, s.replica().ready(), s.replica().ready())
			}

			failing := s.enqueueAlone("PRO", func(execution string) { poison.Store("execution-" + execution) })
			s.eventually(func() bool {
				return one[bool](s,
					"select last_error is not null from pgdispatch.workflow_execution_queue where execution_id = $1", failing)
			}, "its start fails")

			for range 4 {
				others := append(s.enqueue("PRO", "Echo", 3), s.enqueue("ENTERPRISE", "Echo", 3)...)
				for _, execution := range others {
					s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "others are started")
				}
			}
			require.NotEqual(t, "COMPLETED", s.statusOf(failing))
			for _, r := range replicas {
				require.False(t, strings.Contains(r.Log(), "Temporal does not accept workflows"), "this is no outage")
			}

			poison.Store("none")
			s.eventually(func() bool { return s.statusOf(failing) == "COMPLETED" }, "it starts once its fault has ended")
			s.requireSlotsMatchTemporal()
		})
	}
}

// An item whose starts fail for minutes while others start, or that a person gives up, becomes a dead letter, unless
// Temporal has its workflow.
func TestReplica_EndsAnItemThatFailsForLongWhileOthersStart(t *testing.T) {
	t.Parallel()
	type given struct {
		carriedOut, byHand bool
		notFound           int // how many lookups find nothing although it is there
		want, text         string
	}
	for name, c := range map[string]given{
		"not in Temporal": {false, false, 0, "FAILED",
			"failed 1\\d times in 6m\\ds while others of its namespace started, and Temporal does not have its workflow: " +
				".*shard"},
		"in Temporal":                         {true, false, 0, "COMPLETED", ""},
		"in Temporal, which does not find it": {true, false, 2, "COMPLETED", ""},
		"given up, and not found at once":     {true, true, 2, "COMPLETED", ""},
		"given up": {false, true, 0, "FAILED",
			"given up by ann: Temporal does not have its workflow; its last error: .*shard"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			var poison atomic.Value
			var lookups atomic.Int64
			poison.Store("none")
			s.intercept(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				describe, is := request.(*workflowservice.DescribeWorkflowExecutionRequest)
				if is && describe.GetExecution().GetWorkflowId() == poison.Load() && lookups.Add(1) <= int64(c.notFound) {
					return nil, serviceerror.ToStatus(serviceerror.NewNotFound("not here")).Err()
				}
				start, is := request.(*workflowservice.StartWorkflowExecutionRequest)
				if !is || start.GetWorkflowId() != poison.Load() {
					return handler(ctx, request)
				}
				if c.carriedOut {
					if _, err := handler(ctx, request); err != nil {
						return nil, err
					}
				}
				return nil, serviceerror.ToStatus(serviceerror.NewInternal("unable to load the shard")).Err()
			})
			s.replica().ready()
			failing := s.enqueueAlone("PRO", func(execution string) { poison.Store("execution-" + execution) })
			const tries = "select coalesce((select tries from pgdispatch.start_tries), 0)"
			s.eventually(func() bool {
				s.enqueue("ENTERPRISE", "Echo", 1)
				return one[int](s, tries) > 0
			}, "its start fails while others start")

			if c.byHand {
				d := &desk{t: t, url: sqltest.Login(t, s.url, "in role pgdispatch_operator"), db: s.db}
				require.Equal(t, "gave up 1 of 1 item\n", d.types("items", "give-up", failing, "--by", "ann"))
			} else {
				s.exec("update pgdispatch.start_tries set tries = 10, since = clock_timestamp() - interval '6 minutes'")
			}
			s.eventually(func() bool {
				s.enqueue("ENTERPRISE", "Echo", 1)
				if n := lookups.Load(); n > int64(c.notFound) { // what is not there is looked up for a minute
					s.exec("update pgdispatch.start_tries set missing_since = missing_since - interval '1 minute'")
				}
				s.exec(`update pgdispatch.workflow_execution_queue set run_at = clock_timestamp()
					where execution_id = $1 and status = 'PENDING' and run_at > clock_timestamp()`, failing)
				return s.statusOf(failing) == c.want
			}, "it ends")
			require.Greater(t, lookups.Load(), int64(c.notFound))
			require.Regexp(t, "^"+c.text, one[string](s,
				"select coalesce(last_error, '') from pgdispatch.workflow_execution_queue where execution_id = $1", failing))
			s.requireSlotsMatchTemporal()
		})
	}
}

// BenchmarkStartsBesideItemsThatFail offers four items a second for 15 seconds beside one or three items whose starts
// always fail, or fails a quarter of those that it offers. One replica or three serve one workspace or two. It reports
// the share of the healthy items that were started, and how long the slowest hundredth took from commit to start.
//
//	go test -C test ./e2e -run '^$' -bench StartsBesideItemsThatFail -benchtime 1x
func BenchmarkStartsBesideItemsThatFail(b *testing.B) {
	fails := map[string]func(ctx context.Context) error{
		"none":        nil,
		"unavailable": func(context.Context) error { return serviceerror.NewUnavailable("no hosts are available") },
		"unknown":     func(context.Context) error { return status.Error(codes.Unknown, "stream terminated") },
		"data loss":   func(context.Context) error { return serviceerror.NewDataLoss("history is corrupt") },
		"too large": func(context.Context) error {
			return status.Error(codes.ResourceExhausted, "gRPC message exceeds maximum size 4194304: 4194400")
		},
		"throttled": func(context.Context) error {
			return serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "too many requests")
		},
		"hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"forbidden": func(context.Context) error { return serviceerror.NewPermissionDenied("not this one", "") },
		"not found": func(context.Context) error { return serviceerror.NewNotFound("not this one") },
	}
	for _, name := range slices.Sorted(maps.Keys(fails)) {
		for _, failing := range []int{1, 3} {
			for _, replicas := range []int{1, 3} {
				for _, tenants := range []int{1, 2} {
					c := besides{fails: fails[name], items: failing, replicas: replicas, tenants: tenants}
					name := fmt.Sprintf("%s/items=%d/replicas=%d/tenants=%d", name, failing, replicas, tenants)
					b.Run(name, func(b *testing.B) {
						for b.Loop() {
							startsBeside(b, c)
						}
					})
				}
			}
		}
	}
	for _, replicas := range []int{1, 3} {
		b.Run(fmt.Sprintf("a quarter unavailable/replicas=%d", replicas), func(b *testing.B) {
			for b.Loop() {
				startsBeside(b, besides{fails: fails["unavailable"], aQuarter: true, replicas: replicas, tenants: 1})
			}
		})
	}
}

// besides are the items that fail beside healthy ones, and who serves how many workspaces.
type besides struct {
	fails             func(ctx context.Context) error
	items             int
	aQuarter          bool // of the offered items fail, by their IDs
	replicas, tenants int
}

func startsBeside(b *testing.B, c besides) {
	const offered, pace = 60, 250 * time.Millisecond
	s := newStack(b)
	var poison sync.Map
	s.failStarts(func(ctx context.Context, workflowID string) error {
		_, is := poison.Load(workflowID)
		if (is || c.aQuarter && isOfTheQuarter(workflowID)) && c.fails != nil {
			return c.fails(ctx)
		}
		return nil
	})
	for range c.replicas {
		s.replica().ready()
	}
	s.exec("update pgdispatch.workspaces set max_concurrent_workflows = 100") // those that fail keep their slots
	plans := []string{"ENTERPRISE", "PRO"}[:c.tenants]
	for range c.items {
		s.enqueueAlone(plans[len(plans)-1], func(execution string) { poison.Store("execution-"+execution, true) })
	}

	var healthy []string
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := range offered {
		execution := s.enqueue(plans[n%len(plans)], "Echo", 1)[0]
		if !c.aQuarter || !isOfTheQuarter("execution-"+execution) {
			healthy = append(healthy, execution)
		}
		<-tick.C
	}

	var share, slow float64
	require.NoError(b, s.db.QueryRow(b.Context(), `
		select count(q.dispatched_at) / count(*)::float8,
			coalesce(percentile_disc(0.99) within group (
				order by extract(epoch from e.first_sent_at - q.created_at)), 0)::float8 * 1000
		from pgdispatch.workflow_execution_queue q left join pgdispatch.workflow_executions e on e.id = q.execution_id
		where q.execution_id = any ($1)`, healthy).Scan(&share, &slow))
	b.ReportMetric(share, "started")
	b.ReportMetric(slow, "p99-ms")
}

// isOfTheQuarter reports whether an ID is one of a quarter of all, as those of one history shard of four are.
func isOfTheQuarter(workflowID string) bool {
	return strings.ContainsRune("0123", rune(workflowID[len(workflowID)-1]))
}

// BenchmarkStartsAfterAnOutage offers four items a second during an outage of 45 seconds, to one replica and to three:
// Temporal refuses connections, answers nothing, or fails all calls. It reports how long after its end the last of the
// items was started.
//
//	go test -C test ./e2e -run '^$' -bench StartsAfterAnOutage -benchtime 1x
func BenchmarkStartsAfterAnOutage(b *testing.B) {
	for _, kind := range []string{"no connection", "no answer", "failing calls"} {
		for _, replicas := range []int{1, 3} {
			b.Run(fmt.Sprintf("%s/replicas=%d", kind, replicas), func(b *testing.B) {
				for b.Loop() {
					startsAfter(b, kind, replicas)
				}
			})
		}
	}
}

func startsAfter(b *testing.B, kind string, replicas int) {
	const lasts, pace = 45 * time.Second, 250 * time.Millisecond
	s := newStack(b)
	var out atomic.Bool
	s.intercept(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		switch {
		case !out.Load():
			return handler(ctx, request)
		case kind == "failing calls":
			return nil, serviceerror.ToStatus(serviceerror.NewUnavailable("no hosts are available")).Err()
		default:
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	proxy := newProxy(b, s.temporal)
	s.temporal = proxy.Address
	for range replicas {
		s.replica().ready()
	}

	s.exec("update pgdispatch.workspaces set max_concurrent_workflows = 1000") // no slot is waited for
	out.Store(true)
	if kind == "no connection" {
		proxy.down()
	}
	var executions []string
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := range int(lasts / pace) {
		executions = append(executions, s.enqueue([]string{"ENTERPRISE", "PRO"}[n%2], "Echo", 1)...)
		<-tick.C
	}
	ended := one[time.Time](s, "select clock_timestamp()")
	out.Store(false)
	proxy.up()

	s.eventually(func() bool {
		return one[int](s, `select count(*)::int from pgdispatch.workflow_execution_queue
			where execution_id = any ($1) and dispatched_at is null`, executions) == 0
	}, "all items are started")
	b.ReportMetric(one[float64](s, `select extract(epoch from max(dispatched_at) - $2)::float8
		from pgdispatch.workflow_execution_queue where execution_id = any ($1)`, executions, ended), "last-start-s")
}
