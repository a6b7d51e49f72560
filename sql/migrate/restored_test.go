package migrate_test

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func defectsOf(t *testing.T, conn *pgx.Conn) (all []string) {
	t.Helper()
	rows := must.Get(conn.Query(t.Context(), sql.CatalogueText())).In(t)
	for _, o := range sql.Defects(must.Get(pgx.CollectRows(rows, pgx.RowToStructByName[sql.Object])).In(t)) {
		all = append(all, o.Kind+" "+o.Name+" "+o.Problem)
	}
	return all
}

// restore restores a dump of a database in an empty one, and returns its URL.
func restore(t *testing.T, from string, flags ...string) (to string) {
	t.Helper()
	to = sqltest.EmptyURL(t)
	bin := sqltest.Shared(t).BinDir
	dump := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_dump"),
		append(flags, "--schema=pgdispatch", "--dbname="+from)...)
	load := exec.CommandContext(t.Context(), filepath.Join(bin, "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", to)
	text, err := dump.Output()
	require.NoError(t, err)
	load.Stdin = strings.NewReader(string(text))
	out, err := load.CombinedOutput()
	require.NoError(t, err, string(out))
	return to
}

func TestDefects_AreNoneInARestoredSchema(t *testing.T) {
	must.Each(t, map[string][]string{
		"plain": nil, "quoted": {"--quote-all-identifiers"}, "schema only": {"--schema-only"},
	}, func(t *testing.T, flags []string) {
		t.Parallel()
		once := restore(t, sqltest.URL(t), flags...)
		require.Empty(t, defectsOf(t, connect(t, once)))
		require.Empty(t, defectsOf(t, connect(t, restore(t, once, flags...))), "nor in a copy of the copy")
	})
}

func TestDefects_AreNoneUnderAnySettingOfTheSession(t *testing.T) {
	t.Parallel()
	address := must.Get(url.Parse(sqltest.URL(t))).In(t)
	query := address.Query()
	for name, value := range map[string]string{"quote_all_identifiers": "on", "standard_conforming_strings": "off",
		"IntervalStyle": "iso_8601", "DateStyle": "German", "TimeZone": "Asia/Kathmandu", "extra_float_digits": "-15",
		"search_path": "pgdispatch"} {
		query.Set(name, value)
	}
	address.RawQuery = query.Encode()
	conn := connect(t, address.String())
	require.Empty(t, defectsOf(t, conn))
	require.Equal(t, "on", read[string](t, conn, "show quote_all_identifiers"), "the session keeps its settings")
}

func TestDefects_FindAConstraintThatMeansSomethingElse(t *testing.T) {
	must.Each(t, map[string]string{
		"another bound":     `check (length(who) between 1 and 201 and who !~ '[[:cntrl:]]')`,
		"a part less":       `check (length(who) between 1 and 200)`,
		"or instead of and": `check (length(who) between 1 and 200 or who !~ '[[:cntrl:]]')`,
		"other brackets":    `check (length(who) >= 1 and (length(who) <= 200 or who !~ '[[:cntrl:]]'))`,
	}, func(t *testing.T, check string) {
		t.Parallel()
		conn := connect(t, sqltest.URL(t))
		execute(t, conn, "alter table pgdispatch.admin_log drop constraint admin_log_who_check, "+
			"add constraint admin_log_who_check "+check)
		require.Equal(t, []string{"constraint admin_log.admin_log_who_check altered"}, defectsOf(t, conn))
	})
}

func TestStatus_NamesASchemaThatWasRestoredWithoutItsData(t *testing.T) {
	t.Parallel()
	conn := connect(t, restore(t, sqltest.URL(t), "--schema-only"))
	const want = "pgdispatch.schema_migrations is empty: the schema was restored without its data: restore the data, " +
		"too, or `drop schema pgdispatch cascade` and `pgdispatch migrate up`"
	_, err := migrate.Status(t.Context(), conn)
	require.EqualError(t, err, want)
	require.EqualError(t, migrate.Up(t.Context(), conn, nil), want)
}

func TestDefects_CompareTheBracketsThatBind(t *testing.T) {
	t.Parallel()
	const (
		name  = "workflow_executions.a_status_has_what_belongs_to_it"
		is    = "((finished_at IS NULL) AND ((status = 'STARTING'::text) OR (started_at IS NOT NULL)))"
		other = "(((finished_at IS NULL) AND (status = 'STARTING'::text)) OR (started_at IS NOT NULL))"
		same  = "(((finished_at IS NULL)) AND (((status = 'STARTING'::text) OR (started_at IS NOT NULL))))"
	)
	for definition, want := range map[string]int{is: 0, same: 0, other: 1} {
		found := sql.Catalogue()
		n := slices.IndexFunc(found, func(o sql.Object) bool { return o.Name == name })
		require.Contains(t, found[n].Definition, is)
		found[n].Definition = strings.Replace(found[n].Definition, is, definition, 1)
		require.Len(t, sql.Defects(found), want, definition)
	}
}
