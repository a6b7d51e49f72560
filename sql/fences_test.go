package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// The first holder repeats a settle whose answer was lost, after another replica has claimed the item.
func TestARepeatedStartHasATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.item(f.tenant("FREE"))
	first := f.claim(1)
	f.release(first, true)
	second := f.claim(1)
	require.Equal(t, first.ids(), second.ids())
	require.Empty(t, f.release(first, true))
	require.Equal(t, second.ids(), f.dispatched(second))
}

// beside runs do on its own connection while a transaction is open, commits the transaction once do has ended or waits
// for a lock, and waits for do.
func (f fixture) beside(open func(in fixture), do func(in fixture)) {
	f.t.Helper()
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
	t.Parallel()
	for name, limit := range map[string]string{
		"W":             "update pgdispatch.settings set max_claims = 1",
		"workspace's":   "update pgdispatch.workspaces set max_concurrent_workflows = 1",
		"rate's tokens": "update pgdispatch.workspaces set max_starts_per_second = 0.001",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			w := f.tenant("ENTERPRISE")
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
}

func TestASweeperWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 2)
	ids := f.claim(2).ids()
	f.expire(ids...)
	holder, _ := f.begin()
	holder.exec("select from pgdispatch.workflow_execution_queue where id = $1 for update", ids[0])
	require.Equal(t, 1, one[int](f.impatient(), "select pgdispatch.requeue_expired(10)"))
	require.Equal(t, []string{"CLAIMED", "PENDING"}, []string{f.status(ids[0]), f.status(ids[1])})
}

// The heartbeat was in time; it commits after the sweeper has read the lease in its previous state.
func TestALeaseThatIsRenewedBesideASweeperStays(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.item(f.tenant("FREE"))
	b := f.claim(1)
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
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 2)
	before := f.lastToken()
	unread, last := f.claim(1), f.lastToken()
	since := f.claim(1)
	require.EqualValues(t, 1, f.exec(sql.Text("release_unread"), "replica-1", before, last))
	require.Equal(t, []string{"PENDING", "CLAIMED"}, []string{f.status(unread.ids()[0]), f.status(since.ids()[0])})
}

// The condition that a dispatcher waits for before it sleeps: see functions/wake.sql.
func TestWhoeverWasToldThatNobodySleepsKeepsTheGateToItsEnd(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(in fixture, w tenant, waiting int64){
		"an insert": func(in fixture, w tenant, _ int64) { in.item(w) },
		"a transition": func(in fixture, _ tenant, waiting int64) {
			in.exec("update pgdispatch.workflow_execution_queue set priority = 9 where id = $1", waiting)
		},
		"an end": func(in fixture, w tenant, _ int64) { in.finish(in.runs(w), "COMPLETED") },
		"a change": func(in fixture, w tenant, _ int64) {
			in.exec("update pgdispatch.workspaces set plan = 'PRO' where id = $1", w.workspace)
		},
	} {
		f := open(t)
		w := f.tenant("FREE")
		f.item(w)
		f.dispatched(f.claim(1))
		waiting := f.items(w, 2)[0]
		f.exec(sql.Text("gate_open"))
		in, tx := f.begin()
		move(in, w, waiting)
		shut := func() bool { return one[bool](f, sql.Text("gate_shut")) }
		require.False(t, shut(), name)
		require.NoError(t, tx.Commit(t.Context()))
		require.True(t, shut(), name)
	}
}

func (f fixture) runs(w tenant) int64 {
	f.t.Helper()
	return one[int64](f,
		"select min(id) from pgdispatch.workflow_execution_queue where workspace_id = $1 and status = 'DISPATCHED'",
		w.workspace)
}
