package sql_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

// badRow is a row as a client's text, column by column, and its error. The error's message begins with the text here.
type badRow struct {
	name, columns, values string
	code, message, hint   string
}

const nobody = "00000000-0000-4000-8000-000000000000"

// badRows: @workspace, @definition and @foreign stand for the fixture's IDs.
var badRows = []badRow{
	{"unknown workspace", "workspace_id, workflow_definition_id", "'" + nobody + "', @definition",
		"PGD01", "workspace " + nobody + " does not exist", "Insert it into pgdispatch.workspaces first"},
	{"unknown definition", "workspace_id, workflow_definition_id", "@workspace, '" + nobody + "'",
		"PGD02", "workflow definition " + nobody + " does not exist", "Insert it into pgdispatch.workflow_definitions first"},
	{"definition of another workspace", "workspace_id, workflow_definition_id", "@workspace, @foreign",
		"PGD03", "workflow definition ", "Use a definition of this workspace."},
	{"no workspace", "workspace_id, workflow_definition_id", "null, @definition", "23502", "", ""},
	{"no definition", "workspace_id, workflow_definition_id", "@workspace, null", "23502", "", ""},
	{"a workspace that is not a UUID", "workspace_id, workflow_definition_id", "'acme', @definition", "22P02", "", ""},

	with("params an array", "params", "'[1]'", "PGD04", "params must be a JSON object, not array", "Wrap the value"),
	with("params a string", "params", `'"x"'`, "PGD04", "params must be a JSON object, not string", "Wrap the value"),
	with("params a number", "params", "'1'", "PGD04", "params must be a JSON object, not number", "Wrap the value"),
	with("params the JSON null", "params", "'null'", "PGD04", "params must be a JSON object, not null", "Wrap the value"),
	with("params the SQL null", "params", "null", "23502", "", ""),
	with("params one byte too large", "params", "jsonb_build_object('a', repeat('x', 1966080 - 8))",
		"PGD05", "params has 1966081 bytes as text, which exceeds the limit of 1966080", "Store the value elsewhere"),
	with("params large by numbers alone", "params", "('{\"a\": [' || repeat('1e131000,', 16) || '1]}')::jsonb", "PGD05",
		"params has 2096", "Store the value elsewhere"),
	with("params with a NUL", "params", `'{"a": "\u0000"}'`, "22P05", "", ""),
	with("params with a lone surrogate", "params", `'{"a": "\ud800"}'`, "22P02", "", ""),
	with("params nested 20,000 deep", "params", "(repeat('{\"a\":', 20000) || '1' || repeat('}', 20000))::jsonb", "54001",
		"", ""),
	with("params with NaN", "params", `'{"a": NaN}'`, "22P02", "", ""),
	with("params cut off", "params", `'{"a": '`, "22P02", "", ""),

	with("priority above", "priority", "101", "PGD06", "priority 101 is out of range: it must be between -100 and 100",
		"Higher priorities run first"),
	with("priority below", "priority", "-101", "PGD06", "priority -101 is out of range: it must be between -100 and 100",
		"Higher priorities run first"),
	with("priority absurd", "priority", "2147483647", "PGD06", "priority 2147483647", "Higher priorities run first"),
	with("priority beyond an integer", "priority", "9999999999", "22003", "", ""),
	with("priority NaN", "priority", "'NaN'", "22P02", "", ""),
	with("priority null", "priority", "null", "23502", "", ""),

	with("run_at infinity", "run_at", "'infinity'", "PGD08", "run_at infinity is out of range: it must be",
		"Omit run_at to run immediately."),
	with("run_at minus infinity", "run_at", "'-infinity'", "PGD08", "run_at -infinity is out of range: it must be",
		"Omit run_at"),
	with("run_at the last year there is", "run_at", "'294276-12-31 00:00Z'", "PGD08", "run_at 294276-12-31",
		"Omit run_at"),
	with("run_at the first year there is", "run_at", "'4713-01-01 00:00Z BC'", "PGD08", "run_at 4713-01-01",
		"Omit run_at"),
	with("run_at beyond", "run_at", "'294277-01-01'", "22008", "", ""),
	with("run_at null", "run_at", "null", "23502", "", ""),

	owned("status", "'CLAIMED'"), owned("status", "'COMPLETED'"), owned("status", "'NONSENSE'"), owned("status", "''"),
	claimed("claimed_by", "'me'"), claimed("claimed_at", "now()"), claimed("lease_expires_at", "'infinity'"),
	claimed("dispatched_at", "now()"),
	claimed("finished_at", "now()"), owned("lease_token", "9"), owned("attempt_count", "-1"), owned("failure_count", "1"),
	owned("lost_lease_count", "3"), owned("last_error", "''"),
	owned("created_at", "'1970-01-01'"), owned("created_at", "'infinity'"),
	owned("outcome_unknown", "true"), owned("replay_of", "17"), owned("enqueue_xid", "'3'"),
	owned("enqueue_xid", "'9223372036854775807'"),
	with("status null", "status", "null", "PGD27", "", ""),
	with("an ID of one's own", "id", "7", "428C9", "", ""),
	with("execution_id null", "execution_id", "null", "23502", "", ""),

	with("idempotency key empty", "idempotency_key", "''", "PGD09",
		"idempotency_key has 0 characters: it must have 1 to 200", "Omit it"),
	with("idempotency key too long", "idempotency_key", "repeat('x', 201)", "PGD09", "idempotency_key has 201 characters",
		"Omit it, or use a hash"),
	with("idempotency key of 6 kB", "idempotency_key", "repeat('x', 6000)", "PGD09", "idempotency_key has 6000 characters",
		"Omit it"),
	with("traceparent in upper case", "traceparent", "'00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01'",
		"PGD10", "traceparent is not a valid W3C trace context", "Use 00-"),
	with("traceparent with a line feed", "traceparent", `E'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n'`,
		"PGD10", "traceparent", "Use 00-"),
	with("traceparent empty", "traceparent", "''", "PGD10", "traceparent", "Use 00-"),
}

