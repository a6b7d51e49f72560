package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

func TestWorkspacesListShowsEachWithItsLimit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec("delete from pgdispatch.workspaces")
	require.Equal(t, "no workspaces match; create one by inserting into pgdispatch.workspaces\n",
		d.types("workspaces", "list"))
	acme := d.addWorkspace("acme")
	d.types("enqueue", "order", "--workspace", "acme", "--run-at", "1h")
	bank := d.addWorkspace("bank")
	d.exec("update pgdispatch.workspaces set plan = 'PRO', max_concurrent_workflows = null, max_starts_per_second = "+
		"0.5, paused = true, max_burst_workflows = 9 where id = $1", bank)
	require.Regexp(t, `(?m)^burst +up to 9$`, d.types("workspaces", "show", "bank"))
	lines := strings.Split(d.types("workspaces", "list"), "\n")
	require.Regexp(t,
		`^WORKSPACE +ID +PLAN +RUNNING/LIMIT +RATE +WAITING +OLDEST WAITING +SCHEDULED +UNANSWERED +PAUSED$`, lines[0])
	require.Regexp(t, `^acme +`+acme+` +FREE +0/5,000 +- +0 +- +1 +0 +no$`, lines[1])
	require.Regexp(t, `^bank +`+bank+` +PRO +0/5-9 +0\.5/s +0 +- +0 +0 +yes$`, lines[2])
	require.Contains(t, d.types("workspaces", "list", "--limit", "1"), "there may be more; continue with --after "+acme+
		"\n")
	require.NotContains(t, d.types("workspaces", "list", "--after", "acme"), "acme")
	require.NotContains(t, d.types("workspaces", "list", "--name", "CM"), "bank")
}

func TestWorkspacesShowHasItsDefinitions(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(
		"insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue, execution_timeout) "+
			"values ($1, 'bare', 'Bare', 'b', '1 hour')", d.workspace)
	shown := d.types("workspaces", "show", strings.ToUpper(d.workspace))
	require.Equal(t, shown, d.types("workspaces", "show", "shop"))
	for _, line := range []string{
		`workspace +shop`, `id +` + d.workspace, `plan +FREE`, `limit +5000, set for this workspace`, `burst +-`, `rate +-`,
		`paused +no`,
		`waiting +0`, `unanswered +0`,
		`DEFINITION +ID +KIND +TYPE +NAMESPACE +TASK QUEUE +VERSION +MAX ATTEMPTS +TIMEOUT`,
		`bare +\S+ +workflow +Bare +- +b +none \(cannot be started\) +3 +1h0m0s`,
		`order +\S+ +workflow +Order +- +orders +1 +3 +-`,
	} {
		require.Regexp(t, `(?m)^`+line+`$`, shown)
	}
	var w struct {
		operate.Workspace
		Definitions []operate.Definition `json:"workflow_definitions"`
	}
	require.NoError(t, json.Unmarshal([]byte(d.types("workspaces", "show", "shop", "-o", "json")), &w))
	require.Equal(t, 5000, w.Limit)
	require.Len(t, w.Definitions, 2)
}

