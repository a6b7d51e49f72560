package sql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// heard runs do and returns the number of wake-ups that a listening connection received.
func (f fixture) heard(do func()) int {
	f.t.Helper()
	return len(f.payloads(do))
}

// payloads runs do and returns the payloads of the wake-ups. Notifications arrive in commit order, so one from the test
// marks the end.
func (f fixture) payloads(do func()) []string {
	f.t.Helper()
	// A dispatcher sleeps.
	f.exec(sql.Text("gate_shut"))
	defer f.exec(sql.Text("gate_open"))
	return f.said("listen pgdispatch", "pgdispatch", do)
}

// said runs do and returns the payloads on the channel that a statement listens to.
func (f fixture) said(listen, channel string, do func()) []string {
	f.t.Helper()
	conn, err := f.pool.Acquire(f.t.Context())
	require.NoError(f.t, err)
	defer conn.Release()
	_, err = conn.Exec(f.t.Context(), listen)
	require.NoError(f.t, err)
	defer func() {
		_, err := conn.Exec(f.t.Context(), "unlisten *")
		require.NoError(f.t, err)
	}()
	do()
	f.exec(sql.Text("ping"), channel, "end")
	for said := []string{}; ; {
		n, err := conn.Conn().WaitForNotification(f.t.Context())
		require.NoError(f.t, err)
		if n.Payload == "end" {
			return said
		}
		said = append(said, n.Payload)
	}
}

