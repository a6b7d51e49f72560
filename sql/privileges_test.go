package sql_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/goldentest"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

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
		golden := must(os.ReadFile(filepath.Join("..", "testdata", "privileges.golden"))).in(t)
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
	address := must(url.Parse(sqltest.Login(t, f.pool.Config().ConnString(), ""))).in(t)
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
	require.False(t,
		one[bool](f,
			"select rolcanlogin or rolsuper or rolcreaterole or rolbypassrls from pg_roles where rolname = 'pgdispatch_owner'"))
}

// Executes every statement of the product as each role, on items in every state.
func TestEveryRoleExecutesTheStatementsOfTheGoldenFile(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.exec("select setval('pgdispatch.lease_tokens', 1000)") // seeded items have the token 1
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
