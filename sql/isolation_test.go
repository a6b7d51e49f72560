package sql_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// isolated turns isolation on, and returns an enqueuer's login that may use these workspaces. "" stands for any.
func (f fixture) isolated(workspaces ...string) fixture {
	f.t.Helper()
	app, owner := f.login("enqueuer"), f.login("owner")
	owner.exec("select pgdispatch.isolate_workspaces(true)")
	for _, workspace := range workspaces {
		owner.exec(`insert into pgdispatch.workspace_roles (role, workspace_id)
			values ($1::text::regrole, nullif($2, '')::uuid)`, one[string](app, "select session_user::text"), workspace)
	}
	return app
}

// trespasses are calls of the functions that an enqueuer calls with the owner's rights, for an item that waits and has
// the key a and names the workflow order-1: the answer to its own workspace's login, and that to others, a result or
// SQLSTATE.
var trespasses = map[string]struct{ call, own, other string }{
	"cancel": {"cancel('{execution}')", "true", "false"},
	"keyed_item": {"keyed_item('{workspace}', '{definition}', 'a', '{}', 0, null, null, null, null) > 0", "true",
		denied},
	"named_definition": {"named_definition('{workspace}', 'report') is not null", "true", "PGD01"},
	"own_workspaces":   {"own_workspaces() @> array['{workspace}'::uuid]", "true", "false"},
	"replace_waiting":  {"replace_waiting('{execution}', '{}', 1, null, null, null, null, null, null)", "true", "false"},
	"signal":           {"signal('{execution}', 'go') > 0", "true", "PGD23"},
	"signal_workflow":  {"signal_workflow('{workspace}', 'order-1', 'go') > 0", "true", "PGD44"},
	"take_key":         {"take_key('{execution}', 'b', null, false)", "false", "false"},
	// for its transaction's own item only
}

// Whatever a login sets, it reaches no item of another workspace: not through the table or the view, nor through any
// function that runs as the owner.
func TestALoginReachesOnlyItsWorkspacesWhateverItSets(t *testing.T) {
	t.Parallel()
	f := open(t)
	mine, other := f.tenant("PRO"), f.tenant("PRO")
	f.exec("update pgdispatch.workspaces set name = id::text")
	const given = "key => 'a', workflow_id => 'order-1'"
	ours, theirs := f.enqueue(mine, 1, given), f.enqueue(other, 1, given)
	app := f.isolated(mine.workspace)
	functions := all[string](f, `select p.proname::text from pg_proc p where p.pronamespace = 'pgdispatch'::regnamespace
		and p.prosecdef and has_function_privilege('pgdispatch_enqueuer', p.oid, 'EXECUTE') order by 1`)
	require.Len(t, functions, len(trespasses))
	for _, settings := range []string{
		"", "set local pgdispatch.workspace_id = '" + other.workspace + "'", "set local role pgdispatch_enqueuer",
		"set local role pgdispatch_enqueuer; set local pgdispatch.workspace_id = '" + other.workspace + "'",
	} {
		for _, function := range functions {
			require.Contains(t, trespasses, function, "it runs as the owner: try it on another workspace's item")
			require.Equal(t, trespasses[function].other, app.answers(settings, "select (pgdispatch."+trespasses[function].call+
				")::text", other, theirs.ExecutionID), "%s after %q", function, settings)
		}
		for statement, answer := range map[string]string{
			"select count(*)::text from pgdispatch.workflow_execution_queue where workspace_id = '{workspace}'": "0",
			"insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id) " +
				"values ('{workspace}', '{definition}') returning id::text": denied,
			"insert into pgdispatch.enqueue (workspace_id, workflow_definition_id) " +
				"values ('{workspace}', '{definition}') returning id::text": denied,
			"select action from pgdispatch.enqueue('{workspace}', '{definition}')":             denied,
			"select action from pgdispatch.enqueue('{workspace}', '{definition}', key => 'a')": denied,
		} {
			require.Equal(t, answer, app.answers(settings, statement, other, ""), "%s after %q", statement, settings)
		}
	}
	for function, try := range trespasses {
		require.Equal(t, try.own, app.answers("", "select (pgdispatch."+try.call+")::text", mine, ours.ExecutionID), function)
	}
}

// answers returns the text that a statement returns for a workspace and the execution of an item, or its SQLSTATE, in a
// transaction that is rolled back.
func (f fixture) answers(settings, statement string, w tenant, execution string) (answer string) {
	f.t.Helper()
	in, tx := f.beginOn()
	in.exec(settings)
	text := strings.NewReplacer("{workspace}", w.workspace, "{definition}", w.definition, "{execution}", execution)
	if err := tx.QueryRow(f.t.Context(), text.Replace(statement)).Scan(&answer); err != nil {
		answer = f.pgError(err).Code
	}
	require.NoError(f.t, tx.Rollback(f.t.Context()))
	return answer
}

// A row of no workspace is for a pooler's login: each transaction names its workspace.
func TestALoginOfAnyWorkspaceNamesItsOwnInEachTransaction(t *testing.T) {
	t.Parallel()
	f := open(t)
	first, second := f.tenant("PRO"), f.tenant("PRO")
	const insert = "insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id) " +
		"values ('{workspace}', '{definition}') returning 'inserted'"
	name := func(w tenant) string { return "set local pgdispatch.workspace_id = '" + w.workspace + "'" }
	f.item(first)
	for want, app := range map[string]fixture{
		// naming nothing, the first, the second; then the items that are seen when nothing, and when the first is named
		"42501 inserted 42501, 0 1":    f.isolated(""),
		"inserted inserted 42501, 1 1": f.isolated(first.workspace, second.workspace),
		"42501 42501 42501, 0 0":       f.isolated(),
	} {
		const seen = "select count(*)::text from pgdispatch.workflow_execution_queue"
		require.Equal(t, want, strings.Join([]string{
			app.answers("", insert, first, ""), app.answers(name(first), insert, first, ""),
			app.answers(name(second), insert, first, "") + ",",
			app.answers("", seen, first, ""), app.answers(name(first), seen, first, "")}, " "))
	}
	require.Equal(t, "22P02", f.isolated("").answers("set local pgdispatch.workspace_id = 'x'", insert, first, ""))
}

func TestALoginThatIsCreatedAgainHasNoWorkspaces(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	role := "again_" + strings.ReplaceAll(w.workspace, "-", "_")
	create := func() fixture {
		f.exec("create role " + role + " login in role pgdispatch_enqueuer")
		return f.on(sqltest.Pool(t, strings.Replace(f.pool.Config().ConnString(), "postgres@", role+"@", 1)))
	}
	app := create()
	f.isolated()
	f.exec("insert into pgdispatch.workspace_roles (role, workspace_id) values ($1::text::regrole, $2)", role, w.workspace)
	app.item(w)
	f.exec("drop role " + role)
	t.Cleanup(func() {
		_, err := f.pool.Exec(context.Background(), "drop role "+role)
		require.NoError(t, err)
	})
	require.Equal(t, denied, create().refused(insertItem, w.workspace, w.definition).Code)
}
