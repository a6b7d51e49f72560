package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate/doctor"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// nowhere is an address without a server.
const nowhere = "127.0.0.1:1"

// diagnosis returns doctor's findings by check.
func (d *desk) diagnosis(args ...string) (found map[string]doctor.Finding, code int) {
	d.t.Helper()
	out, _, code := d.tries(append([]string{"doctor", "--output", "json"}, args...)...)
	var answer struct{ Findings []doctor.Finding }
	require.NoError(d.t, json.Unmarshal([]byte(out), &answer), out)
	found = map[string]doctor.Finding{}
	for _, f := range answer.Findings {
		require.NotContains(d.t, found, f.Check, "one finding per check")
		found[f.Check] = f
		require.Equal(d.t, f.Severity == doctor.Fine, f.Meaning == "" && f.Remedy == "",
			"%v: every finding but OK has a meaning and a remedy", f)
	}
	return found, code
}

// doctorChecks lists all checks.
var doctorChecks = []string{
	"autovacuum", "clocks", "connections", "database", "definitions", "durability", "encoding", "encryption", "executions",
	"installation", "limits",
	"listen", "migrations", "namespace",
	"notification queue", "outage", "postgres version", "primaries", "replicas", "retention", "role", "row security",
	"schema objects", "sequences", "settings of roles", "signals", "starts",
	"synchronous_commit",
	"task queues",
	"temporal", "timeouts", "transactions", "vacuum horizon",
}

func TestTroubleshootingLeadsFromEveryCheck(t *testing.T) {
	t.Parallel()
	table := section(t, readPage(t, "docs/troubleshooting.md"), "By doctor's check")
	checks := []string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^|]+)` \\|").FindAllStringSubmatch(table, -1) {
		checks = append(checks, strings.Split(row[1], "`, `")...)
	}
	slices.Sort(checks)
	require.Equal(t, doctorChecks, checks)
}

func TestDoctorFindsNothingWrongWithAWholeStack(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	d := &desk{t: t, url: s.url, db: s.db}
	args := []string{"--temporal-address", s.temporal}
	var found map[string]doctor.Finding
	s.eventually(func() bool {
		found, _ = d.diagnosis(args...)
		return found["task queues"].Severity == doctor.Fine && found["replicas"].Severity == doctor.Fine
	}, "the worker has polled and the replica is present")
	bad := []string{}
	for check, f := range found {
		if f.Severity != doctor.Fine {
			bad = append(bad, check)
		}
	}
	// The test cluster is not durable and has only a superuser, and Temporal's test server has a short retention.
	slices.Sort(bad)
	require.Subset(t, []string{"connections", "durability", "retention", "role", "vacuum horizon"}, bad, "%v", found)
	require.Equal(t, doctorChecks, slices.Sorted(maps.Keys(found)))
	out, errs, code := d.tries(append([]string{"doctor"}, args...)...)
	require.Equal(t, 1, code)
	require.Equal(t, "pgdispatch: problems found: see the remedies\n", errs)
	require.Regexp(t, `(?m)^OK +schema objects +all tables, .* are as this version needs$`, out)
	require.Regexp(t,
		`(?m)^ERROR +durability +fsync.* off\n +meaning: A crash .*\n`+
			` +remedy: Set fsync.* to on in postgresql.conf, and reload\.$`, out)
	require.Regexp(t, `\n\n\d+ ok, \d+ warnings, 1 errors, 0 unknown\n$`, out)
}

func TestDoctorSaysWhatIsWrongWithTemporal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	found, code := d.diagnosis("--temporal-address", nowhere)
	require.Equal(t, 1, code)
	require.Equal(t, doctor.Problem, found["temporal"].Severity)
	require.NotContains(t, found, "namespace")

	found, code = d.diagnosis("--temporal-address", temporalAddress(t), "--temporal-namespace", "nobody")
	require.Equal(t, 1, code)
	require.Equal(t, `Temporal has no namespace "nobody"`, found["namespace"].Finding)

	found, _ = d.diagnosis("--temporal-address", temporalAddress(t), "--temporal-namespace", "default")
	require.Equal(t, doctor.Fine, found["namespace"].Severity)
	require.Equal(t, doctor.Warning, found["task queues"].Severity)
	require.Equal(t, "no worker polls 1 of 1: orders", found["task queues"].Finding)
}

func TestDoctorLooksAtEveryNamespace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue, namespace)
		values ($1, 'elsewhere', 'Order', 'orders', 'nobody')`, d.workspace)
	found, code := d.diagnosis("--temporal-address", temporalAddress(t), "--temporal-namespace", "default")
	require.Equal(t, 1, code)
	require.Equal(t, doctor.Fine, found["namespace (default)"].Severity)
	require.Equal(t, "no worker polls 1 of 1: orders", found["task queues (default)"].Finding)
	require.Equal(t, doctor.Problem, found["namespace (nobody)"].Severity)
	require.Contains(t, found["namespace (nobody)"].Remedy, "pgdispatch.workflow_definitions.namespace")
	require.NotContains(t, found, "retention (nobody)")

	d.exec("update pgdispatch.workflow_definitions set namespace = 'nobody'")
	found, _ = d.diagnosis("--temporal-address", temporalAddress(t), "--temporal-namespace", "unused")
	require.Equal(t, `Temporal has no namespace "nobody"`, found["namespace (nobody)"].Finding)
	require.Equal(t, `Temporal has no namespace "unused"`, found["namespace (unused)"].Finding,
		"that of the replicas is checked even if all definitions name others, because replicas are not ready without it")
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
	d.exec("insert into pgdispatch.replicas (id, version, workers, expires_at) " +
		"values ('dead', 'v1', 1, now() - interval '2 hours')")
	d.exec("do $$ begin execute format('alter role current_user in database %I set synchronous_commit = off', " +
		"current_database()); end $$")
	d.exec("do $$ begin execute format('alter role current_user in database %I set statement_timeout = ''5s''', " +
		"current_database()); end $$")
	found, code := d.diagnosis("--temporal-address", nowhere)
	require.Equal(t, 1, code)
	for check, want := range map[string]doctor.Finding{
		"schema objects": {Severity: doctor.Problem,
			Finding: "setting marks.autovacuum_vacuum_threshold is missing; setting rates.fillfactor is missing; " +
				"table rates is without autovacuum; trigger settings.settings_changed is missing; " +
				"trigger workflow_execution_queue.item_enqueued is disabled; and 1 more"},
		"definitions":        {Severity: doctor.Warning, Finding: "1 of 1 have no version"},
		"replicas":           {Severity: doctor.Warning, Finding: "no replica runs; dead died 2h0m0s ago"},
		"synchronous_commit": {Severity: doctor.Warning, Finding: "synchronous_commit is off by default"},
		"migrations":         {Severity: doctor.Fine, Finding: fmt.Sprintf("version %d, up to date", migrate.Newest())},
	} {
		require.Equal(t, want.Severity, found[check].Severity, check)
		require.Equal(t, want.Finding, found[check].Finding, check)
	}
	require.Equal(t, "Run `pgdispatch migrate up`, which makes missing indexes, triggers and functions anew, and "+
		"restores defaults. Repair by hand: alter table pgdispatch.marks set (autovacuum_vacuum_threshold = 1000); "+
		"alter table pgdispatch.rates set (fillfactor = 50); alter table pgdispatch.rates reset (autovacuum_enabled).",
		found["schema objects"].Remedy)
	require.Contains(t, found["timeouts"].Finding, "statement_timeout is 5s")
	require.Contains(t, found["settings of roles"].Finding, "synchronous_commit=off")
}