// with returns a valid row with one column changed.
func with(name, column, value, code, message, hint string) badRow {
	return badRow{name, "workspace_id, workflow_definition_id, " + column, "@workspace, @definition, " + value, code,
		message, hint}
}

// owned returns a row that sets a column which only pgdispatch may set.
func owned(column, value string) badRow {
	return with(column+" = "+value, column, value, "PGD07",
		"an insert must not set status, attempts, errors, claims, leases or times of an item",
		"Set only workspace_id")
}

// claimed returns a row that sets a column which an item has from its claim on.
func claimed(column, value string) badRow {
	return with(column+" = "+value, column, value, "PGD07", "a PENDING item must not have a claim, lease or end",
		"Omit claimed_by")
}

func (r badRow) statement(w, other tenant) string {
	values := strings.NewReplacer("@workspace", "'"+w.workspace+"'", "@definition", "'"+w.definition+"'", "@foreign", "'"+
		other.definition+"'").
		Replace(r.values)
	return "insert into pgdispatch.workflow_execution_queue (" + r.columns + ") values (" + values + ")"
}

func TestEnqueueRefusesBadRowsAndLeavesNothing(t *testing.T) {
	f, w, other := openForTwo(t, "FREE", "FREE")
	for _, r := range badRows {
		refusal := f.refused(r.statement(w, other))
		require.Equal(t, r.code, refusal.Code, "%s: %s", r.name, refusal.Message)
		require.Truef(t, strings.HasPrefix(refusal.Message, r.message), "%s: %s", r.name, refusal.Message)
		require.Truef(t, strings.HasPrefix(refusal.Hint, r.hint), "%s: %s", r.name, refusal.Hint)
		require.Zero(t, f.left(), r.name)
	}
}

