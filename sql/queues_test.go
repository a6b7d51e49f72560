package sql_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// pages reads all key queues with load, page by page, and returns each with the time of its first item.
func (f fixture) queuesBy(xid *string, most int) (read []string) {
	f.t.Helper()
	var workspace, key *string
	var priority *int
	for {
		rows, err := f.db.Query(f.t.Context(),
			`select l.workspace_id::text, l.priority, nullif(l.limit_key, ''), l.run_at::text
			from (`+sql.Text("load")+") l where l.workspace_id is not null", xid, workspace, priority, key, most)
		require.NoError(f.t, err)
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
	t.Parallel()
	f := open(t)
	a, b := f.tenant("PRO"), f.tenant("PRO")
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
	t.Parallel()
	f := open(t)
	big, small := f.tenant("PRO"), f.tenant("PRO")
	c := f.replicaConn()
	before := f.snapshot()
	f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, priority, limit_key)
		select $1, $2, n % 201 - 100, 'key ' || n % 5000 from generate_series(1, 20000) n`, big.workspace, big.definition)
	f.item(small)
	seen := c.scanned("workflow_execution_queue", func() { c.exec(sql.Text("look"), before, 1000, nobody) })
	require.Zero(t, seen.Sequential)
	require.LessOrEqual(t, seen.Index, int64(1010))
	var found []string
	seen = c.scanned("workflow_execution_queue", func() {
		found = all[string](c, "select a.workspace_id::text from ("+sql.Text("arrivals")+") a", before, f.snapshot(), 10)
	})
	require.Len(t, found, 11)
	require.Equal(t, small.workspace, found[10], "the transaction after the great one")
	require.Zero(t, seen.Sequential)
	require.LessOrEqual(t, seen.Index, int64(60))
	seen = c.scanned("workflow_execution_queue", func() { c.exec(sql.Text("load"), nil, nil, nil, nil, 10) })
	require.Zero(t, seen.Sequential)
	require.LessOrEqual(t, seen.Index, int64(60))
}

// A replica looks while the transaction is still open, too.
func TestALookReadsNothingOfAnOpenTransaction(t *testing.T) {
	t.Parallel()
	f := open(t)
	big, small := f.tenant("PRO"), f.tenant("PRO")
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
	t.Parallel()
	f := open(t)
	big, small := f.tenant("PRO"), f.tenant("PRO")
	c := f.replicaConn()
	f.exec("insert into pgdispatch.limits (key, max_concurrent) values ('key', 1)")
	f.items(small, 3)
	f.dispatched(f.claim(2))
	in, tx := f.begin()
	in.items(big, 20_000)
	f.item(small)
	for what, repeats := range map[string]func(){
		"a sweep that records the minute":      func() { c.exec(sql.Text("sweep"), 100, "replica-1") },
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