// Notifications do not cross databases, so this listener receives none, as behind a transaction pooler.
func TestDoctorSaysThatLISTENDoesNotDeliver(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	found, _ := d.diagnosis("--temporal-address", nowhere, "--listen", "off")
	require.Equal(t, doctor.Fine, found["listen"].Severity)
}

func TestDoctorExitsWithTwoWhereItCouldNotFindOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.url = "postgres://app:hush@" + nowhere + "/shop"
	out, errs, code := d.tries("doctor", "--temporal-address", temporalAddress(t), "--temporal-namespace", "default")
	require.Equal(t, 2, code)
	require.Equal(t, "pgdispatch: some checks could not be made\n", errs)
	require.Regexp(t, `(?m)^\d+ ok, \d+ warnings, \d+ errors, \d+ unknown$`, out)
	require.Regexp(t, `(?m)^UNKNOWN +database +connection refused: cannot connect to \S+ \(\S+\) as "app", database`, out)
	require.NotContains(t, out+errs, "hush")
	for _, args := range [][]string{{"--output", "xml"}, {"--nonsense"}, {"--listen", "maybe"}, {"--timeout", "x"}} {
		_, errs, code := d.tries(append([]string{"doctor"}, args...)...)
		require.Equal(t, 2, code, "%v", args)
		require.NotEmpty(t, errs)
	}
}

func TestDoctorOfAnEmptyDatabaseSaysToMigrate(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, url: sqltest.EmptyURL(t)}
	found, code := d.diagnosis("--temporal-address", nowhere)
	require.Equal(t, 1, code)
	require.Equal(t, "Run `pgdispatch migrate up`.", found["migrations"].Remedy)
	require.NotContains(t, found, "schema objects")
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
	require.Equal(t, doctor.Unknown, found["database"].Severity)
	require.Contains(t, found["database"].Finding, "permission denied for schema pgdispatch")

	d.exec("grant usage on schema pgdispatch to " + role + "; grant select on all tables in schema pgdispatch to " + role)
	found, _ = reader.diagnosis("--temporal-address", nowhere)
	require.Equal(t, "reachable as role "+role, found["database"].Finding)
	require.Equal(t, doctor.Unknown, found["vacuum horizon"].Severity)
	require.Contains(t, found["vacuum horizon"].Remedy, "grant pg_monitor")
	require.Equal(t, doctor.Fine, found["schema objects"].Severity)
	require.Equal(t, doctor.Fine, found["listen"].Severity)
	d.exec("grant pg_monitor to " + role)
	found, _ = reader.diagnosis("--temporal-address", nowhere)
	require.NotEqual(t, doctor.Unknown, found["vacuum horizon"].Severity)
}
