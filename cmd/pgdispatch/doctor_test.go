package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// nowhere is an address at which nothing answers.
const nowhere = "127.0.0.1:1"

// diagnosis is what doctor has found, by check.
func (d *desk) diagnosis(args ...string) (found map[string]finding, code int) {
	d.t.Helper()
	out, _, code := d.tries(append([]string{"doctor", "--output", "json"}, args...)...)
	var answer struct{ Findings []finding }
	require.NoError(d.t, json.Unmarshal([]byte(out), &answer), out)
	found = map[string]finding{}
	for _, f := range answer.Findings {
		require.NotContains(d.t, found, f.Check, "one finding a check")
		found[f.Check] = f
		require.Equal(d.t, f.Severity == fine, f.Meaning == "" && f.Remedy == "", "%v: what is not fine has a meaning and a remedy", f)
	}
	return found, code
}

// doctorChecks are all there are.
var doctorChecks = []string{
	"autovacuum", "clocks", "connections", "database", "definitions", "durability", "encoding", "encryption", "listen", "migrations", "namespace",
	"notification queue", "postgres version", "replicas", "retention", "role", "settings of roles", "synchronous_commit", "tables", "task queues",
	"temporal", "timeouts", "transactions", "triggers", "vacuum horizon",
}

func TestDoctorFindsNothingWrongWithAWholeStack(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	d := &desk{t: t, url: s.url, db: s.db}
	args := []string{"--temporal-address", s.temporal}
	var found map[string]finding
	s.eventually(func() bool {
		found, _ = d.diagnosis(args...)
		return found["task queues"].Severity == fine && found["replicas"].Severity == fine
	}, "the worker has polled, the replica has said that it lives")
	bad := []string{}
	for check, f := range found {
		if f.Severity != fine {
			bad = append(bad, check)
		}
	}
	// The tests' cluster may lose everything, so that it is quick, and has a superuser only; and Temporal's test server forgets soon.
	slices.Sort(bad)
	require.Subset(t, []string{"connections", "durability", "retention", "role", "vacuum horizon"}, bad, "%v", found)
	require.Equal(t, doctorChecks, slices.Sorted(maps.Keys(found)))
	out, errs, code := d.tries(append([]string{"doctor"}, args...)...)
	require.Equal(t, exitProblems, code)
	require.Equal(t, "pgdispatch: problems were found: each says what to do\n", errs)
	require.Regexp(t, `(?m)^OK +triggers +all there, all enabled$`, out)
	require.Regexp(t, `(?m)^ERROR +durability +fsync.* off\n +meaning: A crash .*\n +remedy: Set fsync.* to on in postgresql.conf, and reload\.$`, out)
	require.Regexp(t, `\n\n\d+ fine, \d+ warnings, 1 errors, 0 could not be found out\n$`, out)
}

func TestDoctorSaysWhatIsWrongWithTemporal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	found, code := d.diagnosis("--temporal-address", nowhere)
	require.Equal(t, exitProblems, code)
	require.Equal(t, problem, found["temporal"].Severity)
	require.NotContains(t, found, "namespace")

	found, code = d.diagnosis("--temporal-address", temporalAddress(t), "--temporal-namespace", "nobody")
	require.Equal(t, exitProblems, code)
	require.Equal(t, `Temporal has no namespace "nobody"`, found["namespace"].Finding)

	found, _ = d.diagnosis("--temporal-address", temporalAddress(t), "--temporal-namespace", "default")
	require.Equal(t, fine, found["namespace"].Severity)
	require.Equal(t, warning, found["task queues"].Severity)
	require.Equal(t, "no worker has polled 1 of 1 within minutes: orders", found["task queues"].Finding)
}

