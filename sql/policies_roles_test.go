package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

func TestWhoMayInsertMayEnqueueUnderAKey(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	const replace = "key => 'a', on_conflict => 'replace', priority => 3, run_at => now()"
	app := f.login("enqueuer")
	first := app.enqueue(w, 1, replace)
	require.Equal(t, enqueued{first.ID, first.ExecutionID, "replaced"}, app.enqueue(w, 2, replace))
	require.Equal(t, "skipped", f.login("operator").enqueue(w, 3, "key => 'a'").Action)
	require.Equal(t, "skipped", f.login("owner").enqueue(w, 3, "key => 'a'").Action)
	for _, role := range []string{"reader", "dispatcher"} {
		_, err := f.login(role).tryEnqueue(w, "{}", "key => 'a'")
		require.Equal(t, denied, f.pgError(err).Code, role)
	}
	for _, statement := range []string{"select from pgdispatch.enqueue_keys", "delete from pgdispatch.enqueue_keys",
		"select pgdispatch.announce_ends('{}')"} {
		require.Equal(t, denied, app.refused(statement).Code, statement)
	}
}

func TestIsolationKeepsKeysToTheirWorkspace(t *testing.T) {
	t.Parallel()
	f := open(t)
	mine, other := f.tenant("PRO"), f.tenant("PRO")
	theirs := f.enqueue(other, 1, "key => 'a'")
	app, _ := f.isolated("").beginOn()
	app.exec("select set_config('pgdispatch.workspace_id', $1, true)", mine.workspace)
	require.Equal(t, "inserted", app.enqueue(mine, 1, "key => 'a'").Action)
	require.Equal(t, "replaced", app.enqueue(mine, 2, "key => 'a', on_conflict => 'replace'").Action)

	require.False(t, one[bool](app, "select pgdispatch.take_key($1, 'a', null, false)", theirs.ExecutionID))
	require.False(t, one[bool](app, `select pgdispatch.replace_waiting($1, '{}', 1, null, null, null, null, null, null)`,
		theirs.ExecutionID), "even who knows its ID")
	app.exec("savepoint start")
	for _, arguments := range []string{"", "key => 'a'", "key => 'b'", "key => 'a', on_conflict => 'replace'"} {
		_, err := app.tryEnqueue(other, "{}", arguments)
		require.Equal(t, "42501", f.pgError(err).Code, arguments)
		app.exec("rollback to start")
	}
	require.Equal(t, 1, f.order(theirs.ID))
}

// The application's own policies hold as for a plain insert, whatever the session says.
func TestEnqueueObeysPoliciesOfTheApplication(t *testing.T) {
	t.Parallel()
	f := open(t)
	mine, other := f.tenant("PRO"), f.tenant("PRO")
	theirs := f.enqueue(other, 1, "key => 'a'")
	app := f.isolated("")
	f.exec(`create policy mine on pgdispatch.workflow_execution_queue as restrictive to pgdispatch_enqueuer
		using (workspace_id = '` + mine.workspace + `')`)
	in, _ := app.beginOn()
	in.exec("select set_config('pgdispatch.workspace_id', $1, true)", other.workspace)
	in.exec("savepoint start")
	for _, arguments := range []string{"key => 'a'", "key => 'b'", "key => 'a', on_conflict => 'replace'"} {
		_, err := in.tryEnqueue(other, "{}", arguments)
		require.Error(t, err, arguments)
		require.Equal(t, "42501", f.pgError(err).Code, arguments)
		in.exec("rollback to start")
	}
	require.Equal(t, 1, f.order(theirs.ID))
	require.Equal(t, theirs.ID, one[int64](f, "select item_id from pgdispatch.enqueue_keys"))
}

func TestAKeyGoesWithItsLastItem(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.keep(time.Hour, nil)
	first := f.enqueue(w, 1, "key => 'a'")
	f.dispatched(f.claim(1))
	f.finish(first.ID, "COMPLETED")
	second := f.enqueue(w, 2, "key => 'b'")
	f.age(2*time.Hour, first.ID)
	f.exec(sql.Text("delete_finished"), 100)
	require.Equal(t, []int64{second.ID}, f.kept())
	require.Equal(t, []string{"b"}, all[string](f, "select key from pgdispatch.enqueue_keys"))
}

func TestAReplayHoldsTheKeyOfItsDeadLetter(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	first := f.enqueue(w, 1, "key => 'a'")
	f.dispatched(f.claim(1))
	f.finish(first.ID, "FAILED")
	replay := one[int64](f, "select id from pgdispatch.replay($1)", first.ExecutionID)
	require.Equal(t, enqueued{replay, f.execution(replay), "skipped"}, f.enqueue(w, 2, "key => 'a'"))
	f.dispatched(f.claim(1))
	f.finish(replay, "FAILED")
	require.Equal(t, "inserted", f.enqueue(w, 3, "key => 'a'").Action)
	one[int64](f, "select id from pgdispatch.replay($1)", f.execution(replay))
	require.Equal(t, "skipped", f.enqueue(w, 4, "key => 'a'").Action)
	require.Equal(t, 1, one[int](f, "select count(*) from pgdispatch.enqueue_keys"))
}
