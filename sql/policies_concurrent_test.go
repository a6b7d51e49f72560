package sql_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

const (
	keyClients = 16
	keyCalls   = 20 // of each client, or more until keyClaims items were claimed
	keyClaims  = 4
)

// call enqueues under one key in a transaction, and logs the call while it still holds the item's lock.
const call = `with made as materialized (
		select e.* from pgdispatch.enqueue($1, $2, params => jsonb_build_object('order', $3::int), key => 'a', %s) e
	)
	insert into calls (item, "order", action) select id, $3::int, action from made returning item`

// crowd has keyClients connections and a log of calls.
func crowd(t *testing.T) (fixture, tenant) {
	pool := sqltest.Pool(t, sqltest.URL(t)+"&pool_max_conns=20")
	f := fixture{t: t, pool: pool, db: pool, replicas: &sync.Map{}}
	f.exec(`create table calls (n bigint generated always as identity, item bigint, "order" int, action text)`)
	return f, f.tenant("ENTERPRISE")
}

// callAll has all clients call at once. Meanwhile a replica claims, starts and ends what is due. It returns what each
// claim read of an item's params.
func (f fixture) callAll(w tenant, arguments string, claims bool) map[int64]string {
	var clients errgroup.Group
	var calls, open, claimed atomic.Int64
	open.Store(keyClients)
	for range keyClients {
		clients.Go(func() error {
			defer open.Add(-1)
			for n := 0; n < keyCalls || claims && claimed.Load() < keyClaims; n++ {
				err := pgx.BeginFunc(context.Background(), f.pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(f.t.Context(), fmt.Sprintf(call, arguments), w.workspace, w.definition, calls.Add(1))
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	read := map[int64]string{}
	for claims && (open.Load() > 0 || len(f.waiting()) > 0) {
		b, err := f.tryClaim(1)
		if err != nil {
			continue // it met a locked row
		}
		for _, item := range b.Items {
			require.NotContains(f.t, read, item.ID)
			read[item.ID] = string(item.Params)
			claimed.Add(1)
		}
		f.dispatched(b)
		for _, id := range b.ids() {
			f.finish(id, "COMPLETED")
		}
	}
	require.NoError(f.t, clients.Wait())
	require.Equal(f.t, int(calls.Load()), one[int](f, "select count(*) from calls"))
	return read
}

func (f fixture) waiting() []int64 {
	return all[int64](f, "select id from pgdispatch.workflow_execution_queue where status = 'PENDING'")
}

func TestManyClientsOfOneKeyHaveOneLiveItem(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{"on_conflict => 'skip'", "on_conflict => 'replace'",
		"on_conflict => 'debounce', quiet => '1 min', at_most => '1 hour'"} {
		t.Run(arguments, func(t *testing.T) {
			t.Parallel()
			f, w := crowd(t)
			f.callAll(w, arguments, false)
			live := f.waiting()
			require.Len(t, live, 1)
			require.Equal(t, 1, one[int](f, "select count(*) from calls where action = 'inserted'"))
			require.Equal(t, live, all[int64](f, "select distinct item from calls"))
			require.Equal(t, live, all[int64](f, "select item_id from pgdispatch.enqueue_keys"))
		})
	}
}

// The log is in the order in which the calls held the item, so the last one of an item has set its params.
func TestNoCallIsLostWhileItsItemsAreClaimed(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{"on_conflict => 'replace'",
		"on_conflict => 'debounce', quiet => '1 ms', at_most => '2 ms'"} {
		t.Run(arguments, func(t *testing.T) {
			t.Parallel()
			f, w := crowd(t)
			read := f.callAll(w, arguments, true)
			last := map[int64]string{}
			rows := must.Get(f.db.Query(t.Context(), `select distinct on (item) item, jsonb_build_object('order', "order")::text
				from calls order by item, n desc`)).In(t)
			var item int64
			var params string
			must.Get(pgx.ForEachRow(rows, []any{&item, &params}, func() error { last[item] = params; return nil })).In(t)
			require.Equal(t, last, read, "what was claimed is what the last call said")
			require.Equal(t, len(last), one[int](f, "select count(*) from calls where action = 'inserted'"))
			require.Empty(t, all[int64](f, `select q.id from pgdispatch.workflow_execution_queue q
				where q.params <> (select jsonb_build_object('order', c."order") from calls c where c.item = q.id
					order by c.n desc limit 1)`), "and was not changed afterwards")
		})
	}
}

func TestItemsThatAreSkippedForOneAnotherNeverRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	f, w := crowd(t)
	read := f.callAll(w, "on_conflict => 'skip'", true)
	require.Len(t, read, one[int](f, "select count(*) from calls where action = 'inserted'"))
	require.Empty(t, all[int64](f, `select q.id from pgdispatch.workflow_execution_queue q
		join pgdispatch.workflow_execution_queue later on later.id > q.id and later.claimed_at < q.finished_at`))
}

func TestAReplacementWaitsForTheClaimThatIsUnderWay(t *testing.T) {
	t.Parallel()
	f, w := crowd(t)
	first := f.enqueue(w, 1, "key => 'a'")
	claimer, tx := f.begin()
	require.Len(t, claimer.claim(1).Items, 1)
	var second enqueued
	var err error
	var client sync.WaitGroup
	client.Go(func() { second, err = f.tryEnqueue(w, `{"order": 2}`, "key => 'a', on_conflict => 'replace'") })
	require.Eventually(t, func() bool {
		return one[bool](f, `select exists (select from pg_stat_activity where datname = current_database()
			and wait_event_type = 'Lock')`)
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	client.Wait()
	require.NoError(t, err)
	require.Equal(t, "inserted", second.Action)
	require.Equal(t, []int{1, 2}, []int{f.order(first.ID), f.order(second.ID)})
}

// A call gives the key to a new item, because the key's item is claimed. While it is open, the claim ends unsent: the
// old item waits again. If the next call changed that one, the values of the earlier call would run last.
func TestReplace_WaitsForTheCallThatHasJustTakenTheKey(t *testing.T) {
	for _, arguments := range []string{"on_conflict => 'replace'", "on_conflict => 'replace', run_at => now()",
		"on_conflict => 'debounce', quiet => '1 ms'"} {
		t.Run(arguments, func(t *testing.T) {
			t.Parallel()
			f, w := crowd(t)
			old := f.enqueue(w, 1, "key => 'a'")
			claimed := f.claim(1)
			earlier, tx := f.begin()
			taken := earlier.enqueue(w, 2, "key => 'a', "+arguments)
			require.Equal(t, "inserted", taken.Action)
			f.release(claimed, false)

			var later enqueued
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				later, err = f.tryEnqueue(w, `{"order": 3}`, "key => 'a', "+arguments)
			}()
			require.Eventually(t, func() bool {
				select {
				case <-done:
					return true
				default:
					return one[bool](f, `select exists (select from pg_stat_activity where datname = current_database()
						and wait_event_type = 'Lock')`)
				}
			}, 10*time.Second, time.Millisecond)
			require.NoError(t, tx.Commit(t.Context()))
			<-done
			require.NoError(t, err)
			require.Equal(t, taken.ID, later.ID, "the later call changes the item of the earlier one")
			require.Equal(t, []int{1, 3}, []int{f.order(old.ID), f.order(taken.ID)})
		})
	}
}

func TestAnItemThatChangesWhileAClaimChoosesItIsClaimedByTheNext(t *testing.T) {
	t.Parallel()
	f, w := crowd(t)
	id := f.item(w)
	var first batch
	f.beside(func(client fixture) {
		client.exec("update pgdispatch.workflow_execution_queue set params = '{\"a\": 1}' where id = $1", id)
	}, func(claimer fixture) { first, _ = claimer.tryClaim(1) })
	require.Equal(t, []int64{id}, append(first.ids(), f.claim(1).ids()...))
}
