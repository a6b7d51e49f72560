package sql_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// pages reads all key queues with load, page by page, and returns each with the time of its first item.
func (f fixture) queuesBy(xid *string, most int) (read []string) {
	var workspace, key *string
	var priority *int
	for {
		rows := must.Get(f.db.Query(f.t.Context(),
			`select l.workspace_id::text, l.priority, nullif(l.limit_key, ''), l.run_at::text
			from (`+sql.Text("load")+") l where l.workspace_id is not null", xid, workspace, priority, key, most)).In(f.t)
		n := 0
		for ; rows.Next(); n++ {
			var due string
			workspace, priority, key = new(string), new(int), nil
			require.NoError(f.t, rows.Scan(workspace, priority, &key, &due))
			read = append(read, fmt.Sprint(*workspace, *priority, deref(key), due))
		}
		require.NoError(f.t, rows.Err())
		if n < most {
			return read
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

func TestPagesHaveEachLineOnce(t *testing.T) {
	f, a, b := openForTwo(t, "PRO", "PRO")
	var xids []string
	for nth := range 4 {
		values := []string{}
		for n := range 30 {
			queue := rand.IntN(24)
			if nth == 0 && n < 24 {
				queue = n // each key queue has an item
			}
			w := []tenant{a, b}[queue%2]
			values = append(values, fmt.Sprintf("('%s', '%s', %d, %s, now() + %d * interval '1 second')", w.workspace,
				w.definition, queue/2%3-1, []string{"null", "'k'", "'l'", "'m'"}[queue/6], rand.IntN(9)))
		}
		xids = append(xids, one[string](f, `with i as (insert into pgdispatch.workflow_execution_queue
			(workspace_id, workflow_definition_id, priority, limit_key, run_at) values `+strings.Join(values, ", ")+
			" returning enqueue_xid) select distinct enqueue_xid::text from i"))
	}
	truth := func(where string) []string {
		return all[string](f, `select concat(q.workspace_id, q.priority, coalesce(q.limit_key, 'none'), min(q.run_at))
			from pgdispatch.workflow_execution_queue q where `+where+` group by q.workspace_id, q.priority, q.limit_key
			order by q.workspace_id, q.priority desc, q.limit_key`)
	}
	for _, most := range []int{1, 3, 1000} {
		require.Equal(t, truth("true"), f.queuesBy(nil, most))
		for _, xid := range xids {
			require.Equal(t, truth(fmt.Sprintf("q.enqueue_xid = '%s'", xid)), f.queuesBy(&xid, most))
		}
	}
	require.Len(t, f.queuesBy(nil, 1000), 24)
}

// A tenant may enqueue any number of items in one transaction, under as many keys.
func TestWhatIsReadOfATransactionDoesNotGrowWithIt(t *testing.T) {
	f, big, small := openForTwo(t, "PRO", "PRO")
	c := f.replicaConn()
	before := f.snapshot()
	f.insert(big, 20000, "priority, limit_key", "n % 201 - 100, 'key ' || n % 5000")
	f.item(small)
	c.bounded("workflow_execution_queue", 1010, "look", func() { c.exec(sql.Text("look"), before, 1000, nobody) })
	var found []string
	c.bounded("workflow_execution_queue", 60, "arrivals", func() {
		found = all[string](c, "select a.workspace_id::text from ("+sql.Text("arrivals")+") a", before, f.snapshot(), 10)
	})
	require.Len(t, found, 11)
	require.Equal(t, small.workspace, found[10], "the transaction after the great one")
	c.bounded("workflow_execution_queue", 60, "load", func() { c.exec(sql.Text("load"), nil, nil, nil, nil, 10) })
}

// A replica looks while the transaction is still open, too.
func TestALookReadsNothingOfAnOpenTransaction(t *testing.T) {
	f, big, small := openForTwo(t, "PRO", "PRO")
	c := f.replicaConn()
	before := f.snapshot()
	f.item(small)
	in, tx := f.begin()
	in.items(big, 20_000)
	f.item(small)
	for _, seen := range []string{before, f.snapshot()} {
		read := c.scanned("workflow_execution_queue", func() { c.exec(sql.Text("look"), seen, 1000, nobody) })
		require.LessOrEqual(t, read.Index, int64(10))
		read = c.scanned("workflow_execution_queue", func() { c.exec(sql.Text("arrivals"), seen, f.snapshot(), 10) })
		require.LessOrEqual(t, read.Index, int64(10))
	}
	require.ElementsMatch(t, []string{small.workspace}, f.told(before))
	seen := f.snapshot()
	require.NoError(t, tx.Commit(t.Context()))
	require.ElementsMatch(t, []string{big.workspace}, f.told(seen))
}

func TestWhatRepeatsReadsNothingOfAnOpenTransaction(t *testing.T) {
	f, big, small := openForTwo(t, "PRO", "PRO")
	c := f.replicaConn()
	f.exec("insert into pgdispatch.limits (key, max_concurrent) values ('key', 1)")
	f.items(small, 3)
	f.dispatched(f.claim(2))
	in, tx := f.begin()
	in.items(big, 20_000)
	f.item(small)
	for what, repeats := range map[string]func(){
		"a sweep":                              func() { c.exec(sql.Text("sweep"), 100, "replica-1") },
		"a sweep that records the minute":      func() { c.exec(sql.Text("housekeep")) },
		"the use of the limits":                func() { c.exec("select * from pgdispatch.limits_used(1000, 10)") },
		"executions that have to be adopted":   func() { c.exec(sql.Text("adopt"), "replica-2", 10, []string{}) },
		"times that are ahead of a clock":      func() { c.exec("select pgdispatch.bring_back(1000)") },
		"the namespaces that are in use":       func() { c.exec("select pgdispatch.namespaces_in_use()") },
		"what a replica that stops gives back": func() { c.exec(sql.Text("release_owned"), "replica-1") },
	} {
		read := c.scanned("workflow_execution_queue", repeats)
		require.LessOrEqual(t, read.Index, int64(30), what)
	}
	require.Equal(t, int64(2), one[int64](f, "select pending from pgdispatch.queue_depth(1000)"))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, int64(20_002), one[int64](f, "select pending from pgdispatch.queue_depth(100000)"))
}

func TestScheduledItemsAreCountedBesideThoseThatWait(t *testing.T) {
	f, w, other := openForTwo(t, "PRO", "PRO")
	f.items(w, 3)
	f.item(other)
	f.at(w, 0, time.Hour)
	f.insert(w, 6, "limit_key, priority, run_at", "'key ' || n % 3, n % 2, now() + make_interval(mins => n - 3)")
	const counts = `select format('%s %s %s', due, scheduled,
		extract(epoch from clock_timestamp() - oldest_due)::int / 60)`
	require.Equal(t, "6 4 2", one[string](f, counts+" from pgdispatch.waiting_counts(array[$1::uuid], 100)", w.workspace))
	require.Equal(t, "7 4 2", one[string](f, counts+" from pgdispatch.waiting_counts(null, 100)"))
	require.Equal(t, "6 4 2", one[string](f, `select format('%s %s %s', waiting, scheduled,
		extract(epoch from clock_timestamp() - oldest_waiting_since)::int / 60)
		from pgdispatch.workspace_statistics where workspace_id = $1`, w.workspace))
	depth := f.shown("queue_depth", 10_000)[0]
	require.EqualValues(t, []any{int64(7), int64(4)}, []any{depth["pending"], depth["scheduled"]})
}

func TestCountsOfWaitingAndScheduledItemsStopEarlyAndSaySo(t *testing.T) {
	f, w, later := openForTwo(t, "PRO", "PRO")
	f.insert(later, 500, "limit_key, run_at", "'key ' || n % 20, now() + interval '1 hour'")
	f.items(w, 50)
	const counts = `select format('%s %s %s %s', due, due_exact, scheduled, scheduled_exact)
		from pgdispatch.waiting_counts`
	require.Equal(t, "50 t 100 f", one[string](f, counts+"(null, 100)"))
	require.Equal(t, "40 f 40 f", one[string](f, counts+"(null, 40)"))
	require.Equal(t, "0 f 5 f", one[string](f, counts+"(array[$1::uuid], 5)", later.workspace),
		"not all key queues were looked at")
	require.Equal(t, "50 t 500 t", one[string](f, counts+"(null, 1000)"))
}

func TestScheduledItemsAreCountedExactlyBesideManyKeyQueues(t *testing.T) {
	f, w, other := openForTwo(t, "PRO", "PRO")
	f.insert(w, 150, "limit_key", "'key ' || n")
	const counts = `select format('%s %s', scheduled, scheduled_exact) from pgdispatch.waiting_counts`
	require.Equal(t, "0 t", one[string](f, counts+"(null, 100)"))
	require.Equal(t, "0 t", one[string](f, counts+"(array[$1::uuid], 100)", w.workspace))
	f.at(w, 0, time.Hour)
	f.at(other, 0, time.Hour)
	require.Equal(t, "2 t", one[string](f, counts+"(null, 100)"))
	require.Equal(t, "1 t", one[string](f, counts+"(array[$1::uuid], 100)", w.workspace))
	f.exec("update pgdispatch.workflow_execution_queue set run_at = now() where run_at > now()")
	require.Equal(t, "0 t", one[string](f, counts+"(null, 100)"))
}

// Where there are more key queues than are looked at, those of the items that arrived first are among them.
func TestTheLongestWaitingWorkspaceIsFoundBesideManyKeyQueues(t *testing.T) {
	f := open(t)
	tenants := make([]tenant, 11)
	for n := range tenants {
		tenants[n] = f.tenant("PRO")
	}
	slices.SortFunc(tenants, func(a, b tenant) int { return cmp.Compare(b.workspace, a.workspace) })
	for _, w := range tenants {
		f.item(w)
	}
	last := tenants[0]
	require.Equal(t, last.workspace,
		one[string](f, "select workspace_id::text from pgdispatch.longest_waiting(5) order by waiting_from limit 1"))
}

func TestTheUseOfLimitsCostsTheSameWithManyLimitsAndALongQueue(t *testing.T) {
	f := open(t).conn()
	w := f.tenant("ENTERPRISE")
	f.noVacuum("workflow_execution_queue", "limits", "limit_starts")
	f.exec("set session_replication_role = replica")
	f.exec(`insert into pgdispatch.limits (workspace_id, key, max_concurrent, max_starts, per)
		select workspace, 'key ' || n, 5, '{1}', '{1 minute}'
		from generate_series(1, 10000) n cross join unnest(array[null, $1::uuid]) workspace`, w.workspace)
	f.exec(`insert into pgdispatch.limits (workspace_id, key, max_concurrent)
		select gen_random_uuid(), 'key 1', 5 from generate_series(1, 10000)`)
	f.insert(w, 10000, "limit_key, status, claimed_at, dispatched_at, lease_token",
		"'key ' || n / 20, 'DISPATCHED', now(), now(), nextval('pgdispatch.lease_tokens')")
	f.insert(w, 20000, "limit_key", "'key ' || n / 20")
	f.exec("insert into pgdispatch.limit_starts select id, '1 minute', now(), 1 from pgdispatch.limits")

	const seen, named = 1000, 4
	read := func() { f.exec("select * from pgdispatch.limits_used($1, $2)", seen, named) }
	for table, entries := range map[string]int64{
		"workflow_execution_queue": 2*seen + 1000 + named*50, // the holders, the keys that wait, their items
		"limits":                   3*1100 + 2*named + 20,    // those of 1,000 keys and of some hundred held ones
		"limit_starts":             named * 5,
	} {
		got := f.scanned(table, read)
		require.LessOrEqual(t, got.Sequential, int64(0), table)
		require.LessOrEqual(t, got.Index, entries, table)
	}
	require.EqualValues(t, named+1, f.exec("select * from pgdispatch.limits_used($1, $2)", seen, named))
}

func TestItemsOfKeysWithoutALimitAreNotLookedAt(t *testing.T) {
	f := open(t).conn()
	w := f.tenant("PRO")
	f.limit(nil, "key 7", 0)
	f.insert(w, 5000, "limit_key", "'key ' || n % 50")
	got := f.scanned("workflow_execution_queue", func() {
		require.Equal(t, []string{"key 7 100", " 0"}, all[string](f,
			"select concat(key, ' ', items) from pgdispatch.limits_used(1000, 5)"))
	})
	require.LessOrEqual(t, got.Index, int64(50+100+100+5), "each key, and twice the items of the one")
}

func TestWhatWaitsForAKeyIsCountedHoweverMuchArrivedBefore(t *testing.T) {
	f, big, small := openForTwo(t, "PRO", "PRO")
	f.items(big, 300)
	f.keyed(big, "other", 300)
	f.limit(nil, "gpu", 0)
	f.limit(&small, "mail", 0)
	f.keyed(small, "gpu", 40)
	f.keyed(small, "mail", 30)
	f.exec("update pgdispatch.workflow_execution_queue set priority = id % 3 where limit_key = 'mail'")
	f.exec("update pgdispatch.workflow_execution_queue set run_at = now() + interval '1 day' where limit_key <> '' " +
		"and id % 10 = 0")
	require.Equal(t, []string{"gpu 36", "mail 27", " 0"}, all[string](f,
		"select concat(key, ' ', items) from pgdispatch.limits_used(10, 5)"))
	require.Equal(t, int64(63), one[int64](f, "select behind from pgdispatch.limits_used(10, 5) where key is null"))
	for _, of := range []struct {
		key       string
		workspace any
		items     int64
	}{{"gpu", nil, 20}, {"mail", small.workspace, 20}, {"mail", big.workspace, 0}, {"mail", nil, 20}, {"none", nil, 0}} {
		require.Equal(t, of.items, one[int64](f, "select items from pgdispatch.key_waiting($1, $2, 20)", of.key,
			of.workspace), of)
	}
}

func TestWhatWaitsForAKeyIsFoundByItsIndex(t *testing.T) {
	f := open(t).conn()
	w := f.tenant("PRO")
	f.noVacuum("workflow_execution_queue")
	f.items(w, 5000)
	f.keyed(w, "aaa", 5000)
	f.keyed(w, "smtp", 400)
	for _, workspace := range []any{nil, w.workspace} {
		read := f.scanned("workflow_execution_queue", func() {
			f.exec("select * from pgdispatch.key_waiting('smtp', $1, 100)", workspace)
		})
		require.LessOrEqual(t, read.Sequential, int64(0), workspace)
		require.LessOrEqual(t, read.Index, int64(110), workspace)
	}
}