func TestEnqueueKeepsWhatIsOddButLegal(t *testing.T) {
	f, w, other := openForTwo(t, "ENTERPRISE", "FREE")
	legal := []badRow{
		with("params at the limit", "params", "jsonb_build_object('a', repeat('x', 1966080 - 9))", "", "", ""),
		with("a number that no float holds", "params", `'{"a": 1e400}'`, "", "", ""),
		with("400 digits", "params", "('{\"a\": ' || repeat('9', 400) || '}')::jsonb", "", "", ""),
		with("nested 5,000 deep", "params", "(repeat('{\"a\":', 5000) || '1' || repeat('}', 5000))::jsonb", "", "", ""),
		with("a key twice", "params", `'{"a": 1, "a": 2}'`, "", "", ""),
		with("escapes and direction marks", "params", `'{"\u001b[31m": "\u202e\n"}'`, "", "", ""),
		with("first moment", "run_at", "'2000-01-01 00:00Z'", "", "", ""),
		with("lowest priority", "priority", "-100", "", "", ""),
		with("longest key", "idempotency_key", "repeat('é', 200)", "", "", ""),
		with("a key that is never shown", "idempotency_key", `E'a\n\x1b[31m'`, "", "", ""),
		with("a trace of another version", "traceparent", "'cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-09'", "", "",
			""),
	}
	for _, r := range legal {
		f.exec(r.statement(w, other))
	}
	claimed := f.claim(len(legal) + 1)
	require.Len(t, claimed.Items, len(legal), "one batch reads all of them")
	params := []string{}
	for _, item := range claimed.Items {
		params = append(params, string(item.Params))
	}
	require.Contains(t, params, `{"a": 1`+strings.Repeat("0", 400)+`}`, "every digit is kept")
	require.Contains(t, params, `{"a": 2}`, "the last of two equal keys wins")
	require.Contains(t, params, `{"a": "`+strings.Repeat("x", 1966080-9)+`"}`)
}