func TestDoctorLooksAtEveryNamespace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue, namespace)
		values ($1, 'elsewhere', 'Order', 'orders', 'nobody')`, d.workspace)
	found, code := d.diagnosis("--temporal-address", temporalAddress(t), "--temporal-namespace", "default")
	require.Equal(t, exitProblems, code)
	require.Equal(t, fine, found["namespace (default)"].Severity)
	require.Equal(t, "no worker has polled 1 of 1 within minutes: orders", found["task queues (default)"].Finding)
	require.Equal(t, problem, found["namespace (nobody)"].Severity)
	require.Contains(t, found["namespace (nobody)"].Remedy, "pgdispatch.workflow_definitions.namespace")
	require.NotContains(t, found, "retention (nobody)")

	d.exec("update pgdispatch.workflow_definitions set namespace = 'nobody'")
	found, _ = d.diagnosis("--temporal-address", temporalAddress(t), "--temporal-namespace", "unused")
	require.Equal(t, `Temporal has no namespace "nobody"`, found["namespace"].Finding, "one that no definition means is not asked for")
}

func TestDoctorLooksAtRetentionConservatively(t *testing.T) {
	t.Parallel()
	three, hundred := []claim.TaskQueue{{MaxAttempts: 1}, {MaxAttempts: 3}}, []claim.TaskQueue{{MaxAttempts: 100}}
	for _, row := range []struct {
		keeps  time.Duration
		queues []claim.TaskQueue
		want   severity
	}{
		{72 * time.Hour, three, fine}, {24 * time.Hour, three, fine}, {23 * time.Hour, three, warning}, {17 * time.Minute, three, problem},
		{24 * time.Hour, hundred, fine}, {19 * time.Hour, hundred, warning}, {9 * time.Hour, hundred, problem}, {72 * time.Hour, nil, fine},
		{0, three, unknown},
	} {
		require.Equal(t, row.want, checkRetention(row.keeps, row.queues).Severity, "%s", row.keeps)
	}
}

func TestDoctorSaysWhatIsWrongWithTheDatabase(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec("alter table pgdispatch.workflow_execution_queue disable trigger item_enqueued")
	d.exec("drop trigger settings_changed on pgdispatch.settings")
	d.exec("alter table pgdispatch.workspaces enable replica trigger workspace_deleted")
	d.exec("alter table pgdispatch.rates reset (fillfactor), set (autovacuum_enabled = off)")
	d.exec("alter table pgdispatch.marks reset (autovacuum_vacuum_threshold)")
	d.exec("delete from pgdispatch.workflow_definition_versions")
	d.exec("insert into pgdispatch.replicas (id, version, workers, expires_at) values ('dead', 'v1', 1, now() - interval '2 hours')")
	d.exec("do $$ begin execute format('alter role current_user in database %I set synchronous_commit = off', current_database()); end $$")
	d.exec("do $$ begin execute format('alter role current_user in database %I set statement_timeout = ''5s''', current_database()); end $$")
	found, code := d.diagnosis("--temporal-address", nowhere)
	require.Equal(t, exitProblems, code)
	for check, want := range map[string]finding{
		"triggers":           {Severity: problem, Finding: "settings.settings_changed: missing; workflow_execution_queue.item_enqueued: disabled; workspaces.workspace_deleted: fires for replication only"},
		"tables":             {Severity: warning, Finding: "marks: it has lost autovacuum_vacuum_threshold=1000; rates: autovacuum is off for it"},
		"definitions":        {Severity: warning, Finding: "1 of 1 have no version"},
		"replicas":           {Severity: warning, Finding: "no replica runs; dead has been dead for 2h0m0s"},
		"synchronous_commit": {Severity: warning, Finding: "synchronous_commit is off by default"},
		"migrations":         {Severity: fine, Finding: fmt.Sprintf("version %d, the newest", migrate.Newest())},
	} {
		require.Equal(t, want.Severity, found[check].Severity, check)
		require.Equal(t, want.Finding, found[check].Finding, check)
	}
	require.Contains(t, found["timeouts"].Finding, "statement_timeout is 5s")
	require.Contains(t, found["settings of roles"].Finding, "synchronous_commit=off")
}

// What doctor expects is what the migrations make: neither a trigger nor a table is left out of its lists.
func TestDoctorKnowsEveryTriggerAndEveryTable(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	store := &claim.Store{Pool: d.db}
	for _, bad := range []func(context.Context) ([]claim.Defect, error){store.BadTriggers, store.BadTables} {
		defects, err := bad(t.Context())
		require.NoError(t, err)
		require.Empty(t, defects)
	}
	const triggers = "select string_agg(tgrelid::regclass || '.' || tgname, ',' order by tgrelid::regclass || '.' || tgname collate \"C\") from pg_trigger where not tgisinternal"
	const tables = "select string_agg(relname, ',' order by relname collate \"C\") from pg_class where relkind = 'r' and relnamespace = 'pgdispatch'::regnamespace and reloptions is not null"
	allTriggers, allTables := strings.ReplaceAll(d.value(triggers), "pgdispatch.", ""), d.value(tables)
	d.exec(`do $$ declare r record; begin
		drop trigger enqueue_item on pgdispatch.enqueue; -- a view's cannot be disabled
		for r in select tgrelid::regclass as relation, tgname from pg_trigger where not tgisinternal loop
			execute format('alter table %s disable trigger %I', r.relation, r.tgname);
		end loop;
		for r in select c.oid::regclass as relation, (select string_agg(split_part(o, '=', 1), ',') from unnest(c.reloptions) o) as options
				from pg_class c where relkind = 'r' and relnamespace = 'pgdispatch'::regnamespace and reloptions is not null loop
			execute format('alter table %s reset (%s)', r.relation, r.options);
		end loop; end $$`)
	names := func(defects []claim.Defect, err error) string {
		require.NoError(t, err)
		list := []string{}
		for _, defect := range defects {
			list = append(list, defect.Name)
		}
		slices.Sort(list)
		return strings.Join(list, ",")
	}
	require.Equal(t, allTriggers, names(store.BadTriggers(t.Context())))
	require.Equal(t, allTables, names(store.BadTables(t.Context())))
}

func TestDoctorJudgesServers(t *testing.T) {
	t.Parallel()
	good := func() claim.Server {
		return claim.Server{Version: 160004, VersionText: "16.4", Encoding: "UTF8", Role: "app", SeesAll: true, Connections: 10, ConnectionsAllowed: 97,
			Settings: map[string]string{"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "autovacuum": "on", "track_counts": "on",
				"statement_timeout": "0", "lock_timeout": "0", "idle_session_timeout": "0", "default_transaction_read_only": "off", "session_replication_role": "origin"}}
	}
	for _, f := range checkServer(good()) {
		require.Equal(t, fine, f.Severity, "%v", f)
	}
	for _, row := range []struct {
		check   string
		want    severity
		finding string
		ail     func(*claim.Server)
	}{
		{"postgres version", problem, "13.9", func(s *claim.Server) { s.Version, s.VersionText = 130009, "13.9" }},
		{"postgres version", fine, "14.1", func(s *claim.Server) { s.Version, s.VersionText = 140001, "14.1" }},
		{"postgres version", warning, "19beta1", func(s *claim.Server) { s.Version, s.VersionText = 190000, "19beta1" }},
		{"encoding", problem, "the database's encoding is LATIN1", func(s *claim.Server) { s.Encoding = "LATIN1" }},
		{"durability", problem, "fsync off", func(s *claim.Server) { s.Settings["fsync"] = "off" }},
		{"durability", problem, "full_page_writes off", func(s *claim.Server) { s.Settings["full_page_writes"] = "off" }},
		{"synchronous_commit", warning, "synchronous_commit is off by default", func(s *claim.Server) { s.Settings["synchronous_commit"] = "off" }},
		{"autovacuum", problem, "autovacuum off", func(s *claim.Server) { s.Settings["autovacuum"] = "off" }},
		{"autovacuum", problem, "track_counts off", func(s *claim.Server) { s.Settings["track_counts"] = "off" }},
		{"timeouts", warning, "role app: statement_timeout is 9s", func(s *claim.Server) { s.Settings["statement_timeout"] = "9000" }},
		{"timeouts", fine, "role app has none that would cut off a replica", func(s *claim.Server) { s.Settings["statement_timeout"] = "10000" }},
		{"timeouts", warning, "role app: lock_timeout is 100ms", func(s *claim.Server) { s.Settings["lock_timeout"] = "100" }},
		{"timeouts", warning, "role app: idle_session_timeout is 1h0m0s", func(s *claim.Server) { s.Settings["idle_session_timeout"] = "3600000" }},
		{"timeouts", warning, "role app: transaction_timeout is 1s", func(s *claim.Server) { s.Settings["transaction_timeout"] = "1000" }},
		{"transactions", problem, "default_transaction_read_only is on", func(s *claim.Server) { s.Settings["default_transaction_read_only"] = "on" }},
		{"transactions", problem, "session_replication_role is replica", func(s *claim.Server) { s.Settings["session_replication_role"] = "replica" }},
		{"connections", warning, "86 of 97 are in use", func(s *claim.Server) { s.Connections = 86 }},
		{"connections", fine, "85 of 97 are in use", func(s *claim.Server) { s.Connections = 85 }},
		{"notification queue", fine, "9 % full", func(s *claim.Server) { s.NotifyUsage = 0.09 }},
		{"notification queue", warning, "10 % full", func(s *claim.Server) { s.NotifyUsage = 0.1 }},
		{"notification queue", problem, "60 % full", func(s *claim.Server) { s.NotifyUsage = 0.6 }},
	} {
		server := good()
		row.ail(&server)
		for _, f := range checkServer(server) {
			if f.Check == row.check {
				require.Equal(t, row.want, f.Severity, row.finding)
				require.Equal(t, row.finding, f.Finding)
			} else {
				require.Equal(t, fine, f.Severity, "%s has nothing to do with %v", row.finding, f)
			}
		}
	}
}

func TestDoctorJudgesClocksReplicasAndSchemas(t *testing.T) {
	t.Parallel()
	require.Equal(t, fine, checkClock(2100*time.Millisecond, 100*time.Millisecond).Severity, "as far as the way there and back lets it be known")
	require.Equal(t, "the database's clock differs by -3s from this machine's", checkClock(-3*time.Second, 0).Finding)
	require.Equal(t, fine, checkReplicas([]claim.KnownReplica{{ID: "a", DeadFor: -time.Second}}).Severity)
	require.Equal(t, "they have different namespaces: shop; default", checkReplicas([]claim.KnownReplica{
		{ID: "a", DeadFor: -time.Second, Namespace: "shop"}, {ID: "b", DeadFor: -time.Second, Namespace: "default"},
		{ID: "old", DeadFor: -time.Second}, {ID: "dead", DeadFor: time.Second, Namespace: "third"}}).Finding)
	require.Equal(t, "1 run; b has been dead for 1m0s and holds 2 items and 3 watches",
		checkReplicas([]claim.KnownReplica{{ID: "a", DeadFor: -time.Second}, {ID: "b", DeadFor: time.Minute, Leased: 2, Watching: 3}}).Finding)
	require.Equal(t, problem, checkSchema(migrate.State{Current: 0, Newest: 7}).Severity)
	require.Equal(t, problem, checkSchema(migrate.State{Current: 6, Newest: 7}).Severity)
	require.Equal(t, warning, checkSchema(migrate.State{Current: 8, Newest: 7}).Severity)
	require.Equal(t, warning, checkSchema(migrate.State{Current: 7, Newest: 7, Outdated: []string{"claim"}}).Severity)
	require.Contains(t, checkSchema(migrate.State{Newest: 1, BeforeBaseline: 15}).Remedy, "drop schema")
	hour := time.Hour
	require.Equal(t, unknown, checkPins(nil, false).Severity)
	require.Equal(t, "prepared transaction a (app), for 1h0m0s; replication slot b (logical), nobody knows for how long",
		checkPins([]claim.Pin{{Kind: "prepared transaction", Name: "a", Detail: "app", Age: &hour}, {Kind: "replication slot", Name: "b", Detail: "logical"}}, true).Finding)
}

// Notifications do not go from one database to another: for a listener that is as deaf as behind a transaction pooler.
func TestDoctorSaysThatLISTENDoesNotDeliver(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := checkListen(t.Context(), config{databaseURL: sqltest.URL(t), listen: true}, &claim.Store{Pool: d.db})
	require.Equal(t, problem, f.Severity)
	require.Equal(t, "a notification was not heard within 3s", f.Finding)
	require.Contains(t, f.Remedy, "PGDISPATCH_LISTEN=off")
	found, _ := d.diagnosis("--temporal-address", nowhere, "--listen", "off")
	require.Equal(t, fine, found["listen"].Severity)
}

func TestDoctorExitsWithTwoWhereItCouldNotFindOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.url = "postgres://app:hush@" + nowhere + "/shop"
	out, errs, code := d.tries("doctor", "--temporal-address", temporalAddress(t), "--temporal-namespace", "default")
	require.Equal(t, exitUnknown, code)
	require.Equal(t, "pgdispatch: not everything could be found out\n", errs)
	require.Regexp(t, `(?m)^UNKNOWN +database +connect to Postgres: `, out)
	require.NotContains(t, out+errs, "hush")
	for _, args := range [][]string{{"--output", "xml"}, {"--nonsense"}, {"--listen", "maybe"}, {"--timeout", "x"}} {
		_, errs, code := d.tries(append([]string{"doctor"}, args...)...)
		require.Equal(t, exitUnknown, code, "%v", args)
		require.NotEmpty(t, errs)
	}
}

func TestDoctorsVerdictIsTheWorstFinding(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		severities []severity
		strict     bool
		want       int
	}{
		{[]severity{fine}, true, 0}, {[]severity{fine, warning}, false, 0}, {[]severity{fine, warning}, true, exitProblems},
		{[]severity{unknown, warning}, false, exitUnknown}, {[]severity{unknown, problem}, false, exitProblems},
	} {
		findings := []finding{}
		for _, s := range row.severities {
			findings = append(findings, finding{Severity: s})
		}
		code := 0
		if err := verdict(findings, row.strict); err != nil {
			code = codeOf(err)
		}
		require.Equal(t, row.want, code, "%v", row)
	}
}

func TestDoctorOfAnEmptyDatabaseSaysToMigrate(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, url: sqltest.EmptyURL(t)}
	found, code := d.diagnosis("--temporal-address", nowhere)
	require.Equal(t, exitProblems, code)
	require.Equal(t, "Run `pgdispatch migrate up`.", found["migrations"].Remedy)
	require.NotContains(t, found, "triggers")
}

func TestDoctorSaysWhatItsRoleMayNotSee(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	role := "reader_of_" + d.value("select current_database()::text")
	d.exec("create role " + role + " login")
	t.Cleanup(func() {
		_, err := d.db.Exec(context.Background(), "drop owned by "+role+"; drop role "+role)
		require.NoError(t, err)
	})
	as, err := url.Parse(d.url)
	require.NoError(t, err)
	as.User = url.User(role)
	reader := &desk{t: t, url: as.String()}
	found, _ := reader.diagnosis("--temporal-address", nowhere)
	require.Equal(t, unknown, found["database"].Severity)
	require.Contains(t, found["database"].Finding, "permission denied for schema pgdispatch")

	d.exec("grant usage on schema pgdispatch to " + role + "; grant select on all tables in schema pgdispatch to " + role)
	found, _ = reader.diagnosis("--temporal-address", nowhere)
	require.Equal(t, "reachable as role "+role, found["database"].Finding)
	require.Equal(t, unknown, found["vacuum horizon"].Severity)
	require.Contains(t, found["vacuum horizon"].Remedy, "grant pg_monitor")
	require.Equal(t, fine, found["triggers"].Severity)
	require.Equal(t, fine, found["listen"].Severity)
	d.exec("grant pg_monitor to " + role)
	found, _ = reader.diagnosis("--temporal-address", nowhere)
	require.NotEqual(t, unknown, found["vacuum horizon"].Severity)
}
