package sql_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/goldentest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// isolated turns isolation on, and returns an enqueuer's login that may use these workspaces. "" stands for any.
func (f fixture) isolated(workspaces ...string) fixture {
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

func TestALoginReachesOnlyItsWorkspacesWhateverItSets(t *testing.T) {
	f, mine, other := openForTwo(t, "PRO", "PRO")
	f.exec("update pgdispatch.workspaces set name = id::text")
	const given = "key => 'a', workflow_id => 'order-1'"
	ours, theirs := f.enqueue(mine, 1, given), f.enqueue(other, 1, given)
	app, ofAny := f.isolated(mine.workspace), f.isolated("")
	const names = "set local pgdispatch.workspace_id = '"
	functions := all[string](f, `select p.proname::text from pg_proc p where p.pronamespace = 'pgdispatch'::regnamespace
		and p.prosecdef and has_function_privilege('pgdispatch_enqueuer', p.oid, 'EXECUTE') order by 1`)
	require.Len(t, functions, len(trespasses))
	for settings, app := range map[string]fixture{
		"": app, names + other.workspace + "'": app, "set local role pgdispatch_enqueuer": app,
		"set local role pgdispatch_enqueuer; " + names + other.workspace + "'": app, names + mine.workspace + "'": ofAny,
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
		call := "select (pgdispatch." + try.call + ")::text"
		require.Equal(t, try.own, app.answers("", call, mine, ours.ExecutionID), function)
		require.Equal(t, try.own, ofAny.answers(names+mine.workspace+"'", call, mine, ours.ExecutionID), function)
	}
}

// answers returns the text that a statement returns for a workspace and the execution of an item, or its SQLSTATE, in a
// transaction that is rolled back.
func (f fixture) answers(settings, statement string, w tenant, execution string) (answer string) {
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
	f, first, second := openForTwo(t, "PRO", "PRO")
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
	f, w := openFor(t, "PRO")
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
	t.Cleanup(func() { must.Get(f.pool.Exec(context.Background(), "drop role "+role)).In(t) })
	require.Equal(t, denied, create().refused(insertItem, w.workspace, w.definition).Code)
}

func TestWhoMayInsertMayEnqueueUnderAKey(t *testing.T) {
	f, w := openFor(t, "PRO")
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
}

func TestIsolationKeepsKeysToTheirWorkspace(t *testing.T) {
	f, mine, other := openForTwo(t, "PRO", "PRO")
	theirs := f.enqueue(other, 1, "key => 'a'")
	app, _ := f.isolated("").beginOn()
	app.exec("select set_config('pgdispatch.workspace_id', $1, true)", mine.workspace)
	require.Equal(t, "inserted", app.enqueue(mine, 1, "key => 'a'").Action)
	require.Equal(t, "replaced", app.enqueue(mine, 2, "key => 'a', on_conflict => 'replace'").Action)
	app.mayNotEnqueue(other)
	require.Equal(t, 1, f.order(theirs.ID))
}

// mayNotEnqueue fails unless each way to enqueue in the tenant's workspace is denied.
func (f fixture) mayNotEnqueue(w tenant) {
	f.exec("savepoint start")
	for _, arguments := range []string{"", "key => 'a'", "key => 'b'", "key => 'a', on_conflict => 'replace'"} {
		_, err := f.tryEnqueue(w, "{}", arguments)
		require.Equal(f.t, denied, f.pgError(err).Code, arguments)
		f.exec("rollback to start")
	}
}

func TestEnqueueObeysPoliciesOfTheApplication(t *testing.T) {
	f, mine, other := openForTwo(t, "PRO", "PRO")
	theirs := f.enqueue(other, 1, "key => 'a'")
	app := f.isolated("")
	f.exec(`create policy mine on pgdispatch.workflow_execution_queue as restrictive to pgdispatch_enqueuer
		using (workspace_id = '` + mine.workspace + `')`)
	in, _ := app.beginOn()
	in.exec("select set_config('pgdispatch.workspace_id', $1, true)", other.workspace)
	in.mayNotEnqueue(other)
	require.Equal(t, 1, f.order(theirs.ID))
	require.Equal(t, theirs.ID, one[int64](f, "select item_id from pgdispatch.enqueue_keys"))
}

func TestAReplayHoldsTheKeyOfItsDeadLetter(t *testing.T) {
	f, w := openFor(t, "PRO")
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
	require.Equal(t, 1, f.count("enqueue_keys"))
}

var roles = []string{"owner", "dispatcher", "enqueuer", "operator", "reader"}

// objects lists all objects that privileges are granted on.
const objects = `
select 'schema pgdispatch'
union all
select case c.relkind when 'S' then 'sequence' when 'v' then 'view' else 'table' end || ' ' || c.relname
from pg_class c where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S')
union all
select 'function ' || p.proname from pg_proc p where p.pronamespace = 'pgdispatch'::regnamespace
order by 1`

// privileges lists a role's privileges, one line per object, checking every privilege that exists. $1: the role.
const privileges = `
with held (object, privilege) as (
    select 'schema pgdispatch', k from unnest('{CREATE,USAGE}'::text[]) k
    	where has_schema_privilege($1, 'pgdispatch', k)
    union all
    select case c.relkind when 'v' then 'view ' else 'table ' end || c.relname, k
    from pg_class c, unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) k
    where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
    	and has_table_privilege($1, c.oid, k)
    union all
    select case c.relkind when 'v' then 'view ' else 'table ' end || c.relname, k || ' (' || string_agg(a.attname, ', '
    	order by a.attnum) || ')'
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
    	and not a.attisdropped, unnest('{SELECT,INSERT,UPDATE,REFERENCES}'::text[]) k
    where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
      and not has_table_privilege($1, c.oid, k) and has_column_privilege($1, c.oid, a.attnum, k)
    group by c.relkind, c.relname, k
    union all
    select 'sequence ' || c.relname, k
    from pg_class c, unnest('{USAGE,SELECT,UPDATE}'::text[]) k
    where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind = 'S'  and has_sequence_privilege($1, c.oid, k)
    union all
    select 'function ' || p.proname, 'EXECUTE' from pg_proc p
    where p.pronamespace = 'pgdispatch'::regnamespace and has_function_privilege($1, p.oid, 'EXECUTE')
)
select object || ': ' || lower(string_agg(privilege, ', ' order by privilege)) from held group by object
	order by object`

func TestEveryRoleMayDoWhatTheGoldenFileSays(t *testing.T) {
	f := open(t)
	if !goldentest.Updating() {
		golden := must.Get(os.ReadFile(filepath.Join("..", "testdata", "privileges.golden"))).In(t)
		for _, object := range all[string](f, objects) {
			require.Contains(t, string(golden), "\n"+object+": ", "%s is not in testdata/privileges.golden: "+
				"say in sql/schema/grants.sql which roles may use it (nothing there: the owner only), and run `make golden`",
				object)
		}
	}
	text := "# Written by `make golden` from the catalogue of a migrated database. What is granted stands in " +
		"sql/schema/grants.sql.\n"
	for _, role := range roles {
		text += "\n## " + role + "\n" + strings.Join(all[string](f, privileges, "pgdispatch_"+role), "\n") + "\n"
	}
	goldentest.Require(t, "../testdata/privileges.golden", text)
}

func TestNothingIsGrantedToEverybody(t *testing.T) {
	f := open(t)
	address := must.Get(url.Parse(sqltest.Login(t, f.pool.Config().ConnString(), ""))).In(t)
	require.Empty(t, all[string](f, privileges, address.User.Username()))
}

// A security definer function must not resolve operators and tables of other users.
func TestWhatRunsAsTheOwnerHasItsSearchPathPinned(t *testing.T) {
	f := open(t)
	require.Empty(t, all[string](f, `select proname::text from pg_proc where pronamespace = 'pgdispatch'::regnamespace
		and prosecdef
		and (proowner <> 'pgdispatch_owner'::regrole
			or not 'search_path=pg_catalog, pg_temp' = any (coalesce(proconfig, '{}')))`))
	require.Empty(t, all[string](f, `select relname::text from pg_class where relnamespace = 'pgdispatch'::regnamespace
		and relowner <> 'pgdispatch_owner'::regrole
			and relkind <> 'i'`), "the migrating superuser owns nothing")
	require.False(t, one[bool](f,
		"select rolcanlogin or rolsuper or rolcreaterole or rolbypassrls from pg_roles where rolname = 'pgdispatch_owner'"))
}

func TestEveryRoleExecutesTheStatementsOfTheGoldenFile(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.exec("select setval('pgdispatch.lease_tokens', 1000), set_config('jit', 'off', false)") // seeded items have token 1
	text := "# Written by `make golden`: the statements of sql/ that each role could execute on a real server.\n\n"
	for _, verb := range sql.Verbs() {
		line := verb + ":"
		for _, role := range roles {
			if f.mayExecute(w, verb, role) {
				line += " " + role
			}
		}
		text += line + "\n"
	}
	goldentest.Require(t, "../testdata/statements.golden", text)
}

// mayExecute reports whether no statement of the verb was denied, in a transaction that is rolled back.
func (f fixture) mayExecute(w tenant, verb, role string) bool {
	may := true
	for n := range f.arguments(verb, 0, "", "") {
		for _, state := range append(statuses(f), "CLAIMED, and its lease is over") {
			in, tx := f.begin()
			state, over, _ := strings.Cut(state, ", ")
			id := seed(in, w, state, map[bool]time.Duration{true: expired, false: live}[over != ""])
			in.exec("update pgdispatch.settings set retention = '1 minute', dead_letter_retention = '1 minute'")
			args := f.arguments(verb, id, in.execution(id), w.workspace)[n]
			in.exec("set local role pgdispatch_" + role)
			if _, err := in.db.Exec(f.t.Context(), sql.Text(verb), args...); err != nil {
				code := f.pgError(err).Code
				require.Contains(f.t, []string{"42501", "PGD24", "PGD01", "PGD42", "PGD43", "PGD44"}, code,
					"%s as %s: %s", verb, role, err)
				may = code != "42501"
			}
			require.NoError(f.t, tx.Rollback(f.t.Context()))
			f.exec("select pg_advisory_unlock_all()") // on the only connection that the pool has used
			if !may {
				return false
			}
		}
	}
	return true
}
