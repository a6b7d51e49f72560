package sql_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// in adds a definition to a tenant's workspace whose workflows start in a namespace.
func (f fixture) in(w tenant, namespace string) tenant {
	f.t.Helper()
	w.definition, w.version = f.definition(w.workspace, "report in "+namespace)
	f.exec("update pgdispatch.workflow_definitions set namespace = $2 where id = $1", w.definition, namespace)
	return w
}

// claimAround claims with limits per namespace. Definitions without a namespace use the limit of "default".
func (f fixture) claimAround(atMost int, limits map[string]int) batch {
	f.t.Helper()
	b, err := f.tryClaimAround("replica-1", atMost, limits)
	require.NoError(f.t, err)
	return b
}

func TestAnItemIsStartedWhereItsDefinitionSays(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	ids := []int64{f.item(w), f.item(f.in(w, "other"))}
	b := f.claim(5)
	require.Equal(t, ids, b.ids())
	require.Equal(t, "default", *b.items[0].Namespace, "the replica's namespace, if the definition has none")
	require.Equal(t, "other", *b.items[1].Namespace)
	require.Equal(t, []string{"default", "other"},
		all[string](f, "select namespace from pgdispatch.workflow_executions order by queue_item_id"))
	require.ElementsMatch(t, []string{"", "other"}, one[[]string](f, "select pgdispatch.namespaces_in_use()"))
	require.Equal(t, "23514", f.refused("update pgdispatch.workflow_definitions set namespace = ''").Code)
}

// A start that may have arrived is repeated in the same namespace; otherwise there could be a second run.
func TestAnUnansweredStartStaysInItsNamespace(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.in(f.tenant("PRO"), "first")
	id := f.item(w)
	b := f.claim(1)
	f.release(b, true)
	f.exec("update pgdispatch.workflow_definitions set namespace = 'second' where id = $1", w.definition)
	b = f.claim(1)
	require.Equal(t, []int64{id}, b.ids())
	require.Equal(t, "first", *b.items[0].Namespace)
	f.exec("update pgdispatch.workflow_definitions set namespace = null where id = $1", w.definition)
	f.expire(id)
	require.Equal(t, "first", *f.claim(1).items[0].Namespace)
	f.exec("delete from pgdispatch.workflow_definitions where id = $1", w.definition)
	f.expire(id)
	b = f.claim(1)
	require.Equal(t, "first", *b.items[0].Namespace, "where it is looked for before it fails")
	require.Equal(t, []string{"first"}, all[string](f, "select namespace from pgdispatch.workflow_executions"))
}

// A misspelt namespace can be corrected, and its waiting items follow.
func TestAStartThatWasRefusedFollowsItsDefinition(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.in(f.tenant("PRO"), "misspelt")
	f.item(w)
	f.release(f.claim(1), false)
	f.exec("update pgdispatch.workflow_definitions set namespace = 'right' where id = $1", w.definition)
	b := f.claim(1)
	require.Equal(t, "right", *b.items[0].Namespace)
	f.dispatched(b)
	f.exec("update pgdispatch.workflow_definitions set namespace = 'another' where id = $1", w.definition)
	require.Equal(t, []string{"right"}, all[string](f, "select namespace from pgdispatch.workflow_executions"))
}

func TestItemsOfAClosedNamespaceWaitAndDelayNobody(t *testing.T) {
	t.Parallel()
	f := open(t)
	mixed, closed, good := f.tenant("ENTERPRISE"), f.tenant("PRO"), f.tenant("PRO")
	closed = f.in(closed, "closed")
	waiting := append(f.items(f.in(mixed, "closed"), 3), f.items(closed, 2)...)
	given := append(f.items(mixed, 3), f.items(good, 2)...)

	b := f.claimAround(20, map[string]int{"closed": 0})
	require.ElementsMatch(t, given, b.ids())
	require.False(t, b.more)
	require.Positive(t, *b.lookAgainIn)
	require.LessOrEqual(t, *b.lookAgainIn, 3*time.Second)
	require.Empty(t, f.claimAround(20, map[string]int{"closed": 0}).items)
	require.Zero(t,
		one[int](f, "select max(attempt_count) from pgdispatch.workflow_execution_queue where id = any ($1)", waiting))

	f.forget()
	require.Empty(t, f.claimAround(20, map[string]int{"closed": 0}).items)
	require.ElementsMatch(t, waiting, f.claimAround(20, map[string]int{"closed": 20}).ids(),
		"the items that were passed over")
}

