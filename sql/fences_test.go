package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// beside runs do on its own connection while a transaction is open, commits the transaction once do has ended or waits
// for a lock, and waits for do.
func (f fixture) beside(open func(in fixture), do func(in fixture)) {
	in, tx := f.begin()
	open(in)
	other := f.conn()
	pid := one[int](other, "select pg_backend_pid()")
	ended := make(chan struct{})
	go func() { defer close(ended); do(other) }()
	require.Eventually(f.t, func() bool {
		select {
		case <-ended:
			return true
		default:
			return one[bool](f, "select wait_event_type is not distinct from 'Lock' from pg_stat_activity where pid = $1", pid)
		}
	}, 20*time.Second, time.Millisecond)
	require.NoError(f.t, tx.Commit(f.t.Context()))
	<-ended
}

func TestAClaimThatWaitedCountsWhatItWaitedFor(t *testing.T) {
	must.Each(t, map[string]string{
		"W":             "update pgdispatch.settings set max_claims = 1",
		"workspace's":   "update pgdispatch.workspaces set max_concurrent_workflows = 1",
		"rate's tokens": "update pgdispatch.workspaces set max_starts_per_second = 0.001",
	}, func(t *testing.T, limit string) {
		f, w := openFor(t, "ENTERPRISE")
		f.items(w, 5)
		f.exec(limit)
		one := []entry{{workspace: w.workspace, items: 1}}
		var first, second standing
		f.beside(func(in fixture) {
			first = in.ask(proposal{entries: one})
		}, func(in fixture) { second = in.ask(proposal{owner: "another", entries: one, careful: true}) })
		require.Len(t, first.ids, 1)
		require.Empty(t, second.ids)
	})
}

func TestASweeperWaitsForNobody(t *testing.T) {
	f := open(t)
	f.items(f.tenant("PRO"), 2)
	ids := f.claim(2).ids()
	f.expire(ids...)
	f.lock(ids[0])
	require.Equal(t, 1, one[int](f.impatient(), "select pgdispatch.requeue_expired(10)"))
	require.Equal(t, []string{"CLAIMED", "PENDING"}, []string{f.status(ids[0]), f.status(ids[1])})
}

// The heartbeat was in time; it commits after the sweeper has read the lease in its previous state.
func TestALeaseThatIsRenewedBesideASweeperStays(t *testing.T) {
	f, b := openClaimed(t, "FREE", 1)
	f.expire(b.ids()...)
	requeued := -1
	var err error
	f.beside(func(in fixture) {
		in.exec("update pgdispatch.workflow_execution_queue set lease_expires_at = clock_timestamp() + interval '1 minute'")
	}, func(in fixture) {
		err = in.db.QueryRow(t.Context(), "select pgdispatch.requeue_expired(10)").Scan(&requeued)
	})
	require.NoError(t, err)
	require.Zero(t, requeued)
	require.Equal(t, b.ids(), f.dispatched(b))
}

// Postgres had stopped before it read the statement, whose replica then gave up waiting and claimed again.
func TestAReleaseThatIsExecutedLateLeavesWhatItsOwnerHasClaimedSince(t *testing.T) {
	f := open(t)
	f.set("attempt_count = 2", f.items(f.tenant("PRO"), 2)...)
	before := f.lastToken()
	unread, last := f.claim(1), f.lastToken()
	since := f.claim(1)
	require.EqualValues(t, 1, f.exec(sql.Text("release_unread"), "replica-1", before, last))
	require.Equal(t, []string{"PENDING", "CLAIMED"}, []string{f.status(unread.ids()[0]), f.status(since.ids()[0])})
	require.EqualValues(t, 1, f.count("workflow_execution_queue where attempt_count = 2"), "the released one's")
}

// Its claim's answer was lost, or a failover has forgotten that it was settled.
func TestGiveBack_TakesBackWhatItsOwnerDoesNotHold(t *testing.T) {
	f := open(t)
	w := f.tenant("PRO")
	f.items(w, 5)
	lost, held, expired, dispatched, others := f.claim(1), f.claim(1), f.claim(1), f.claim(1), f.claim(1)
	f.dispatched(dispatched)
	f.set("claimed_by = 'replica-2'", others.ids()...)
	f.expire(expired.ids()...)

	last := f.lastToken()
	require.Empty(t, all[int64](f, sql.Text("give_back"), "replica-1", held.tokens(), lost.tokens()[0]-1),
		"the statement is executed late, and the replica has claimed since")
	require.Equal(t, lost.ids(), all[int64](f, sql.Text("give_back"), "replica-1", held.tokens(), last))
	require.Equal(t, []string{"PENDING", "CLAIMED", "CLAIMED", "DISPATCHED", "CLAIMED"}, []string{f.status(lost.ids()[0]),
		f.status(held.ids()[0]), f.status(expired.ids()[0]), f.status(dispatched.ids()[0]), f.status(others.ids()[0])})
	require.Empty(t, f.dispatched(lost), "a late settle by its old holder changes nothing")
	require.Zero(t, f.count("workflow_execution_queue where lost_lease_count > 0"))

	again := f.claim(1)
	require.Equal(t, lost.ids(), again.ids(), "it kept its slot")
	require.True(t, again.Items[0].Unanswered)
	require.Empty(t, all[int64](f, sql.Text("give_back"), "replica-1", append(held.tokens(), again.tokens()...),
		f.lastToken()))
}

