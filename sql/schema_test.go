package sql_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/goldentest"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// catalogue describes the schema, one sorted line per object. The migrations' own table is left out, and so are
// not-null constraints, which only newer servers list as such.
const catalogue = `
with relation as (
    select c.oid, c.relname, c.relkind, c.reloptions from pg_class c
    where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'v', 'S') and c.relname <>
	'schema_migrations'
), line (text) as (
    select concat_ws(' ', case relkind when 'r' then 'table' when 'v' then 'view' else 'sequence' end, relname,
        'with ' || nullif(array_to_string(array(select o from unnest(reloptions) o order by o), ', '), ''))
    from relation
    union all
    select concat_ws(' ', 'column', r.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod),
        case when a.attnotnull then 'not null' end,
        case a.attidentity when 'a' then 'identity' end,
        case a.attgenerated when 's' then 'generated' when '' then 'default' end || ' '
        	|| pg_get_expr(d.adbin, d.adrelid))
    from relation r
    join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = r.oid and d.adnum = a.attnum
    where r.relkind <> 'S'
    union all
    select concat_ws(' ', 'constraint', r.relname || '.' || quote_ident(k.conname), pg_get_constraintdef(k.oid))
    from relation r join pg_constraint k on k.conrelid = r.oid and k.contype <> 'n'
    union all
    select concat_ws(' ', 'index', r.relname || '.' || x.indexrelid::regclass, pg_get_indexdef(x.indexrelid))
    from relation r join pg_index x on x.indrelid = r.oid
    union all
    select concat_ws(' ', 'trigger', r.relname || '.' || t.tgname, pg_get_triggerdef(t.oid))
    from relation r join pg_trigger t on t.tgrelid = r.oid and not t.tgisinternal
    union all
    select concat_ws(' ', 'function', p.proname || '(' || pg_get_function_arguments(p.oid)
    	|| ')', 'returns', pg_get_function_result(p.oid),
        case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end, case when p.prosecdef
        	then 'security definer' end,
        'set ' || array_to_string(p.proconfig, ', '))
    from pg_proc p where p.pronamespace = 'pgdispatch'::regnamespace
)
select regexp_replace(text, '\s+', ' ', 'g') from line order by text collate "C"`

// bodies describes what catalogue omits for brevity.
const bodies = `
select pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace = 'pgdispatch'::regnamespace
union all
select pg_get_viewdef(c.oid) from pg_class c where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind = 'v'
union all
select obj_description(c.oid) from pg_class c where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind = 'v'
union all
select t::text from pgdispatch.workspace_tiers t
union all
select s::text from pgdispatch.settings s
order by 1`

func TestSchemaIsWhatItsGoldenFileSays(t *testing.T) {
	f := open(t)
	goldentest.Require(t, "../testdata/schema.golden", strings.Join(all[string](f, catalogue), "\n")+"\n")
}

func TestTheCatalogueThatDoctorComparesIsThatOfTheSchema(t *testing.T) {
	f := open(t)
	lines := ""
	for _, o := range rowsOf[sql.Object](f, sql.Text("doctor_catalogue")) {
		require.Empty(t, o.Problem, o.Name)
		lines += o.Kind + "\t" + o.Name + "\t" + o.Definition + "\n"
	}
	goldentest.Require(t, "schema/catalogue.golden", lines)
}

func TestDownAndUpAgainGivesTheSameSchema(t *testing.T) {
	f := open(t)
	before := append(all[string](f, catalogue), all[string](f, bodies)...)
	conn := connect(t, f.pool.Config().ConnString(), nil)
	require.NoError(t, migrate.To(t.Context(), conn, 0, nil))
	require.Empty(t, all[string](f, catalogue), "no object is left at version 0")
	require.NoError(t, migrate.Up(t.Context(), conn, nil))
	require.Equal(t, before, append(all[string](f, catalogue), all[string](f, bodies)...))
}

func TestDownGoesThroughEveryVersion(t *testing.T) {
	t.Parallel()
	conn := connect(t, sqltest.EmptyURL(t), nil)
	f := fixture{t: t, db: conn}
	// Functions and triggers are of the newest version, and stay until version 0.
	migrated := func() []string {
		return slices.DeleteFunc(all[string](f, catalogue), func(line string) bool {
			return strings.HasPrefix(line, "function ") || strings.HasPrefix(line, "trigger ")
		})
	}
	seen := [][]string{}
	for version := range migrate.Newest() + 1 {
		require.NoError(t, migrate.To(t.Context(), conn, version, nil))
		seen = append(seen, migrated())
	}
	for version := migrate.Newest(); version >= 0; version-- {
		require.NoError(t, migrate.To(t.Context(), conn, version, nil))
		require.Equal(t, seen[version], migrated(), "version %d", version)
	}
	require.Empty(t, all[string](f, catalogue))
}

func TestTiersAreSeeded(t *testing.T) {
	f := open(t)
	require.Equal(t, []string{"(FREE,1,)", "(PRO,5,)", "(ENTERPRISE,20,)"},
		all[string](f, "select t::text from pgdispatch.workspace_tiers t order by max_concurrent_workflows"))
	require.Equal(t, "(t,100,f,00:01:00,,,4096,f,255)", one[string](f, "select s::text from pgdispatch.settings s"))
}

// The invariants of each state are a constraint, so that no statement or trigger can violate them.
func TestEveryStateHasConstraintsThatHoldIt(t *testing.T) {
	f, w := openFor(t, "FREE")
	for state, sets := range map[string][]string{
		"PENDING": {"claimed_by = 'x', lease_expires_at = now()", "claimed_at = now()", "dispatched_at = now()",
			"finished_at = now()"},
		"CLAIMED":    {"claimed_by = null", "lease_expires_at = null", "claimed_at = null", "dispatched_at = now()"},
		"DISPATCHED": {"claimed_by = 'x'", "dispatched_at = null", "outcome_unknown = true", "status = 'LOST'"},
		"COMPLETED":  {"dispatched_at = null", "finished_at = null", "lease_expires_at = now()"},
		"FAILED":     {"last_error = null", "finished_at = null", "outcome_unknown = true"},
		"CANCELLED":  {"finished_at = null", "dispatched_at = now()", "claimed_by = 'x'"},
	} {
		for _, set := range sets {
			in, tx := f.begin()
			id := seed(in, w, state, live)
			in.exec("set local session_replication_role = replica")
			code := map[bool]string{true: "PGD07", false: "PGD27"}[state == "PENDING"]
			refusal := in.refusedAs(code, "", "update pgdispatch.workflow_execution_queue set "+set+" where id = $1", id)
			require.Equal(t, "a_status_has_what_belongs_to_it", refusal.ConstraintName, "%s with %s", state, set)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
}

func TestEveryExecutionStateHasConstraintsThatHoldIt(t *testing.T) {
	f := open(t)
	const insert = `insert into pgdispatch.workflow_executions
		(id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, status, started_at,
			finished_at)
		values (gen_random_uuid(), 1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), $1, $2::text::timestamptz,
			$3::text::timestamptz)`
	for _, row := range [][3]any{ // with its start and its end
		{"STARTING", nil, "now"}, {"RUNNING", nil, nil}, {"RUNNING", "now", "now"}, {"COMPLETED", "now", nil},
		{"FAILED", nil, nil}, {"CANCELED", nil, nil}, {"TERMINATED", "now", nil}, {"TIMED_OUT", "now", nil},
		{"CANCELLED", nil, "now"},
	} {
		require.Equal(t, "a_status_has_what_belongs_to_it", f.refused(insert, row[:]...).ConstraintName, row)
	}
}
