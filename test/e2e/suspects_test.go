package e2e

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
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
			if name == "unavailable" {
				replicas = append(replicas, s.replica().ready(), s.replica().ready())
			}

			tx, err := s.db.Begin(t.Context())
			require.NoError(t, err)
			var failing string
			require.NoError(t, tx.QueryRow(t.Context(), `
				insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
				select d.workspace_id, d.id, '{}' from pgdispatch.workflow_definitions d
				where d.workspace_id = $1 and d.name = 'Echo' returning execution_id::text`, s.workspace["PRO"]).Scan(&failing))
			poison.Store("execution-" + failing)
			require.NoError(t, tx.Commit(t.Context()))
			s.eventually(func() bool {
				return one[bool](s,
					"select outcome_unknown from pgdispatch.workflow_execution_queue where execution_id = $1", failing)
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