// A number and not an ID, because any role may listen.
func TestAWakeUpNamesTheWorkspaceWhereSomethingHappened(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("FREE"), f.tenant("FREE")
	number := one[int64](f, "select wake_number from pgdispatch.workspaces where id = $1", w.workspace)
	level := func(priority int, id int64) string {
		due := one[int64](f,
			"select (extract(epoch from run_at) * 1000000)::bigint from pgdispatch.workflow_execution_queue where id = $1", id)
		return fmt.Sprintf("%d:%d:%d", number, priority, due)
	}
	var first, urgent int64
	said := f.payloads(func() { first, urgent = f.item(w), f.at(w, 7, time.Hour) })
	require.Equal(t, []string{level(0, first), level(7, urgent)}, said, "where items wait, and since when")
	f.item(other)
	f.dispatched(f.claim(1))
	f.dispatched(f.claim(1))
	f.item(w)
	said = f.payloads(func() { f.finish(f.runs(w), "COMPLETED") })
	require.Equal(t, []string{fmt.Sprint(number)}, said, "where a slot came free")
	require.Equal(t, []string{""}, f.payloads(func() { f.maxClaims(7) }), "an empty payload means all workspaces")
	said = f.payloads(func() {
		f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, priority)
			select $1, $2, n from generate_series(1, 5) n`, w.workspace, w.definition)
	})
	require.Equal(t, []string{""}, said, "too many changes to name")
}

func TestEveryCommittedEnqueueIsHeardOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	require.Equal(t, 1, f.heard(func() { f.item(w) }))
	require.Equal(t, 1, f.heard(func() { f.items(w, 100) }), "one per statement, not one per row")
	require.Equal(t, 2, f.heard(func() { f.item(w); f.item(w) }))
	require.Equal(t, 1, f.heard(func() {
		require.NoError(t, f.copyText("workspace_id, workflow_definition_id", w.workspace+"\t"+w.definition+"\n"))
	}))
	require.Equal(t, 1, f.heard(func() {
		in, tx := f.begin()
		in.item(w)
		in.item(w)
		require.NoError(t, tx.Commit(t.Context()))
	}), "equal notifications of one transaction are merged")
}

func TestWhatIsNotCommittedIsNotHeard(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	require.Zero(t, f.heard(func() {
		in, tx := f.begin()
		in.item(w)
		require.NoError(t, tx.Rollback(t.Context()))
	}))
	require.Zero(t, f.heard(func() { f.refused(insertItem, w.workspace, nobody) }))
}

func TestChangesThatMayFreeCapacityAreHeard(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.items(w, 2)
	running := f.claim(1)
	f.dispatched(running)
	f.items(f.tenant("FREE"), 2)
	other := f.claim(1)
	f.dispatched(other)
	for name, do := range map[string]func(){
		"plan": func() { f.exec("update pgdispatch.workspaces set plan = 'PRO' where id = $1", w.workspace) },
		"override": func() {
			f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 1 where id = $1", w.workspace)
		},
		"tier": func() {
			f.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 2 where plan = 'FREE'")
		},
		"settings": func() { f.maxClaims(7) },
		"end":      func() { f.finish(running.ids()[0], "COMPLETED") },
		"ends":     func() { f.completed(other.ids()...) },
	} {
		require.Equal(t, 1, f.heard(do), name)
	}
}

func TestASlotThatNobodyWaitsForIsFreedQuietly(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 2)
	b := f.claim(2)
	require.Zero(t, f.heard(func() { f.dispatched(b) }), "dispatching frees no slot")
	require.Zero(t, f.heard(func() { f.finish(b.ids()[0], "COMPLETED") }))
	require.Zero(t, f.heard(func() { f.claim(10) }), "a claim sends no wake-up")
}

func TestAnItemThatWaitsAgainIsHeard(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	id := f.item(w)
	require.Equal(t, 1, f.heard(func() { f.release(f.claim(1), false) }), "released")
	require.Equal(t, 1, f.heard(func() { f.release(f.claim(1), true) }), "released without an answer")
	f.claim(1)
	f.expire(id)
	require.Equal(t, 1, f.heard(func() { f.exec("select pgdispatch.requeue_expired(1)") }), "its lease expired")
	require.Equal(t, 1, f.heard(func() {
		f.exec("delete from pgdispatch.workspaces where id = $1", w.workspace)
	}), "its workspace was deleted")

	waiting := f.at(f.tenant("FREE"), 0, lease)
	require.Equal(t, 1, f.heard(func() {
		f.exec("update pgdispatch.workflow_execution_queue set run_at = now() where id = $1", waiting)
	}), "brought forward")
	require.Equal(t, 1, f.heard(func() {
		f.exec("update pgdispatch.workflow_execution_queue set priority = 9 where id = $1", waiting)
	}), "raised")
	require.Equal(t, 1, f.heard(func() {
		f.exec("update pgdispatch.workflow_execution_queue set params = '{}' where id = $1", waiting)
	}), "changed: a claim may have chosen the row before")
}

func TestAnInsertThatAddsNoRowWakesNobody(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	insert := `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, idempotency_key)
		values ($1, $2, 'once') on conflict do nothing`
	require.Equal(t, 1, f.heard(func() { f.exec(insert, w.workspace, w.definition) }))
	require.Zero(t, f.heard(func() { f.exec(insert, w.workspace, w.definition) }))
}

func TestWithdrawingAnItemThatWaitsWakesNobody(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	first, second, _ := f.item(w), f.item(w), f.item(w)
	require.Zero(t, f.heard(func() { f.exec(sql.Text("cancel"), f.execution(first)) }))
	require.Zero(t, f.heard(func() { f.exec("delete from pgdispatch.workflow_execution_queue where id = $1", second) }))
}

func TestAPreparedTransactionIsNotLost(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	prepare := func(name string) error {
		in, tx := f.begin()
		defer func() { _ = tx.Rollback(t.Context()) }()
		if name == "quiet" {
			in.exec("set local pgdispatch.notify = off")
		}
		in.item(w)
		_, err := tx.Exec(t.Context(), "prepare transaction '"+name+" "+w.workspace+"'")
		return err
	}
	require.Zero(t, f.heard(func() {
		require.ErrorContains(t, prepare("loud"), "NOTIFY", "a dispatcher sleeps")
		require.NoError(t, prepare("quiet"))
	}))
	require.Empty(t, f.claim(10).items, "the insert is not committed")
	f.claim(10) // the memory moves on, and must not treat the open transaction as seen
	f.exec("commit prepared 'quiet " + w.workspace + "'")
	require.Len(t, f.claim(10).items, 1)
}
