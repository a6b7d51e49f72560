package sql_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// in adds a definition to a tenant's workspace whose workflows start in a namespace.
func (f fixture) in(w tenant, namespace string) tenant {
	w.definition, w.version = f.definition(w.workspace, "report in "+namespace)
	f.exec("update pgdispatch.workflow_definitions set namespace = $2 where id = $1", w.definition, namespace)
	return w
}

// claimAround claims with limits per namespace. Definitions without a namespace use the limit of "default".
func (f fixture) claimAround(atMost int, limits map[string]int) batch {
	return must.Get(f.tryClaimAround("replica-1", atMost, limits)).In(f.t)
}

func TestAnItemIsStartedWhereItsDefinitionSays(t *testing.T) {
	f, w := openFor(t, "PRO")
	ids := []int64{f.item(w), f.item(f.in(w, "other"))}
	b := f.claim(5)
	require.Equal(t, ids, b.ids())
	require.Equal(t, "default", b.Items[0].Namespace, "the replica's namespace, if the definition has none")
	require.Equal(t, "other", b.Items[1].Namespace)
	require.Equal(t, []string{"default", "other"},
		all[string](f, "select namespace from pgdispatch.workflow_executions order by queue_item_id"))
	require.ElementsMatch(t, []string{"", "other"}, one[[]string](f, "select pgdispatch.namespaces_in_use()"))
	f.refusedAs("23514", "", "update pgdispatch.workflow_definitions set namespace = ''")
}

// A start that may have arrived is repeated in the same namespace; otherwise there could be a second run.
func TestAnUnansweredStartStaysInItsNamespace(t *testing.T) {
	f := open(t)
	w := f.in(f.tenant("PRO"), "first")
	id := f.item(w)
	b := f.claim(1)
	f.release(b, true)
	f.exec("update pgdispatch.workflow_definitions set namespace = 'second' where id = $1", w.definition)
	b = f.claim(1)
	require.Equal(t, []int64{id}, b.ids())
	require.Equal(t, "first", b.Items[0].Namespace)
	f.exec("update pgdispatch.workflow_definitions set namespace = null where id = $1", w.definition)
	f.expire(id)
	require.Equal(t, "first", f.claim(1).Items[0].Namespace)
	f.exec("delete from pgdispatch.workflow_definitions where id = $1", w.definition)
	f.expire(id)
	b = f.claim(1)
	require.Equal(t, "first", b.Items[0].Namespace, "where it is looked for before it fails")
	require.Equal(t, []string{"first"}, all[string](f, "select namespace from pgdispatch.workflow_executions"))
}

// A misspelt namespace can be corrected, and its waiting items follow.
func TestAStartThatWasRefusedFollowsItsDefinition(t *testing.T) {
	f := open(t)
	w := f.in(f.tenant("PRO"), "misspelt")
	f.item(w)
	f.release(f.claim(1), false)
	f.exec("update pgdispatch.workflow_definitions set namespace = 'right' where id = $1", w.definition)
	b := f.claim(1)
	require.Equal(t, "right", b.Items[0].Namespace)
	f.dispatched(b)
	f.exec("update pgdispatch.workflow_definitions set namespace = 'another' where id = $1", w.definition)
	require.Equal(t, []string{"right"}, all[string](f, "select namespace from pgdispatch.workflow_executions"))
}

func TestItemsOfAClosedNamespaceWaitAndDelayNobody(t *testing.T) {
	f := open(t)
	mixed, closed, good := f.tenant("ENTERPRISE"), f.tenant("PRO"), f.tenant("PRO")
	closed = f.in(closed, "closed")
	waiting := append(f.items(f.in(mixed, "closed"), 3), f.items(closed, 2)...)
	given := append(f.items(mixed, 3), f.items(good, 2)...)

	b := f.claimAround(20, map[string]int{"closed": 0})
	require.ElementsMatch(t, given, b.ids())
	require.False(t, b.More)
	require.Positive(t, b.LookAgainIn)
	require.LessOrEqual(t, b.LookAgainIn, 3*time.Second)
	require.Empty(t, f.claimAround(20, map[string]int{"closed": 0}).Items)
	require.Zero(t,
		one[int](f, "select max(attempt_count) from pgdispatch.workflow_execution_queue where id = any ($1)", waiting))

	f.forget()
	require.Empty(t, f.claimAround(20, map[string]int{"closed": 0}).Items)
	passedOver := f.claimAround(20, map[string]int{"closed": 20})
	require.ElementsMatch(t, waiting, passedOver.ids())
	f.release(passedOver, true)
	f.release(b, true)
	require.Len(t, f.claimAround(1, map[string]int{"closed": 0}).Items, 1, "nor do starts that are to be repeated")
}

func TestANewItemInAnOpenNamespaceIsNotHeldUpByAClosedOne(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.items(f.in(w, "closed"), 99)
	require.Empty(t, f.claimAround(5, map[string]int{"closed": 0}).Items)
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
	f, w := openFor(t, "PRO")
	f.items(f.in(w, "closed"), 105) // more than one claim examines
	behind := f.item(w)
	require.Empty(t, f.claimAround(5, map[string]int{"closed": 0}).Items)
	f.exec("delete from pgdispatch.workflow_execution_queue where id = (select min(id) " +
		"from pgdispatch.workflow_execution_queue)")
	f.forget()
	require.Equal(t, []int64{behind}, f.claimAround(5, map[string]int{"closed": 0}).ids())
}

