package claim

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/stretchr/testify/require"
)

func TestItemHasEverythingThatItsStartNeeds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Store.Namespace = "shop"
	b.Execute("update pgdispatch.workflow_definitions " +
		"set start_options = '{}', max_attempts = 7, execution_timeout = '1 month 2 days 3.5 seconds'")
	b.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, priority,
		traceparent, limit_key, workflow_id)
		select workspace_id, id, '{"n": 1e400, "ü": "\\"}', 3, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
			'smtp', 'order-17'
			from pgdispatch.workflow_definitions`)
	// A failed first attempt that may have been sent leaves its marks.
	batch, err := b.Claim(t.Context(), 1)
	require.NoError(t, err)
	first := batch.Items[0]
	_, err = b.Settle(
		t.Context(),
		Retry,
		[]Settlement{{ID: first.ID, Token: first.Token, Error: "boom", Unanswered: true}},
	)
	require.NoError(t, err)
	batch, err = b.Claim(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, batch.Items, 1)
	item := batch.Items[0]

	want := Item{
		ID: first.ID, Token: first.Token + 1,
		ExecutionID: sqltest.Scalar[string](b.Shop,
			"select execution_id::text from pgdispatch.workflow_execution_queue"),
		WorkspaceID:          b.Shop.Shop,
		WorkflowDefinitionID: sqltest.Scalar[string](b.Shop, "select id::text from pgdispatch.workflow_definitions"),
		WorkflowDefinitionVersionID: sqltest.Scalar[string](b.Shop,
			"select id::text from pgdispatch.workflow_definition_versions"),
		Namespace:        "shop",
		NamedID:          "order-17",
		Policy:           "reject",
		Kind:             temporal.Workflow,
		WorkflowType:     "Order",
		TaskQueue:        "orders",
		Input:            "envelope",
		ExecutionTimeout: 32*24*time.Hour + 3500*time.Millisecond,
		NodeIDs:          []byte(`["n1", "n2"]`),
		Params: []byte(
			sqltest.Scalar[string](b.Shop, "select params::text from pgdispatch.workflow_execution_queue")),
		Traceparent:  "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		StartOptions: []byte("{}"),
		LimitKey:     "smtp",
		AttemptCount: 2, FailureCount: 1, MaxAttempts: 7,
		Unanswered: true, UnansweredFor: item.UnansweredFor,
		Waited: item.Waited, Startable: item.Waited, Deadline: item.Deadline, Priority: 3,
	}
	require.Equal(t, want, item)
	require.Positive(t, item.UnansweredFor)
	require.Equal(t, "order-17", item.WorkflowID())
	require.Positive(t, item.Waited)

	// Fails if a field of Item is missing in the statement. The schedule sets Awaited, not the statement.
	item.Problem, item.Awaited = "none", true
	fields := reflect.ValueOf(item)
	for n := range fields.NumField() {
		require.False(t, fields.Field(n).IsZero(), fields.Type().Field(n).Name)
	}
}

func TestABatchOfNothingSaysWhenToLookAgainHoweverFarAheadThatIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	batch, err := b.Claim(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, Batch{LookAgainIn: -1}, batch)
	b.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, '2199-12-31' from pgdispatch.workflow_definitions where workspace_id = $1`, b.Shop.Shop)
	batch, err = b.Claim(t.Context(), 3)
	require.NoError(t, err)
	require.Greater(t, batch.LookAgainIn, 100*365*24*time.Hour)
}

func TestBatchSaysWhetherAnotherReplicaHasClaimed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.replica("other")
	b.Insert(b.Shop.Shop, 5)
	shared := func(s *Store) bool {
		t.Helper()
		batch, err := s.Claim(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, batch.Items, 1)
		return batch.Shared
	}
	shared(b.Store)
	require.False(t, shared(b.Store))
	require.True(t, shared(other))
	require.True(t, shared(b.Store))
	require.False(t, shared(b.Store))
}

func TestDeadlineIsNotLaterThanTheLeaseInTheDatabase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Insert(b.Shop.Shop, 1)
	// The claim waits for a lock, and its lease begins when the database grants it.
	other, err := b.Conns.Begin(t.Context())
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), "lock table pgdispatch.claim_lock in share row exclusive mode")
	require.NoError(t, err)
	answer := make(chan Batch, 1)
	go func() {
		batch, _ := b.Claim(context.Background(), 1)
		answer <- batch
	}()
	for sqltest.Scalar[int](b.Shop,
		"select count(*) from pg_locks where not granted and relation = 'pgdispatch.claim_lock'::regclass "+
			"and database = (select oid from pg_database where datname = current_database())") == 0 {
	}
	released := time.Now()
	require.NoError(t, other.Commit(t.Context()))
	batch := <-answer
	require.Len(t, batch.Items, 1)
	require.True(t, batch.Items[0].Deadline.Before(released.Add(b.Lease)))
}

func TestClaimThatIsCancelledSaysWhatWasTried(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	batch, err := b.Claim(ctx, 1)
	require.ErrorContains(t, err, "enough")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, Batch{LookAgainIn: -1}, batch)
}

func TestClaimOfADatabaseWithoutTheSchemaIsAnError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Execute("drop schema pgdispatch cascade")
	_, err := b.Claim(t.Context(), 1)
	require.ErrorContains(t, err, "claim items: ")
	_, err = b.Heartbeat(t.Context(), []Held{{1, 1}})
	require.ErrorContains(t, err, "renew leases: ")
	_, err = b.Sweep(t.Context(), 1)
	require.ErrorContains(t, err, "sweep: ")
}