func TestWorkspacesAreChangedLiveAndEachChangeIsWrittenDown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Equal(t, "no changes match\n", d.types("audit", "list"))
	for _, row := range []struct{ args, want string }{
		{"set-plan shop pro", "shop: plan changed from FREE to PRO"},
		{"set-limit shop 7", "shop: max_concurrent_workflows changed from 5000 to 7"},
		{"set-limit shop plan", "shop: max_concurrent_workflows changed from 7 to not set"},
		{"set-burst shop 9", "shop: max_burst_workflows changed from not set to 9"},
		{"set-burst shop plan", "shop: max_burst_workflows changed from 9 to not set"},
		{"set-rate shop 2.5", "shop: max_starts_per_second changed from not set to 2.5"},
		{"set-rate shop off", "shop: max_starts_per_second changed from 2.5 to not set"},
		{"pause shop", "shop: paused changed from false to true"},
		{"resume shop", "shop: paused changed from true to false"},
		{"resume shop", "shop already has this value; nothing was changed"},
	} {
		require.Equal(t, row.want+"\n", d.types(strings.Fields("workspaces "+row.args+" --by ann")...))
	}
	require.Equal(t, "(PRO,,,f)",
		d.value("select (plan, max_concurrent_workflows, max_starts_per_second, paused)::text from pgdispatch.workspaces"))
	lines := strings.Split(strings.TrimSpace(d.types("audit", "list")), "\n")
	require.Len(t, lines, 10, "a change without effect is not audited")
	require.Regexp(t, `^ID +AT +BY +ROLE +ACTION +SUBJECT +DETAILS$`, lines[0])
	require.Regexp(t, `^9 +\S+Z +ann +\S+ +workspaces resume +workspace `+d.workspace+` +paused: yes → no$`, lines[1])
	require.Regexp(t, `^1 +\S+Z +ann +\S+ +workspaces set-plan +workspace `+d.workspace+` +plan: FREE → PRO$`, lines[9])
	require.JSONEq(t, fmt.Sprintf(`{"id": %q, "changed": {"paused": [false, true]}}`, d.workspace),
		d.types("workspaces", "pause", "shop", "-o", "json"))
}

func TestEveryCommandThatChangesSomethingIsWrittenDown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 3, "card refused")
	d.exec("update pgdispatch.settings set max_claims = 100")
	for _, command := range []string{
		"settings set max-claims 7", "settings set retention 1d", "settings set paused true",
		"enqueue order --workspace shop --run-at 1h", "items retry 4", "items cancel 4",
		"dead replay 1", "dead replay --all --yes --since 1h", "dead discard 5", "items retry 5",
		"workspaces pause shop",
	} {
		d.tries(append(strings.Fields(command), "--by", "ann")...)
	}
	var changes []operate.Administered
	require.NoError(t, json.Unmarshal([]byte(d.types("audit", "list", "--by", "ann", "-o", "json")), &changes))
	seen := []string{}
	for _, c := range changes {
		require.Equal(t, d.value("select session_user::text"), c.Role)
		seen = append([]string{c.Action + " " + string(c.Details)}, seen...)
	}
	require.Len(t, seen, 10)
	for n, want := range []string{
		`settings set .*"max_claims": \[\s*100,\s*7`, `settings set .*"retention": \[\s*null,\s*"24:00:00"`,
		`settings set .*"paused"`,
		`enqueue .*"items": \[\s*4`, `items retry .*4`, `items cancel .*4`, `dead replay .*"replays": \[\s*5`,
		`dead replay .*"items": \[\s*2,\s*3\s*\].*`, `items retry .*5`, `workspaces pause `,
	} {
		require.Regexp(t, "(?s)^"+want, seen[n])
	}
	require.Contains(t, d.types("audit", "list", "--action", "dead", "--limit", "1"),
		"there may be more; continue with --before 8\n")
	require.Equal(t, "no changes match\n", d.types("audit", "list", "--until", "1h"))
	require.Equal(t, "no changes match\n", d.types("audit", "list", "--by", "bob"))
}