func TestANamespaceGivesAsManyAsItIsAllowed(t *testing.T) {
	f, w, other := openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	slow := []tenant{f.in(w, "slow"), f.in(other, "slow")}
	for _, s := range slow {
		f.items(s, 5)
	}
	f.items(w, 2)
	count := func(b batch) map[string]int {
		n := map[string]int{}
		for _, item := range b.Items {
			n[item.Namespace]++
		}
		return n
	}
	require.Equal(t, map[string]int{"slow": 3, "default": 2}, count(f.claimAround(20, map[string]int{"slow": 3})))
	b := f.claimAround(20, map[string]int{"slow": 1})
	require.Equal(t, map[string]int{"slow": 1}, count(b))
	f.release(b, true)
	b = f.claimAround(20, map[string]int{"slow": 2})
	require.Equal(t, map[string]int{"slow": 1}, count(b), "nothing else is claimed with an unanswered start")
	require.True(t, b.Items[0].Unanswered)
	f.release(b, true)
	require.Empty(t, f.claimAround(20, map[string]int{"slow": 0}).Items, "a closed namespace repeats no start")
	f.forget()
	require.Equal(t, map[string]int{"slow": 7}, count(f.claim(20)))
}

// A suspect is started alone, by a replica that holds nothing. A suspect that waits for its namespace delays no other
// item.
func TestASuspectOfAClosedNamespaceHoldsUpNobody(t *testing.T) {
	f, w := openFor(t, "PRO")
	suspect := f.item(f.in(w, "closed"))
	f.claim(1)
	f.expire(suspect)
	f.exec("update pgdispatch.workflow_execution_queue set lost_lease_count = 2")
	f.exec("select pgdispatch.requeue_expired(10)")
	ids := f.items(w, 2)
	require.Equal(t, ids, f.claimAllAround(5, map[string]int{"closed": 0}).ids())
}

func TestAClosedNamespaceCostsALookAWorkspace(t *testing.T) {
	f := open(t)
	const workspaces = 1500
	limits := map[string]int{"closed": 0}
	f.tenants(workspaces, "PRO")
	f.exec("update pgdispatch.workflow_definitions set namespace = 'closed'")
	f.itemEach()
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

func TestClosedWorkflowsAreListedInEachNamespaceByItself(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.item(w)
	f.item(f.in(w, "other"))
	f.item(f.activity(w))
	f.dispatched(f.claim(5))
	store := &complete.Postgres{DB: f.db, Namespace: "default"}
	turns := func() []string {
		f.exec("update pgdispatch.close_sweep set looked_at = '-infinity'")
		names := []string{}
		for _, turn := range must.Get(store.CloseTurns(t.Context(), time.Second, time.Hour)).In(t) {
			names = append(names, strings.TrimSuffix(turn.Namespace+" "+turn.Kind.String(), " workflow"))
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

// missing notes that Temporal does not find a running item, and returns the answer.
func (f fixture) missing(id int64) complete.Note {
	f.t.Helper()
	note, known, err := (&complete.Postgres{DB: f.pool}).NoteMissing(f.t.Context(), f.execution(id), 24*time.Hour)
	require.NoError(f.t, err)
	require.True(f.t, known)
	return note
}

func TestMissing_CountsWhatTemporalDoesNotFindForEachNamespace(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	other := f.in(w, "other")
	ids := append(f.items(w, 5), f.items(other, 5)...)
	f.dispatched(f.claim(20))
	vanished := func() []string { return one[[]string](f, "select pgdispatch.vanished()") }

	note := f.missing(ids[0])
	require.Equal(t, complete.Note{Young: true, Missing: 1, Watched: 5}, note)
	f.missing(ids[1])
	f.missing(ids[5])
	require.Empty(t, vanished(), "two of five, and one of another namespace")
	f.exec(`update pgdispatch.missing_executions
		set since = since - interval '50 seconds', asked_at = asked_at - interval '2 minutes'`)
	note = f.missing(ids[2])
	require.Equal(t, 3, note.Missing)
	note = f.missing(ids[0])
	require.GreaterOrEqual(t, note.MissingFor, 50*time.Second)
	f.missing(ids[1])
	require.Equal(t, []string{"default"}, vanished())

	require.NoError(t, (&complete.Postgres{DB: f.pool}).NoteFound(t.Context(), f.execution(ids[2])))
	require.Empty(t, vanished())
	f.exec("update pgdispatch.missing_executions set asked_at = asked_at - interval '4 minutes'")
	require.Zero(t, f.missing(ids[0]).MissingFor, "an old answer says nothing about the time between")
	require.Equal(t, 1, f.missing(ids[0]).Missing)
}

func TestMissing_TellsWhatTemporalMayHaveForgotten(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	ids := f.items(w, 3)
	f.dispatched(f.claim(20))
	f.exec("update pgdispatch.workflow_executions set started_at = now() - interval '25 hours'")
	for _, id := range ids {
		require.Equal(t, complete.Note{Watched: 3}, f.missing(id))
	}
	require.Empty(t, one[[]string](f, "select pgdispatch.vanished()"))

	f.finish(ids[0], "COMPLETED")
	_, known, err := (&complete.Postgres{DB: f.pool}).NoteMissing(t.Context(), f.execution(ids[0]), time.Hour)
	require.NoError(t, err)
	require.False(t, known)
}

func TestExecutionGiveUp_NamesOnlyWhatIsMissing(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	ids := f.items(w, 2)
	f.dispatched(f.claim(20))
	f.missing(ids[0])
	require.Equal(t, ids[:1], all[int64](f.login("operator"), sql.Text("execution_give_up"), ids, "ann", nil))
	require.Equal(t, "ann", f.missing(ids[0]).GivenUpBy)
	require.Empty(t, f.missing(ids[1]).GivenUpBy)
}