func TestANewItemInAnOpenNamespaceIsNotHeldUpByAClosedOne(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.items(f.in(w, "closed"), 99)
	require.Empty(t, f.claimAround(5, map[string]int{"closed": 0}).items)
	id := f.item(w)
	require.Equal(t, []int64{id}, f.claimAround(5, map[string]int{"closed": 0}).ids(), "one claim finds it")
	urgent := f.at(f.in(w, "closed too"), 5, 0)
	id = f.at(w, -5, 0)
	require.Equal(t, []int64{id}, f.claimAllAround(5, map[string]int{"closed": 0, "closed too": 0}).ids(),
		"each priority is examined separately")
	f.forget()
	require.Equal(t, []int64{urgent}, f.claimAround(1, map[string]int{"closed": 0}).ids())
}

func TestALookIsAHundredItems(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.items(f.in(w, "closed"), 105) // more than one claim examines
	behind := f.item(w)
	require.Empty(t, f.claimAround(5, map[string]int{"closed": 0}).items)
	f.exec("delete from pgdispatch.workflow_execution_queue where id = (select min(id) " +
		"from pgdispatch.workflow_execution_queue)")
	f.forget()
	require.Equal(t, []int64{behind}, f.claimAround(5, map[string]int{"closed": 0}).ids())
}

func TestANamespaceGivesAsManyAsItIsAllowed(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("ENTERPRISE"), f.tenant("ENTERPRISE")
	slow := []tenant{f.in(w, "slow"), f.in(other, "slow")}
	for _, s := range slow {
		f.items(s, 5)
	}
	f.items(w, 2)
	count := func(b batch) map[string]int {
		n := map[string]int{}
		for _, item := range b.items {
			n[*item.Namespace]++
		}
		return n
	}
	require.Equal(t, map[string]int{"slow": 3, "default": 2}, count(f.claimAround(20, map[string]int{"slow": 3})))
	b := f.claimAround(20, map[string]int{"slow": 1})
	require.Equal(t, map[string]int{"slow": 1}, count(b))
	f.release(b, true)
	b = f.claimAround(20, map[string]int{"slow": 2})
	require.Equal(t, map[string]int{"slow": 1}, count(b), "nothing else is claimed with an unanswered start")
	require.True(t, *b.items[0].Unanswered)
	f.release(b, true)
	require.Empty(t, f.claimAround(20, map[string]int{"slow": 0}).items, "a closed namespace repeats no start")
	f.forget()
	require.Equal(t, map[string]int{"slow": 7}, count(f.claim(20)))
}

// A suspect is started alone, by a replica that holds nothing. A suspect that waits for its namespace delays no other
// item.
func TestASuspectOfAClosedNamespaceHoldsUpNobody(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	suspect := f.item(f.in(w, "closed"))
	f.claim(1)
	f.expire(suspect)
	f.exec("update pgdispatch.workflow_execution_queue set lost_lease_count = 2")
	f.exec("select pgdispatch.requeue_expired(10)")
	ids := f.items(w, 2)
	require.Equal(t, ids, f.claimAllAround(5, map[string]int{"closed": 0}).ids())
}

func TestNobodyStarvesBesideAClosedNamespace(t *testing.T) {
	t.Parallel()
	f, urgent, patient := overloaded(t)
	for range 20 {
		w := f.in(f.tenant("PRO"), "closed")
		f.at(w, -100, -time.Hour)
	}
	oldest := f.at(patient, -100, -4*time.Minute)
	for range 10 {
		f.flood(urgent, 5)
		for _, id := range f.claimAround(5, map[string]int{"closed": 0}).ids() {
			if id == oldest {
				return
			}
		}
	}
	require.Fail(t, "the longest waiting item that may start is never claimed")
}

