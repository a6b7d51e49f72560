package e2e

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate/doctor"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// sessionSettings are the settings of a role or a database that change what a statement means, how a value is written,
// or what ends a session. Those that only a superuser may set are among them: a database can have them as well.
var sessionSettings = map[string][]string{
	"how values are written": {"client_encoding = LATIN1", "client_encoding = SQL_ASCII", "DateStyle = 'German, DMY'",
		"DateStyle = 'SQL, DMY'", "DateStyle = 'Postgres, MDY'", "IntervalStyle = iso_8601",
		"IntervalStyle = sql_standard", "IntervalStyle = postgres_verbose", "TimeZone = 'Asia/Kathmandu'",
		"timezone_abbreviations = 'Australia'", "extra_float_digits = -15", "bytea_output = escape", "xmlbinary = hex",
		"quote_all_identifiers = on"},
	"how a statement is read": {"standard_conforming_strings = off", "backslash_quote = off",
		"escape_string_warning = off", "transform_null_equals = on", "array_nulls = off", "search_path = ''",
		"row_security = off", "plpgsql.variable_conflict = use_variable", "plpgsql.extra_errors = 'all'"},
	"how a transaction runs": {"default_transaction_isolation = serializable",
		"default_transaction_isolation = 'repeatable read'", "default_transaction_deferrable = on",
		"synchronous_commit = off"},
	"how it is planned": {"plan_cache_mode = force_custom_plan", "enable_indexscan = off", "enable_nestloop = off",
		"enable_seqscan = off", "jit_above_cost = 0", "gin_fuzzy_search_limit = 1"},
	"what ends it": {"statement_timeout = '2s'", "lock_timeout = '20ms'", "idle_in_transaction_session_timeout = '1s'",
		"idle_session_timeout = '500ms'", "exit_on_error = on"},
	"what a client is told": {"client_min_messages = error", "client_min_messages = debug1"},
}

// settingsOfDatabases returns the databases of the test, by name. There is one for each setting, or, unless the test
// may take minutes, one for each of the groups in which the most has failed, with the first setting of each name.
func settingsOfDatabases() map[string][]string {
	databases := map[string][]string{}
	if os.Getenv("PGDISPATCH_LONG") != "" {
		for _, settings := range sessionSettings {
			for _, setting := range settings {
				databases[setting] = []string{setting}
			}
		}
		return databases
	}

	for _, group := range []string{"how values are written", "how a statement is read", "how a transaction runs"} {
		named := map[string]bool{}
		for _, setting := range sessionSettings[group] {
			if name, _, _ := strings.Cut(setting, " "); !named[name] {
				named[name] = true
				databases[group] = append(databases[group], setting)
			}
		}
	}
	return databases
}

// sixtyItems is how many items of Echo each catalogue entry starts: a half directly, and a half through PgBouncer.
const sixtyItems = 60

func TestSettings_OfTheDatabaseChangeNothing(t *testing.T) {
	t.Parallel()
	for name, settings := range settingsOfDatabases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := sqltest.EmptyURL(t)
			for _, setting := range settings {
				set(t, address, setting)
			}
			d := &desk{t: t, url: address}
			requireCommands(t, d)

			s := newStackOn(t, ofApplication(t, address))
			s.url = address
			const greeting = `{"greeting": "Grüße, 世界 🚀", "quote": "\\ ' \" {NULL}"}`
			starts := func(through string, variables ...string) {
				p := s.replica(append(variables, "DATABASE_URL="+through)...)
				executions := s.enqueueWith(greeting, sixtyItems/2)
				failed := s.enqueue("PRO", "Fail", 1)[0]
				s.eventually(func() bool {
					return !p.Running() || s.statusOf(failed) == "FAILED" && sixtyItems/2 == one[int](s,
						`select count(*)::int from pgdispatch.workflow_execution_queue
						where status = 'COMPLETED' and execution_id = any ($1::text[]::uuid[])`, executions)
				}, "all are started and end: %s", through)
				require.True(t, p.Running(), p.Tail())
				var got input
				workflow := s.client.GetWorkflow(context.Background(), "execution-"+executions[0], "")
				require.NoError(t, workflow.Get(context.Background(), &got))
				require.JSONEq(t, greeting, string(got.Params))
				require.True(t, one[bool](s, `select result->'params' = $2::text::jsonb from pgdispatch.workflow_executions
					where id = $1`, executions[0], greeting))
				require.NoError(t, p.Signal(syscall.SIGTERM))
				require.Zero(t, p.exit(), p.Tail())
				// Behind a pooler, transactions are serializable if that is the default, and are repeated.
				require.NotRegexp(t, `SQLSTATE ([^4]|4[^0])`, p.Log())
			}
			starts(address)
			starts(throughPooler(t, address), "PGDISPATCH_LISTEN=off", "PGDISPATCH_POLL_INTERVAL=200ms")
			requireCommands(t, d)
			d.url = throughPooler(t, address)
			requireCommands(t, d)
		})
	}
}

// enqueueWith inserts items of Echo with params.
func (s *stack) enqueueWith(params string, items int) (executions []string) {
	s.t.Helper()
	return one[[]string](s, `with added as (
			insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
			select d.workspace_id, d.id, $2::text::jsonb from pgdispatch.workflow_definitions d, generate_series(1, $3)
			where d.workspace_id = $1 and d.name = 'Echo' returning execution_id::text)
		select array_agg(execution_id) from added`, s.workspace["ENTERPRISE"], params, items)
}

// set sets a setting of a database.
func set(t testing.TB, address, setting string) {
	t.Helper()
	server := must.Get(url.Parse(address)).In(t)
	database := strings.TrimPrefix(server.Path, "/")
	server.Path = "/postgres"
	must.Get(sqltest.Pool(t, server.String()).Exec(t.Context(), "alter database "+database+" set "+setting)).In(t)
}

// ofApplication returns the URL for an application that is not itself hindered by the settings of its database.
func ofApplication(t testing.TB, address string) string {
	t.Helper()
	server := must.Get(url.Parse(address)).In(t)
	query := server.Query()
	for name, value := range map[string]string{"client_encoding": "UTF8", "statement_timeout": "0", "lock_timeout": "0",
		"idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0"} {
		query.Set(name, value)
	}
	server.RawQuery = query.Encode()
	return server.String()
}

// requireCommands requires that commands of each kind do their work.
func requireCommands(t *testing.T, d *desk) {
	t.Helper()
	for _, args := range [][]string{
		{"migrate", "up"}, {"migrate", "status"}, {"settings", "set", "max-claims", "40"}, {"settings", "get"},
		{"status", "--output", "json"}, {"items", "list", "--output", "json"}, {"dead", "list"},
		{"workspaces", "list"}, {"definitions", "list"}, {"limits", "list"}, {"audit", "list"},
	} {
		out, errs, code := d.tries(args...)
		require.Zero(t, code, "%q: %s", args, errs)
		if args[len(args)-1] == "json" {
			require.True(t, json.Valid([]byte(out)), "%q: %s", args, out)
		}
	}
	found, _ := d.diagnosis("--temporal-address", nowhere)
	for name, finding := range found {
		require.NotEqual(t, doctor.Unknown, finding.Severity, "%s: %v", name, finding)
	}
	require.Equal(t, doctor.Fine, found["schema objects"].Severity, "%v", found["schema objects"])
}