// The condition that a dispatcher waits for before it sleeps: see functions/wake.sql.
func TestWhoeverWasToldThatNobodySleepsKeepsTheGateToItsEnd(t *testing.T) {
	must.Each(t, map[string]func(in fixture, w tenant, waiting int64){
		"an insert":    func(in fixture, w tenant, _ int64) { in.item(w) },
		"a transition": func(in fixture, _ tenant, waiting int64) { in.set("priority = 9", waiting) },
		"an end":       func(in fixture, w tenant, _ int64) { in.finish(in.runs(w), "COMPLETED") },
		"a change":     func(in fixture, w tenant, _ int64) { in.setWorkspace(w, "plan = 'PRO'") },
	}, func(t *testing.T, move func(in fixture, w tenant, waiting int64)) {
		f, w := openFor(t, "FREE")
		f.item(w)
		f.dispatched(f.claim(1))
		waiting := f.items(w, 2)[0]
		f.exec(sql.Text("gate_open"))
		in, tx := f.begin()
		move(in, w, waiting)
		shut := func() bool { return one[bool](f, sql.Text("gate_shut")) }
		require.False(t, shut())
		require.NoError(t, tx.Commit(t.Context()))
		require.True(t, shut())
	})
}

func (f fixture) runs(w tenant) int64 {
	return one[int64](f,
		"select min(id) from pgdispatch.workflow_execution_queue where workspace_id = $1 and status = 'DISPATCHED'",
		w.workspace)
}

// impatient returns a connection that fails rather than wait for a lock.
func (f fixture) impatient() fixture {
	c := f.conn()
	c.exec("set lock_timeout = '500ms'")
	return c
}

func TestAnOpenEnqueueBlocksNobody(t *testing.T) {
	f, w := openFor(t, "FREE")
	waiting := f.item(w)
	enqueuer, _ := f.begin()
	enqueuer.items(w, 3)

	other := f.impatient()
	other.item(w)
	other.setWorkspace(w, "plan = 'PRO', max_concurrent_workflows = 2, paused = false")
	other.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 3 where plan = 'PRO'")
	other.exec("update pgdispatch.workflow_definitions set max_attempts = 5 where id = $1", w.definition)
	b := other.claim(10)
	require.Len(t, b.Items, 2)
	require.Contains(t, b.ids(), waiting)
	other.dispatched(b)
	require.True(t, other.finish(waiting, "COMPLETED"))
	other.leave(w)
}

func TestAnOpenEnqueueLocksNoRowThatOthersHave(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.item(w)
	f.claim(1)
	enqueuer, _ := f.begin()
	enqueuer.item(w)
	for _, table := range []string{
		"workspaces", "workspace_tiers", "workflow_definitions", "workflow_definition_versions", "settings", "rates",
		"mark_trim", "epoch",
		"workflow_execution_queue", "workflow_executions",
	} {
		in, tx := f.begin()
		in.exec("select from pgdispatch." + table + " for update nowait")
		require.NoError(t, tx.Rollback(t.Context()), table)
	}
}

func TestAnEnqueueWaitsForNobody(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.items(w, 3)
	f.claim(1)
	holder, _ := f.begin()
	for _, statement := range []string{
		"lock table pgdispatch.claim_lock in access exclusive mode",
		"lock table pgdispatch.rates, pgdispatch.mark_trim, pgdispatch.settings, pgdispatch.workspace_tiers, " +
			"pgdispatch.replicas, pgdispatch.workflow_executions in access exclusive mode",
		"select from pgdispatch.workspaces for update",
		"select from pgdispatch.workflow_definitions for update",
		"select from pgdispatch.workflow_definition_versions for update",
		"select from pgdispatch.workflow_execution_queue for update",
		"insert into pgdispatch.marks (workspaces) select array[id] from pgdispatch.workspaces",
		"delete from pgdispatch.marks",
	} {
		holder.exec(statement)
	}
	enqueuer := f.impatient()
	enqueuer.items(w, 2)
	enqueuer.exec(withKey, w.workspace, w.definition, "invoice-17")
}

func TestAnOpenClaimBlocksNoApplication(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.items(w, 3)
	running := f.claim(1)
	f.dispatched(running)
	claimer, tx := f.begin()
	require.Len(t, claimer.claimBy("another", 1).Items, 1)

	application := f.impatient()
	id := application.item(w)
	require.True(t, application.cancel(id))
	application.setWorkspace(w, "plan = 'ENTERPRISE'")
	application.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 30 where plan = 'ENTERPRISE'")
	application.exec("update pgdispatch.settings set max_claims = 10")
	require.True(t, application.finish(running.ids()[0], "COMPLETED"), "a workflow's end does not wait")
	locks := all[string](f, `select mode from pg_locks where relation = 'pgdispatch.claim_lock'::regclass and granted
		and database = (select oid from pg_database where datname = current_database())`)
	require.Equal(t, []string{"ShareRowExclusiveLock"}, locks, "one claim at a time decides")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Len(t, f.claim(10).Items, 2, "a rolled-back claim has taken nothing")
}
