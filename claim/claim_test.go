package claim

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestItemHasEverythingThatItsStartNeeds(t *testing.T) {
	b := newBench(t)
	b.Store.Namespace = "shop"
	b.Execute("update pgdispatch.workflow_definitions " +
		"set start_options = '{}', max_attempts = 7, execution_timeout = '1 month 2 days 3.5 seconds'")
	b.enqueue("params, priority, traceparent, limit_key, workflow_id", `'{"n": 1e400, "ü": "\\"}', 3,
		'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'smtp', 'order-17'`)
	// A failed first attempt that may have been sent leaves its marks.
	first := b.claim(1).Items[0]
	b.settle(Retry, Settlement{ID: first.ID, Token: first.Token, Error: "boom", Unanswered: true})
	b.Execute("insert into pgdispatch.start_tries (item_id, tries, since, given_up_by, missing_since, missing_at) " +
		"select id, 4, now() - interval '1 minute', 'ann', now() - interval '1 minute', now() " +
		"from pgdispatch.workflow_execution_queue")
	item := b.claim(1).Items[0]

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
		Unanswered: true, UnansweredFor: item.UnansweredFor, LastError: "boom",
		Tries: 4, FailingFor: item.FailingFor, MissingFor: item.MissingFor, GivenUpBy: "ann",
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
	b := newBench(t)
	require.Equal(t, Batch{LookAgainIn: -1}, b.claim(5))
	b.enqueue("run_at", "'2199-12-31'::timestamptz")
	require.Greater(t, b.claim(3).LookAgainIn, 100*365*24*time.Hour)
}

func TestBatchSaysWhetherAnotherReplicaHasClaimed(t *testing.T) {
	b := newBench(t)
	other := b.with(b.replica("other"))
	b.Insert(b.Shop.Shop, 5)
	b.claim(1)
	require.False(t, b.claim(1).Shared)
	require.True(t, other.claim(1).Shared)
	require.True(t, b.claim(1).Shared)
	require.False(t, b.claim(1).Shared)
}

func TestDeadlineIsNotLaterThanTheLeaseInTheDatabase(t *testing.T) {
	b := newBench(t)
	b.Insert(b.Shop.Shop, 1)
	batch, released := b.claimBehindAnother() // its lease begins when the database grants the lock
	require.Len(t, batch.Items, 1)
	require.True(t, batch.Items[0].Deadline.Before(released.Add(b.Lease)))
}

// claimBehindAnother claims an item while another transaction claims. It returns the answer, and when the other ended.
func (b *bench) claimBehindAnother() (batch Batch, released time.Time) {
	b.t.Helper()
	other := b.open(lockClaims)
	answer := make(chan Batch, 1)
	go func() {
		batch, _ := b.Claim(context.Background(), 1)
		answer <- batch
	}()
	for sqltest.Scalar[int](b.Shop,
		"select count(*) from pg_locks where not granted and relation = 'pgdispatch.claim_lock'::regclass "+
			"and database = (select oid from pg_database where datname = current_database())") == 0 {
		require.Empty(b.t, answer, "the claim does not wait")
	}
	released = time.Now()
	require.NoError(b.t, other.Commit(b.t.Context()))
	return <-answer, released
}

func TestClaimThatIsCancelledSaysWhatWasTried(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	batch, err := b.Claim(ctx, 1)
	require.ErrorContains(t, err, "enough")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, Batch{LookAgainIn: -1}, batch)
}

// Nothing waited when the workflow ended, so nobody was told.
func TestANotifiedItemIsClaimedThoughTheWorkspaceSeemedFull(t *testing.T) {
	b := newBench(t)
	one := b.NewWorkspace("one", 1)
	b.Insert(one, 1)
	item := b.claim(5).Items[0]
	b.settle(Dispatched, settlementOf(item, Dispatched))
	b.Execute("select pgdispatch.finish($1, 'COMPLETED')", item.ExecutionID)

	b.Insert(one, 1)
	hint := sqltest.Scalar[string](b.Shop, `select format('%s:0:%s', w.wake_number,
		(extract(epoch from now()) * 1000000)::bigint) from pgdispatch.workspaces w where w.id = $1::uuid`, one)
	_, _, isName := parseName(hint)
	require.True(t, isName)
	require.Len(t, b.want(Wanted{AtMost: 5, Named: []string{hint}, Quiet: true}).Items, 1, hint)
}

func TestAnItemThatWaitedForASlotWasStartableOnlySinceThen(t *testing.T) {
	b := newBench(t)
	b.Execute("update pgdispatch.workspaces set max_concurrent_workflows = 1")
	first := b.dispatched()
	b.enqueue("run_at", "now() - interval '1 hour'")
	b.Execute(`with without_triggers as materialized (select set_config('session_replication_role', 'replica', true))
		update pgdispatch.workflow_execution_queue set created_at = created_at - interval '1 hour'
		from without_triggers where status = 'PENDING'`)
	require.Empty(t, b.claim(1).Items, "the workspace is full")

	must.Get(b.Finish(t.Context(), first.ExecutionID, "COMPLETED", "", "")).In(t)
	item := b.claim(1).Items[0]
	require.Greater(t, item.Waited, 59*time.Minute)
	require.Less(t, item.Startable, time.Minute)
}

func TestEverythingButClaimsGoesThroughAsync(t *testing.T) {
	b := newBench(t)
	closed, err := pgxpool.New(t.Context(), sqltest.URL(t))
	require.NoError(t, err)
	closed.Close()
	b.Async = closed
	item := b.claimed(1)[0]
	for _, verb := range verbs {
		_, err := b.Settle(t.Context(), verb, []Settlement{settlementOf(item, verb)})
		require.Error(t, err)
	}
	_, err = b.Heartbeat(t.Context(), []Held{{item.ID, item.Token}})
	require.ErrorContains(t, err, "renew leases: ")
	require.Equal(t, "CLAIMED", b.Status(item.ID))
}
