package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// A replica's memory may be wrong in any way: these tests send what a wrong memory might send.

func (f fixture) epoch() string {
	return one[string](f, "select coalesce((select id::text from pgdispatch.epoch), '')")
}

func (f fixture) lastToken() int64 {
	return one[int64](f, "select coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0)")
}

func TestAReceiptIsWorthNothingWhereItMayBeFalse(t *testing.T) {
	must.Each(t, map[string]func(epoch string, last int64) (string, entry){
		"another epoch": func(_ string, last int64) (string, entry) { return nobody, entry{floor: last + 1, heldTo: last} },
		"no epoch":      func(_ string, last int64) (string, entry) { return "", entry{floor: last + 1, heldTo: last} },
		"with a token that nobody has drawn": func(epoch string, last int64) (string, entry) {
			return epoch, entry{heldTo: last + 1000}
		},
		"from before the last claims": func(epoch string, _ int64) (string, entry) { return epoch, entry{} },
	}, func(t *testing.T, receipt func(epoch string, last int64) (string, entry)) {
		f, w := openFor(t, "PRO")
		f.items(w, 10)
		require.Len(t, f.ask(proposal{entries: []entry{{workspace: w.workspace, items: 3}}}).ids, 3)
		epoch, e := receipt(f.epoch(), f.lastToken())
		e.workspace, e.items = w.workspace, 4
		s := f.ask(proposal{epoch: epoch, entries: []entry{e}})
		require.Len(t, s.ids, 2, "five slots, three of them held")
		require.EqualValues(t, 3, *s.counted(0))
	})
}

func TestWhatAReceiptBoundsIsNotCounted(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.items(w, 30)
	f.dispatched(f.claim(6))
	epoch, last := f.epoch(), f.lastToken()
	s := f.ask(proposal{epoch: epoch, entries: []entry{{workspace: w.workspace, items: 2, held: 6, heldTo: last}}})
	require.Len(t, s.ids, 2)
	require.Nil(t, s.counted(0), "six plus two are within the limit")
	s = f.ask(proposal{epoch: epoch, entries: []entry{{workspace: w.workspace, items: 1, held: 100, floor: last - 1}}})
	require.EqualValues(t, 4, *s.counted(0), "counting begins at the floor")
	require.Equal(t, last-1, *s.Entries[0].LowestToken)
}

func TestWhatIsLeasedIsCountedFromItsReceiptOn(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.items(w, 20)
	f.maxClaims(5)
	require.Len(t, f.ask(proposal{entries: []entry{{workspace: w.workspace, items: 3}}}).ids, 3)
	epoch, last := f.epoch(), f.lastToken()
	workspaces := []entry{{workspace: w.workspace, items: 9}}
	s := f.ask(proposal{epoch: epoch, leased: 3, leasedTo: last, entries: workspaces})
	require.Len(t, s.ids, 2, "the receipt bounds the leases at three, without a count")
	require.Empty(t, f.ask(proposal{epoch: epoch, leased: 3, leasedTo: last, entries: workspaces}).ids,
		"the new two count")
	require.Empty(t, f.ask(proposal{epoch: nobody, leasedTo: f.lastToken(), entries: workspaces}).ids,
		"a receipt of another epoch is ignored")
	f.exec("update pgdispatch.settings set max_claims = 6")
	require.Len(t, f.ask(proposal{entries: workspaces}).ids, 1)
}

func TestGrantsAddUp(t *testing.T) {
	type given struct {
		limit  string
		atMost int
		given  int
	}
	must.Each(t, map[string]given{
		"over the entries of a workspace": {"update pgdispatch.workspaces set max_concurrent_workflows = 6", 100,
			12},
		"over W":                   {"update pgdispatch.settings set max_claims = 7", 100, 7},
		"over the owner's workers": {"", 9, 9},
		"over the entries of a workspace, by its rate": {"update pgdispatch.workspaces set max_starts_per_second = 4", 100,
			8},
	}, func(t *testing.T, c given) {
		f := open(t)
		var entries []entry
		for range 2 {
			w := f.tenant("ENTERPRISE")
			f.items(w, 5)
			for range 5 {
				f.at(w, 5, 0)
			}
			entries = append(entries, entry{workspace: w.workspace, priority: 5, items: 5},
				entry{workspace: w.workspace, items: 5})
		}
		if c.limit != "" {
			f.exec(c.limit)
		}
		require.Len(t, f.ask(proposal{atMost: c.atMost, entries: entries}).ids, c.given)
	})
}