// The cost of a closed namespace does not grow with its waiting items, and it does not hide items of others.
func TestAClosedNamespaceCostsALookAWorkspace(t *testing.T) {
	t.Parallel()
	f := open(t)
	const workspaces = 1500
	limits := map[string]int{"closed": 0}
	f.exec(
		"insert into pgdispatch.workspaces (name, plan) select 'closed ' || n, 'PRO' from generate_series(1, $1::int) n",
		workspaces)
	f.exec(`insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue, namespace)
		select id, 'report', 'Report', 'reports', 'closed' from pgdispatch.workspaces`)
	f.exec(`insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		select id, 1, '{"nodes": []}' from pgdispatch.workflow_definitions`)
	f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select workspace_id, id from pgdispatch.workflow_definitions`)
	big := f.in(f.tenant("PRO"), "closed")
	f.items(big, 20000)
	f.claimAround(10, limits) // loads the schedule, which reads every workspace
	last := f.item(f.tenant("PRO"))

	c := f.replicaConn()
	var seen scans
	var found []int64
	for range 60 {
		seen = c.scanned("workflow_execution_queue", func() { found = c.claimAround(10, limits).ids() })
		require.LessOrEqual(t, seen.Index, int64(31*3+200),
			"a claim examines 31 workspaces, and a hundred items of one of them")
		if len(found) > 0 {
			break
		}
	}
	require.Equal(t, []int64{last}, found, "no later than after all of them")
	good := f.tenant("PRO")
	seen = c.scanned("workflow_execution_queue", func() {
		c.item(big)
		c.item(good)
		c.claimAround(10, limits)
	})
	require.Less(t, seen.Index, int64(1000), "a claim examines a hundred items of a workspace")
}

// Whatever is limited and whichever replica claims, no namespace exceeds its limit, no workspace exceeds its limit, and
// in the end every item has been claimed once.
func TestLimitsOfNamespacesHoldWhateverComes(t *testing.T) {
	t.Parallel()
	f := open(t)
	random := rand.New(rand.NewPCG(20260815, 3))
	names := []string{"default", "a", "b"}
	var tenants []tenant
	for range 4 {
		w := f.tenant("PRO")
		tenants = append(tenants, w, f.in(w, "a"), f.in(w, "b"))
	}
	enqueued, done := 0, map[int64]bool{}
	for round := range 150 {
		if round < 100 {
			f.at(tenants[random.IntN(len(tenants))], random.IntN(3), 0)
			enqueued++
		}
		limits := map[string]int{}
		for _, name := range names {
			if allowed := random.IntN(5); allowed < 3 && round < 120 {
				limits[name] = allowed
			}
		}
		if random.IntN(5) == 0 || round >= 120 {
			f.forget()
		}
		b := f.claimAround(1+random.IntN(8), limits)
		given := map[string]int{}
		for _, item := range b.items {
			require.False(t, done[*item.ID])
			given[*item.Namespace]++
		}
		for name, allowed := range limits {
			require.LessOrEqual(t, given[name], allowed, "round %d: %s", round, name)
		}
		require.LessOrEqual(t, one[int](f, `select coalesce(max(n), 0) from (select count(*) as n
			from pgdispatch.workflow_execution_queue
			where status in ('CLAIMED', 'DISPATCHED') or outcome_unknown group by workspace_id) x`), 5)
		switch random.IntN(4) {
		case 0:
			f.release(b, random.IntN(2) == 0)
		default:
			f.dispatched(b)
			for _, id := range b.ids() {
				done[id] = true
				require.True(t, f.finish(id, "COMPLETED"))
			}
		}
	}
	for b := f.claim(8); len(b.items) > 0; b = f.claim(8) {
		f.dispatched(b)
		for _, id := range b.ids() {
			require.False(t, done[id])
			done[id] = true
			f.finish(id, "COMPLETED")
		}
	}
	require.Len(t, done, enqueued)
}

func TestClosedWorkflowsAreListedInEachNamespaceByItself(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.item(w)
	f.item(f.in(w, "other"))
	f.item(f.activity(w))
	f.dispatched(f.claim(5))
	turns := func() []string {
		f.exec("update pgdispatch.close_sweep set looked_at = '-infinity'")
		type turn struct {
			namespace, kind string
			wide, all       bool
			since           time.Time
		}
		rows, err := f.db.Query(t.Context(), sql.Text("close_turn"), time.Second, time.Hour, "default")
		require.NoError(t, err)
		defer rows.Close()
		names := []string{}
		for rows.Next() {
			var got turn
			require.NoError(t, rows.Scan(&got.namespace, &got.kind, &got.wide, &got.all, &got.since))
			names = append(names, strings.TrimSuffix(got.namespace+" "+got.kind, " workflow"))
		}
		return names
	}
	require.ElementsMatch(t, []string{"default", "default activity", "other"}, turns())
	f.exec(sql.Text("close_done"), "default", nil, true, "activity")
	f.exec(sql.Text("replica_alive"), "replica-1", "dev", 4, lease, "default", "{}")
	f.exec(sql.Text("close_done"), "default", time.Now(), true, "workflow")
	require.Equal(t, []string{"other"}, turns(), "default is watched and was listed; the other was not")
	f.exec(sql.Text("close_done"), "other", nil, true, "workflow")
	require.Empty(t, turns())
	f.exec(sql.Text("give_up_watches"), "replica-1", nil)
	require.Len(t, turns(), 3)
}