func TestExecutionID_WithoutItsDefaultIsRefusedAndRestored(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.exec(`alter table pgdispatch.workflow_execution_queue alter column execution_id drop not null,
		alter column execution_id drop default`)
	insert := fmt.Sprintf(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		values ('%s', '%s')`, w.workspace, w.definition)
	refusal := f.refusedAs("PGD07", "", insert)
	require.Equal(t, "execution_id is null, because its default was dropped", refusal.Message)
	require.Contains(t, refusal.Hint, "pgdispatch migrate up")

	in, tx := f.begin() // past the trigger that refuses it
	in.exec("set local session_replication_role = replica")
	id := one[int64](in, insert+" returning id")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{""}, all[string](f, "select i.execution_id from ("+sql.Text("item_read")+") i", []int64{id},
		[]string{}, true, nil))

	require.NoError(t, migrate.Up(t.Context(), connect(t, f.pool.Config().ConnString(), nil), nil))
	require.Len(t, one[string](f, "select execution_id::text from pgdispatch.workflow_execution_queue"), 36)
	f.exec(insert)
	require.Len(t, f.claim(1).Items, 1)
}

// A row that is written past the triggers can stop nobody: no claim, sweep or list meets a time that it cannot read.
func TestTimes_ThatNobodyCanReadAreRefusedPastTheTriggers(t *testing.T) {
	f, w := openFor(t, "PRO")
	running := f.item(w)
	f.dispatched(f.claim(1))
	waiting := f.item(w)
	for _, at := range []string{"infinity", "-infinity", "0044-03-15 12:00Z BC", "9999-01-01 00:00Z"} {
		for column, id := range map[string]int64{"run_at": waiting, "created_at": waiting, "start_before": waiting,
			"claimed_at": running, "dispatched_at": running} {
			in, tx := f.begin()
			in.exec("set local session_replication_role = replica")
			in.refused("update pgdispatch.workflow_execution_queue set "+column+" = $1::text::timestamptz where id = $2", at, id)
			require.NoError(t, tx.Rollback(t.Context()))
		}
		for _, column := range []string{"created_at", "first_sent_at", "started_at", "asked_at"} {
			in, tx := f.begin()
			in.exec("set local session_replication_role = replica")
			in.refusedAs("23514", "", "update pgdispatch.workflow_executions set "+column+" = $1::text::timestamptz", at)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
}

// Which times have no range, and why no claim, sweep or list reads them as times.
func TestTimes_HaveARangeInEachTable(t *testing.T) {
	f := open(t)
	free := map[string]string{
		"activity.minute": "a key that is compared", "limit_activity.minute": "a key that is compared",
		"limit_activity.full_since": "set by pgdispatch from its clock", "workspace_activity.at": "a key that is compared",
		"applied_functions.applied_at": "read by nobody",
		"close_lists.swept_to":         "Temporal's time", "close_lists.wide_at": "-infinity means never",
		"close_sweep.looked_at": "-infinity means never", "mark_trim.next_at": "-infinity means never",
		"retention_walk.next_pass_at": "-infinity means never", "signal_turn.looked_at": "-infinity means never",
		"stall_look.looked_at": "-infinity means never", "signals.next_try_at": "infinity means that it waits",
	}
	for _, column := range all[string](f, `select c.relname || '.' || a.attname from pg_class c
		join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		                   and a.atttypid = 'timestamptz'::regtype
		where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind = 'r'
		  and not exists (select from pg_constraint k where k.conrelid = c.oid and k.conname = 'times_hold' and k.convalidated
		                    and a.attnum = any (k.conkey))`) {
		require.Contains(t, free, column)
		delete(free, column)
	}
	require.Empty(t, free)
}

// Until roles exist, every role that may insert may also force an ID. That affects only the order of equal items.
func TestAForcedIDIsALimitThatIsKnown(t *testing.T) {
	f, w := openFor(t, "PRO")
	const forced = `insert into pgdispatch.workflow_execution_queue (id, workspace_id, workflow_definition_id)
		overriding system value values (-1, $1, $2)`
	f.exec(forced, w.workspace, w.definition)
	f.item(w)
	f.refusedAs("23505", "", forced, w.workspace, w.definition)
	require.EqualValues(t, -1, f.claim(2).ids()[0])
}

func TestAnExecutionIDIsTakenOnce(t *testing.T) {
	f, a, b := openForTwo(t, "FREE", "FREE")
	const chosen = `insert into pgdispatch.workflow_execution_queue (execution_id, workspace_id, workflow_definition_id)
		values ('` + nobody + `', $1, $2)`
	f.exec(chosen, a.workspace, a.definition)
	f.refusedAs("23505", "", chosen, b.workspace, b.definition)
}

func TestConfigurationRefusesWhatCouldNotBeStarted(t *testing.T) {
	f, w := openFor(t, "FREE")
	const definition = "workspace_id, name, workflow_type, task_queue"
	for _, row := range []struct{ table, columns, values, code string }{
		{"workspaces", "name", "''", "23514"},
		{"workspaces", "name", "repeat('x', 201)", "23514"},
		{"workspaces", "name", `E'a\nb'`, "23514"},
		{"workspaces", "name", `E'\x1b[2J'`, "23514"},
		{"workflow_definitions", definition, `@workspace, E'a\rb', 'b', 'q'`, "23514"},
		{"workspaces", "name, plan", "'a', 'GOLD'", "23503"},
		{"workspaces", "name, max_concurrent_workflows", "'a', -1", "23514"},
		{"workspaces", "name, max_concurrent_workflows", "'a', 100001", "23514"},
		{"workspace_tiers", "plan, max_concurrent_workflows", "'gold', 1", "23514"},
		{"workspace_tiers", "plan, max_concurrent_workflows", `E'GOLD\n', 1`, "23514"},
		{"workspace_tiers", "plan, max_concurrent_workflows", "'GOLD', null", "23502"},
		{"workflow_definitions", definition, `@workspace, 'a', E'a\nb', 'q'`, "23514"},
		{"workflow_definitions", definition, `@workspace, 'a', 'b', E'\x1b[2J'`, "23514"},
		{"workflow_definitions", definition, `@workspace, 'a', '', 'q'`, "23514"},
		{"workflow_definitions", definition, `@workspace, 'a', repeat('é', 501), 'q'`, "23514"},
		{"workflow_definitions", definition, `@workspace, 'report', 'b', 'q'`, "23505"},
		{"workflow_definitions", definition + ", max_attempts", `@workspace, 'a', 'b', 'q', 0`, "23514"},
		{"workflow_definitions", definition + ", execution_timeout", `@workspace, 'a', 'b', 'q', '-1 day'`, "23514"},
		{"workflow_definition_versions", "workflow_definition_id, version, graph", `@definition, 0, '{"nodes": []}'`,
			"23514"},
		{"workflow_definition_versions", "workflow_definition_id, version, graph", `@definition, 1, '{"nodes": []}'`,
			"23505"},
		{"settings", "singleton", "false", "23514"},
		{"settings", "singleton", "true", "23505"},
	} {
		values := strings.NewReplacer("@workspace", "'"+w.workspace+"'", "@definition", "'"+w.definition+
			"'").Replace(row.values)
		refusal := f.refused("insert into pgdispatch." + row.table + " (" + row.columns + ") values (" + values + ")")
		require.Equal(t, row.code, refusal.Code, "%s %s: %s", row.table, row.values, refusal.Message)
		if row.code == "23514" && row.columns != "singleton" {
			require.NotEmpty(t, refusal.Hint, "%s %s", row.table, row.values)
			require.Contains(t, refusal.Message, refusal.ColumnName+" of "+row.table+" is ")
		}
	}
}

// A value of a megabyte must not reach an index, whose error names neither the field nor the remedy.
func TestAMegabyteInAnyTextNamesTheFieldAndTheRemedy(t *testing.T) {
	f, w := openFor(t, "FREE")
	const huge = "(select string_agg(md5(n::text), '') from generate_series(1, 32768) n)"
	item := fmt.Sprintf(" (workspace_id, workflow_definition_id, %%s) values ('%s', '%s', "+huge+")", w.workspace,
		w.definition)
	call := fmt.Sprintf("select pgdispatch.enqueue('%s', '%s', %%s => "+huge+")", w.workspace, w.definition)
	statements := map[string]string{}
	for _, column := range []string{"idempotency_key", "limit_key", "traceparent"} {
		statements["table "+column] = "insert into pgdispatch.workflow_execution_queue" + fmt.Sprintf(item, column)
		statements["view "+column] = "insert into pgdispatch.enqueue" + fmt.Sprintf(item, column)
	}
	for _, argument := range []string{"key", "limit_key", "traceparent"} {
		statements["enqueue "+argument] = fmt.Sprintf(call, argument)
	}
	id := f.execution(f.item(w))
	statements["signal name"] = fmt.Sprintf("select pgdispatch.signal('%s', %s)", id, huge)
	statements["limit key"] = "insert into pgdispatch.limits (key, max_concurrent) values (" + huge + ", 1)"
	statements["workspace name"] = "insert into pgdispatch.workspaces (name) values (" + huge + ")"
	statements["workspace plan"] = "insert into pgdispatch.workspaces (name, plan) values ('b', " + huge + ")"
	statements["tier plan"] = "insert into pgdispatch.workspace_tiers values (upper(" + huge + "), 1)"
	for _, column := range []string{"name", "workflow_type", "task_queue", "namespace"} {
		statements["definition "+column] = "update pgdispatch.workflow_definitions set " + column + " = " + huge
	}
	for what, statement := range statements {
		refusal := f.refused(statement)
		_, field, _ := strings.Cut(what, " ")
		require.NotEqual(t, "54000", refusal.Code, what)
		require.NotEmpty(t, refusal.Hint, what)
		require.Contains(t, refusal.Message, field, what)
		require.Less(t, len(refusal.Message), 400, what)
	}
}

// grammar lists, for each column, values that a client might write. An empty text leaves the column out, and so do two
// of three draws: a row with every column wrong shows nothing.
var grammar = []struct {
	column string
	values []string
}{
	{"params", []string{
		`'{}'`, `'{"a": 1}'`, `'{"a": 1e400}'`, `'{"a": "\u001b[0m\u202e"}'`, `'{"\n": [[[]]]}'`, `'{"a": 1, "a": 2}'`,
		"jsonb_build_object('a', repeat('é', 1000))", "(repeat('{\"a\":', 3000) || '1' || repeat('}', 3000))::jsonb",
		"jsonb_build_object('a', repeat('x', 1966072))", `'[]'`, `'null'`, `null`, `'"x"'`, `'{"a": "\u0000"}'`,
		`'{"a": "\udead"}'`, `'{'`, `''`,
	}},
	{"priority", []string{"0", "100", "-100", "'7'", "-101", "2147483647", "1e30", "0.4", "'NaN'", "null"}},
	{"run_at", []string{
		"now()", "'2000-01-01 00:00Z'", "'2199-12-31 23:59Z'", "now() + interval '1 day'", "'today'", "'epoch'", "'infinity'",
		"'-infinity'",
		"'4713-01-01 BC'", "'294276-12-31'", "''", "null", "'2026-02-30'",
	}},
	{"idempotency_key",
		[]string{"gen_random_uuid()", "gen_random_uuid()", "'same'", "''", "repeat('x', 200)", "repeat('x', 201)",
			`E'\n\x1b'`, "null"}},
	{"traceparent", []string{
		"'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'", "'00-0'", "''", `E'\n'`, "repeat('0', 100000)",
	}},
	{"status", []string{"", "", "", "'PENDING'", "'CLAIMED'", "'pending'", "null"}},
	{"lease_token", []string{"", "", "", "0", "-1", "9223372036854775807"}},
	{"workflow_definition_id", []string{
		"@definition", "@definition", "@definition", "@definition", "@definition", "@definition", "@definition", "@foreign",
		"gen_random_uuid()", "null", "'x'",
	}},
}

func TestRandomRowsAreRefusedOrRun(t *testing.T) {
	f, w, other := openForTwo(t, "ENTERPRISE", "FREE")
	f.unlimited()
	random := rand.New(rand.NewPCG(20260814, 7))
	accepted := []int64{}
	known := []string{"22", "23502", "23505", "54001", "PGD"}
	for range 500 {
		statement := randomRow(random).statement(w, other) + " returning id"
		var id int64
		before := f.left()
		err := f.db.QueryRow(t.Context(), statement).Scan(&id)
		if err == nil {
			accepted = append(accepted, id)
			continue
		}
		refusal := f.pgError(err)
		require.True(t, slices.ContainsFunc(known, func(class string) bool { return strings.HasPrefix(refusal.Code, class) }),
			"%s %s: %.500s", refusal.Code, refusal.Message, statement)
		require.Equal(t, before, f.left(), "%.500s", statement)
	}
	require.Greater(t, len(accepted), 50, "the grammar must yield valid and invalid rows")
	require.Less(t, len(accepted), 450, "the grammar must yield valid and invalid rows")

	f.exec("update pgdispatch.workflow_execution_queue set run_at = now() where run_at > now()")
	claimed := []int64{}
	for b := f.claim(16); len(b.Items) > 0; b = f.claim(16) {
		require.ElementsMatch(t, b.ids(), f.dispatched(b))
		claimed = append(claimed, b.ids()...)
	}
	require.ElementsMatch(t, accepted, claimed, "every accepted row is claimed, whatever else is in its batch")
}

func randomRow(random *rand.Rand) badRow {
	columns, values := []string{"workspace_id"}, []string{"@workspace"}
	for _, column := range grammar {
		value := column.values[random.IntN(len(column.values))]
		if value != "" && (column.column == "workflow_definition_id" || random.IntN(3) == 0) {
			columns, values = append(columns, column.column), append(values, value)
		}
	}
	return badRow{columns: strings.Join(columns, ", "), values: strings.Join(values, ", ")}
}