// The claimed row must still be the row that was examined.
func TestAnItemThatIsChangedBesideAClaimIsNotTaken(t *testing.T) {
	must.Each(t, map[string]string{
		"withdrawn": "select pgdispatch.cancel(execution_id) from pgdispatch.workflow_execution_queue",
		"postponed": "update pgdispatch.workflow_execution_queue set run_at = now() + interval '1 hour'",
		"lowered":   "update pgdispatch.workflow_execution_queue set priority = -7",
		"deleted":   "delete from pgdispatch.workflow_execution_queue",
		"claimed": "update pgdispatch.workflow_execution_queue " +
			"set status = 'CLAIMED', claimed_by = 'x', claimed_at = now(), lease_expires_at = now() + interval '1 hour', " +
			"lease_token = nextval('pgdispatch.lease_tokens')",
	}, func(t *testing.T, change string) {
		f, w := openFor(t, "PRO")
		f.item(w)
		var s standing
		f.beside(func(in fixture) { in.exec(change) }, func(in fixture) {
			s = in.ask(proposal{entries: []entry{{workspace: w.workspace, items: 1}}})
		})
		require.Empty(t, s.ids)
	})
}

func TestOnlyAClaimGivesAnItemASlot(t *testing.T) {
	f := open(t)
	id := f.item(f.tenant("FREE"))
	for _, session := range []string{"session_replication_role = origin", "session_replication_role = replica",
		"pgdispatch.marked = on"} {
		for _, set := range []string{
			"status = 'CLAIMED', claimed_by = 'x', claimed_at = now(), lease_expires_at = now()", "outcome_unknown = true",
			"status = 'DISPATCHED', claimed_at = now(), dispatched_at = now()",
		} {
			in, tx := f.begin()
			in.exec("set local " + session)
			in.refusedAs("PGD20", "cannot take a slot without a claim",
				"update pgdispatch.workflow_execution_queue set "+set+" where id = $1", id)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
}

func TestAClaimThatTakesNothingWritesNothing(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.rate(w, 1)
	in, tx := f.begin()
	require.Empty(t, in.ask(proposal{doubts: 5, entries: []entry{{workspace: w.workspace, items: 5}}}).ids)
	require.True(t, one[bool](in, "select pg_current_xact_id_if_assigned() is null"))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, f.epoch())
	require.Zero(t, f.lastToken())
	f.item(w)
	require.Len(t, f.ask(proposal{entries: []entry{{workspace: w.workspace, items: 5}}}).ids, 1)
	require.NotEmpty(t, f.epoch(), "the first claim that takes items begins an epoch")
	before := f.epoch()
	f.pass(time.Second)
	f.item(w)
	require.Len(t, f.ask(proposal{entries: []entry{{workspace: w.workspace, items: 5}}}).ids, 1)
	require.Equal(t, before, f.epoch())
}

// Searches for leases and counts both use tokens.
func TestALeaseThatIsPutBackDrawsAToken(t *testing.T) {
	f, b := openClaimed(t, "PRO", 1)
	f.expire(b.ids()...)
	require.Equal(t, 1, one[int](f, "select pgdispatch.requeue_expired(10)"))
	require.Greater(t, one[int64](f, "select lease_token from pgdispatch.workflow_execution_queue"), b.tokens()[0])
}

func TestWhoHoldsASuspectGetsNothing(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	suspect := f.suspects(f.tenant("PRO"), 1)
	f.exec("select pgdispatch.requeue_expired(10)")
	f.items(w, 5)
	more := []entry{{workspace: w.workspace, items: 1}}
	require.Len(t, f.ask(proposal{entries: more}).ids, 1)
	require.Empty(t, f.ask(proposal{doubts: 1, alone: true}).ids, "the replica holds another item")
	require.Empty(t, f.ask(proposal{owner: "free", doubts: 5}).ids, "a suspect must be claimed alone")
	require.Equal(t, suspect, f.ask(proposal{owner: "free", doubts: 1, alone: true}).ids)
	require.Empty(t, f.ask(proposal{owner: "free", entries: more}).ids, "the replica holds a suspect")
	require.Len(t, f.ask(proposal{entries: more}).ids, 1)
}

func (f fixture) snapshot() string { return one[string](f, "select pg_current_snapshot()::text") }

// told returns the changes since a snapshot: workspaces, or "all".
func (f fixture) told(seen string) []string {
	return all[string](f, "select distinct coalesce(l.workspace_id::text, 'all') from ("+sql.Text("look")+
		") l where l.changed", seen, 1000, one[string](f, sql.Text("epoch")))
}

// scene is a workspace with one item in each of these states.
type scene struct {
	fixture
	w                tenant
	running, claimed batch
	waiting          int64
}

func TestEveryMoveSaysWhereToLook(t *testing.T) {
	type given struct {
		do  func(s scene)
		all bool
	}
	must.Each(t, map[string]given{
		"an end":                  {do: func(s scene) { s.finish(s.running.ids()[0], "COMPLETED") }},
		"a batch of ends":         {do: func(s scene) { s.completed(s.running.ids()...) }},
		"a release":               {do: func(s scene) { s.release(s.claimed, false) }},
		"a failure":               {do: func(s scene) { s.fail(s.claimed, "boom") }},
		"a retry":                 {do: func(s scene) { s.retry(s.claimed, "boom") }},
		"a deleted holder":        {do: func(s scene) { s.remove(s.running.ids()...) }},
		"a priority":              {do: func(s scene) { s.set("priority = 5", s.waiting) }},
		"a time":                  {do: func(s scene) { s.set("run_at = now()", s.waiting) }},
		"an item":                 {do: func(s scene) { s.item(s.w) }},
		"a workspace's own limit": {do: func(s scene) { s.setWorkspace(s.w, "max_concurrent_workflows = 9") }},
		"a pause":                 {do: func(s scene) { s.setWorkspace(s.w, "paused = true") }},
		"another plan":            {do: func(s scene) { s.setWorkspace(s.w, "plan = 'FREE'") }},
		"a rate":                  {do: func(s scene) { s.rate(s.w, 5) }},
		"a burst":                 {do: func(s scene) { s.setBurst(s.w, 9) }},
		"a deleted workspace":     {do: func(s scene) { s.leave(s.w) }},
		"a plan's limit": {all: true, do: func(s scene) {
			s.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 9")
		}},
		"a plan's burst": {all: true, do: func(s scene) {
			s.exec("update pgdispatch.workspace_tiers set max_burst_workflows = 9")
		}},
		"a setting": {all: true, do: func(s scene) { s.maxClaims(9) }},
	}, func(t *testing.T, c given) {
		f, w := openFor(t, "PRO")
		f.items(w, 2)
		running := f.claim(1)
		f.dispatched(running)
		claimed := f.claim(1)
		waiting := f.at(w, 0, time.Hour)
		f.item(f.tenant("PRO"))
		seen := f.snapshot()
		require.Empty(t, f.told(seen))
		c.do(scene{f, w, running, claimed, waiting})
		want := w.workspace
		if c.all {
			want = "all"
		}
		require.Equal(t, []string{want}, f.told(seen))
	})
}

// hidden inserts items as logical replication does: triggers do not fire, and their transaction belongs to another
// cluster.
func (f fixture) hidden(w tenant, n int, xid string) (ids []int64) {
	f.untriggered(func(in fixture) { ids = in.insert(w, n, "enqueue_xid", "$4::text::xid8", xid) })
	return ids
}

// Another cluster has other transaction IDs, higher or lower; an older memory must be reloaded completely.
func TestAMemoryThatMayHaveMissedSomethingReadsEverythingAnew(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.items(w, 1)
	f.claim(1)
	ids := f.hidden(w, 2, "3")
	require.Empty(t, f.claim(5).Items)
	f.exec("select pg_current_xact_id()")
	f.exec("update pgdispatch.mark_trim set trimmed_to = pg_snapshot_xmax(pg_current_snapshot())::text::xid8")
	require.Equal(t, ids, f.claim(5).ids(), "marks that it had not read were deleted")
	require.Empty(t, f.claim(5).Items)

	f = openAlone(t)
	gap := func(seen string) bool {
		return one[bool](f, "select l.gap from ("+sql.Text("look")+") l limit 1", seen, 1000, one[string](f,
			sql.Text("epoch")))
	}
	require.False(t, gap(f.snapshot()))
	require.True(t, gap("9000000001:9000000001:"), "a snapshot of a cluster with higher transaction IDs")
	f.exec("update pgdispatch.mark_trim set trimmed_to = '100'")
	require.True(t, gap("99:200000:99"), "a transaction that was open then may have left a mark")
	require.False(t, gap("100:100:"))
}