func TestWorkspacesRefuseBadInputByName(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	twin, other := d.addWorkspace("twin"), d.addWorkspace("twin")
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"workspaces", "show", "shoop"},
			"no workspace has the ID or name \"shoop\": see `pgdispatch workspaces list`"},
		{[]string{"workspaces", "show", "00000000-0000-4000-8000-000000000000"}, "no workspace has the ID or name"},
		{[]string{"workspaces", "pause", "twin"}, `2 workspaces are named "twin": use an ID, one of `},
		{[]string{"workspaces", "pause", "twin"}, twin},
		{[]string{"workspaces", "pause", "twin"}, other},
		{[]string{"workspaces", "show", "a\x00b"}, `"a\x00b" is not a workspace ID (a UUID) or name`},
		{[]string{"workspaces", "show", ""}, `"" is not a workspace ID`},
		{[]string{"workspaces", "set-plan", "shop", "GOLD"},
			`unknown plan "GOLD": use FREE, PRO, ENTERPRISE, or insert it into pgdispatch.workspace_tiers`},
		{[]string{"workspaces", "set-limit", "shop", "100001"},
			`the limit is "100001": it must be plan or a whole number from 0 to 100000`},
		{[]string{"workspaces", "set-limit", "shop", "many"}, `the limit is "many"`},
		{[]string{"workspaces", "set-burst", "shop", "1.5"}, `the burst limit is "1.5": it must be plan or a whole number`},
		{[]string{"workspaces", "set-rate", "shop", "0"},
			`the rate is "0": it must be off, or from 0.0001 to 100000 starts per second; ` +
				`to stop all starts, pause the workspace`},
		{[]string{"workspaces", "set-rate", "shop", "NaN"}, `the rate is "NaN"`},
		{[]string{"workspaces", "set-limit", "shop"}, "accepts 2 arg(s), received 1"},
		{[]string{"workspaces", "list", "--after", "shoop"}, "--after: no workspace has the ID or name"},
		{[]string{"workspaces", "pause", "shop", "--by", strings.Repeat("x", 201)}, "--by is"},
		{[]string{"settings", "set", "paused", "true", "--by", ""}, `--by is ""`},
		{[]string{"enqueue", "order"}, "--workspace is required: give a workspace ID or name"},
		{[]string{"enqueue", "order", "--workspace", "shoop"}, "--workspace: no workspace has the ID or name \"shoop\""},
		{[]string{"enqueue", "oder", "--workspace", "shop"},
			`workspace "shop" has no workflow definition "oder"; its definitions are order`},
		{[]string{"enqueue", "order", "--workspace", "shop", "--params", "[1]"},
			"params must be a JSON object, not array (SQLSTATE PGD04)"},
		{[]string{"enqueue", "order", "--workspace", "shop", "--params", "null"},
			"--params is null: give it a value, or leave it out"},
		{[]string{"enqueue", "order", "--workspace", "shop", "--params", "secret{"}, "--params: line 1: it is not JSON"},
		{[]string{"enqueue", "order", "--workspace", "shop", "--priority", "101"},
			"priority 101 is out of range: it must be between -100 and 100"},
		{[]string{"enqueue", "order", "--workspace", "shop", "--run-at", "soon"},
			`--run-at is "soon": it must be a time such as 2026-08-01T10:00:00Z, ` +
				`a day such as 2026-08-01, or a delay such as 30m`},
		{[]string{"enqueue", "order", "--workspace", "shop", "--run-at", "1999-01-01"}, "(SQLSTATE PGD08)"},
		{[]string{"enqueue", "order", "--workspace", "shop", "--idempotency-key", "a\nb"}, `--idempotency-key is "a\nb"`},
		{[]string{"audit", "list", "--limit", "0"}, "--limit is 0"},
		{[]string{"audit", "list", "--since", "yesterday"}, `--since is "yesterday"`},
	} {
		out, errs, code := d.tries(row.args...)
		require.Equal(t, 1, code, "%v", row.args)
		require.Contains(t, errs, row.want, "%v", row.args)
		require.NotContains(t, errs, "secret", "params are not repeated")
		require.Empty(t, out, "%v", row.args)
	}
	d.exec("delete from pgdispatch.workflow_definition_versions")
	_, errs, _ := d.tries("enqueue", "order", "--workspace", "shop")
	require.Contains(t, errs,
		`definition "order" has no version and cannot be started: `+"`pgdispatch definitions version` adds one")
	require.Equal(t, "0", d.value("select count(*)::text from pgdispatch.admin_log"))
}

func TestEnqueueInsertsLikeAnApplicationWould(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	out := d.types("enqueue", "order", "--workspace", "shop", "--params", `{"order": 17}`, "--priority", "-3",
		"--idempotency-key", "a")
	require.Regexp(t,
		"^enqueued item 1: workflow execution-\\S{36} on task queue orders\\. Follow it with `pgdispatch items show 1`\n$",
		out)
	require.Equal(t, `(PENDING,-3,a,"{""order"": 17}")`,
		d.value("select (status, priority, idempotency_key, params)::text from pgdispatch.workflow_execution_queue"))
	require.Equal(t, "item 1 already has this idempotency key; nothing was enqueued. See `pgdispatch items show 1`\n",
		d.types("enqueue", "order", "--workspace", "shop", "--idempotency-key", "a"))
	require.Equal(t, "1", d.value("select count(*)::text from pgdispatch.admin_log"))
	out, err := d.answers(`{"from": "stdin"}`, "enqueue", "order", "--workspace", d.workspace, "--params", "-", "--run-at",
		"2030-01-01")
	require.NoError(t, err)
	require.Contains(t, out, "enqueued item ")
	require.Equal(t, `2030-01-01 {"from": "stdin"}`,
		d.value("select (run_at at time zone 'utc')::date || ' ' || params::text from pgdispatch.workflow_execution_queue "+
			"order by id desc limit 1"))
}

