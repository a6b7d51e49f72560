package claim

import (
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/stretchr/testify/require"
)

// poison adds a user-defined trigger that rejects updates of items whose idempotency key begins with "poison" if the
// condition holds.
func (b *bench) poison(when string) {
	b.Execute(`create function public.audit() returns trigger language plpgsql as $$ begin
		raise exception 'audit says no to %', new.idempotency_key; end $$`)
	b.Execute(`create trigger audit after update on pgdispatch.workflow_execution_queue for each row
		when (new.idempotency_key like 'poison%' and ` + when + `) execute function public.audit()`)
}

// marked enqueues an item with that key in a workspace, ahead of its other items.
func (b *bench) marked(workspace, key string) int64 {
	return sqltest.Scalar[int64](b.Shop, `insert into pgdispatch.workflow_execution_queue
			(workspace_id, workflow_definition_id, idempotency_key, run_at)
		select d.workspace_id, d.id, $2, now() - interval '1 hour' from pgdispatch.workflow_definitions d
		where d.workspace_id = $1::uuid returning id`, workspace, key)
}

func TestAnItemThatATriggerRefusesIsParkedAndTheOthersAreClaimed(t *testing.T) {
	b := newBench(t)
	other := b.NewWorkspace("other", 100)
	b.poison("new.status = 'CLAIMED'")
	b.Insert(b.Shop.Shop, 20)
	id := b.marked(b.Shop.Shop, "poison")
	b.Insert(other, 20)

	var claimed int
	var parked []Parked
	for range 12 {
		batch := b.claim(50)
		claimed += len(batch.Items)
		parked = append(parked, batch.Parked...)
	}
	require.Equal(t, 40, claimed)
	require.Len(t, parked, 1)
	require.Equal(t, id, parked[0].ID)
	require.Equal(t, b.Shop.Shop, parked[0].WorkspaceID)
	require.True(t, parked[0].New)
	require.ErrorContains(t, parked[0].Err, "audit says no to poison")
	depth := must.Get(b.QueueDepth(t.Context())).In(t)
	require.EqualValues(t, 1, depth.Parked)
	require.Contains(t, depth.ParkedFirst, "audit says no to poison")
	items, err := b.Items(t.Context(), []int64{id}, nil, false)
	require.NoError(t, err)
	require.Contains(t, items[0].LastError, "parked, retried at")

	// Another replica skips it too, and does not report it as unannounced.
	b.Insert(b.Shop.Shop, 3)
	batch := b.with(b.replica("b")).claim(50)
	require.Len(t, batch.Items, 3)
	require.Empty(t, batch.Parked)
	require.Zero(t, b.aMinuteLater(Wanted{AtMost: 50}).Unannounced)

	// It is retried when due, and claimed once the trigger is fixed.
	again := func() Batch {
		b.Execute("update pgdispatch.parked_items set try_at = now() - interval '1 minute'")
		return b.aMinuteLater(Wanted{AtMost: 50})
	}
	for _, minutes := range []int{1, 2} { // until the next try
		batch = again()
		require.Empty(t, batch.Items)
		require.Len(t, batch.Parked, 1)
		require.False(t, batch.Parked[0].New)
		require.Equal(t, minutes, sqltest.Scalar[int](b.Shop,
			"select round(extract(epoch from try_at - clock_timestamp()) / 60)::integer from pgdispatch.parked_items"))
	}
	b.Execute("drop trigger audit on pgdispatch.workflow_execution_queue")
	batch = again()
	require.Len(t, batch.Items, 1)
	require.Equal(t, id, batch.Items[0].ID)
	depth = must.Get(b.QueueDepth(t.Context())).In(t)
	require.Zero(t, depth.Parked)
}

func TestAWorkspaceOfItemsThatAreRefusedHoldsUpNoOther(t *testing.T) {
	b := newBench(t)
	other, first := b.NewWorkspace("other", 100), b.claimed(1)
	b.poison("new.status = 'CLAIMED'")
	b.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, idempotency_key,
		run_at)
		select d.workspace_id, d.id, 'poison' || n, now() - interval '1 hour'
			from pgdispatch.workflow_definitions d, generate_series(1, 100) n
		where d.workspace_id = $1::uuid`, b.Shop.Shop)
	b.Insert(other, 20)
	claimed, calls := 0, 0
	for ; claimed < 20; calls++ {
		batch, _ := b.Claim(t.Context(), 10)
		claimed += len(batch.Items)
		require.Less(t, calls, 20)
	}
	b.settle(Fail, settlementsOf(first, Fail)...) // a free slot does not bring the workspace back
	require.Empty(t, b.claim(10).Items)
	require.LessOrEqual(t, sqltest.Scalar[int](b.Shop, "select count(*) from pgdispatch.parked_items"), mostOfWorkspace)
}

func TestItemsBesideOneThatIsRefusedAreSettledAndRenewed(t *testing.T) {
	b := newBench(t)
	b.marked(b.Shop.Shop, "poison")
	items := b.claimed(6)
	b.poison("true")
	settlements := settlementsOf(items, Dispatched)
	require.Len(t, b.renew(items...), len(items)-1)
	_, _, err := b.SettleAndClaim(t.Context(), settlements, Wanted{AtMost: 3})
	require.ErrorIs(t, err, ErrApart)
	settled, err := b.Settle(t.Context(), Dispatched, settlements)
	require.ErrorContains(t, err, "audit says no")
	require.True(t, postgres.IsRefused(err))
	require.Len(t, settled, len(items)-1)
}

func TestAnItemBesideOneThatIsRefusedCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	refusal := &pgconn.PgError{Code: "P0001"}
	_, err := inHalves([]int{1, 2}, func(items []int) ([]int64, error) {
		if items[0] == 1 {
			return nil, refusal
		}
		return nil, io.ErrUnexpectedEOF
	})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.False(t, postgres.IsRefused(err))
}

func TestAnExpiredLeaseThatIsRefusedKeepsNoOther(t *testing.T) {
	b := newBench(t)
	id := b.marked(b.Shop.Shop, "poison")
	b.expire(b.claimed(4)...)
	b.poison("new.status = 'PENDING'")
	require.Equal(t, 3, b.sweep().Requeued)
	require.Contains(t, sqltest.Scalar[string](b.Shop, "select error from pgdispatch.parked_items where item_id = $1", id),
		"its expired lease cannot be ended: audit says no")
	require.Equal(t, "CLAIMED", b.Status(id))
}

// A definition without a namespace has that of the replica.
func TestOnlyAnItemThatTheClaimWouldTakeIsParked(t *testing.T) {
	b := newBench(t)
	b.Store.Namespace = "own"
	b.marked(b.Shop.Shop, "of the own namespace")
	b.Execute(`insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue, namespace)
		values ($1::uuid, 'other', 'Order', 'orders', 'other')`, b.Shop.Shop)
	id := sqltest.Scalar[int64](b.Shop, `insert into pgdispatch.workflow_execution_queue (workspace_id,
		workflow_definition_id, idempotency_key)
		select d.workspace_id, d.id, 'poison' from pgdispatch.workflow_definitions d where d.name = 'other' returning id`)
	b.poison("new.status = 'CLAIMED'")
	batch := b.want(Wanted{AtMost: 1, Look: true, Namespaces: map[string]int{"own": 0}})
	require.Len(t, batch.Parked, 1)
	require.Equal(t, id, batch.Parked[0].ID)
}