func TestShellsCompleteNamesOfWorkspacesAndValuesOfFlags(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.addWorkspace("shed")
	d.types("limits", "set", "smtp", "--max", "3")
	for args, want := range map[string]string{
		"workspaces pause s":         "shed\nshop\n:4\n",
		"workspaces pause sho":       "shop\n:4\n",
		"items list --workspace she": "shed\n:4\n",
		"items list --state comp":    "pending\nclaimed\ndispatched\ncompleted\nfailed\ncancelled\n:4\n",
		"dead list --output j":       "table\njson\n:4\n",
		"settings set pa": "max-claims\npaused\nretention\ndead-letter-retention\nresult-bytes\nworkflow-id-bytes\n" +
			"notify-ended\n:4\n",
		"workspaces set-plan shop GOLD":             ":4\n",
		"workspaces set-plan shop PR":               "PRO\n:4\n",
		"workspaces set-plan shop PRO x":            ":4\n",
		"workspaces set-rate shop ":                 "off\n:4\n",
		"workspaces create new --plan ent":          "ENTERPRISE\n:4\n",
		"status --sort f":                           "oldest\nrunning\nfailures\nname\n:4\n",
		"items list --definition o":                 "order\n:4\n",
		"enqueue --workspace shop o":                "order\n:4\n",
		"enqueue --workspace shed x":                ":4\n",
		"definitions version --workspace nowhere o": ":4\n",
		"limits remove s":                           "smtp\n:4\n",
		"limits set --workspace shed s":             ":4\n",
		"enqueue order --limit-key s":               "smtp\n:4\n",
	} {
		out, _, code := d.tries(append([]string{"__complete"}, strings.Split(args, " ")...)...)
		require.Zero(t, code)
		require.Equal(t, want, out, args)
	}
	out := d.types("completion", "bash")
	require.Contains(t, out, "bash completion V2 for pgdispatch")
}

func TestReadsAreJSONToo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, args := range []string{"settings get", "status", "dead list", "items list", "workspaces list",
		"workspaces show shop", "audit list", "migrate status"} {
		out := d.types(append(strings.Fields(args), "--output", "json")...)
		require.True(t, json.Valid([]byte(out)), args)
		require.NotEqual(t, "null\n", out, "%s: an empty list is printed as []", args)
	}
	require.JSONEq(t,
		`{"max_claims": 100, "paused": false, "retention": "off", "dead_letter_retention": "off", "result_bytes": 4096,
			"workflow_id_bytes": 255,
		"notify_ended": false}`,
		d.types("settings", "get", "-o", "json"))
}

func TestAChangeThatCannotBeWrittenDownIsNotMade(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 1, "card refused")
	d.enqueues("--run-at", "1h")
	const everything = `select (select w::text from pgdispatch.workspaces w) || (select s::text from pgdispatch.settings s)
		|| (select string_agg(q::text, ' ' order by id) from pgdispatch.workflow_execution_queue q) || (select count(*)
			from pgdispatch.dead_letter_marks)`
	before := d.value(everything)
	d.exec("alter table pgdispatch.admin_log add constraint full_disk check (false) not valid")
	for _, command := range []string{
		"workspaces pause shop", "workspaces set-limit shop 1", "settings set max-claims 7", "settings set retention 1d",
		"items cancel 2", "items retry 2", "items retry 1", "dead replay --all --yes", "dead discard 1",
		"enqueue order --workspace shop",
	} {
		_, errs, code := d.tries(strings.Fields(command)...)
		require.Equal(t, 1, code, command)
		require.Contains(t, errs, "full_disk", command)
	}
	require.Equal(t, before, d.value(everything))
}
