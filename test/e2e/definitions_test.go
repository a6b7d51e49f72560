package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A new user creates the first item without SQL.
func TestAWorkspaceAndADefinitionAreCreatedAndUsed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Regexp(t,
		"^created workspace Acme with the ID \\S{36} on plan PRO; `pgdispatch definitions create` adds what it can start\n$",
		d.types("workspaces", "create", "Acme", "--plan", "pro", "--limit", "8", "--burst", "12", "--rate", "2.5",
			"--paused", "--by", "ann"))
	require.Equal(t, "(PRO,8,2.5,t)",
		d.value("select (plan, max_concurrent_workflows, max_starts_per_second, paused)::text from pgdispatch.workspaces "+
			"where name = 'Acme'"))
	out := d.types("workspaces", "create", "Bare", "-o", "json")
	require.Contains(t, out, `"plan": "FREE"`)

	graph := file(t, "graph.json", `{"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"from": "a", "to": "b"}]}`)
	require.Regexp(t, "^created definition mail with the ID \\S{36} and version 1; ",
		d.types("definitions", "create", "--workspace", "acme", "--name", "mail",
			"--type", "Mail", "--task-queue", "mails", "--namespace", "billing", "--max-attempts", "7", "--execution-timeout",
			"2d", "--graph", graph, "--by", "ann"))
	require.Equal(t, `(Mail,mails,billing,7,48:00:00,1,"[""a"", ""b""]")`,
		d.value(`select (workflow_type, task_queue, namespace, max_attempts,
		execution_timeout, version, node_ids)::text from pgdispatch.workflow_definitions d
		join pgdispatch.workflow_definition_versions v on v.workflow_definition_id = d.id where d.name = 'mail'`))
	out, err := d.answers(`{"nodes": [{"id": "c"}]}`, "definitions", "version", "MAIL", "--workspace", "Acme", "--graph",
		"-", "--by", "ann")
	require.NoError(t, err)
	require.Equal(t, "definition mail has version 2 now: items that were not claimed before take it\n", out)
	require.Contains(t, d.types("enqueue", "mail", "--workspace", "Acme"), "enqueued item 1")

	shown := d.types("definitions", "list")
	for _, line := range []string{
		`WORKSPACE +DEFINITION +ID +KIND +TYPE +NAMESPACE +TASK QUEUE +VERSION +MAX ATTEMPTS +TIMEOUT`,
		`Acme +mail +\S{36} +workflow +Mail +billing +mails +2 +7 +2d0s`,
		`shop +order +\S{36} +workflow +Order +- +orders +1 +3 +-`,
	} {
		require.Regexp(t, `(?m)^`+line+`$`, shown)
	}
	require.NotContains(t, d.types("definitions", "list", "--workspace", "acme"), "order")
	require.NotContains(t, d.types("definitions", "list", "--name", "ORD"), "mail")
	first := d.types("definitions", "list", "--limit", "1")
	_, after, _ := strings.Cut(first, "there may be more; continue with --after ")
	require.NotContains(t, d.types("definitions", "list", "--after", strings.TrimSpace(after)), "mail")
	require.Equal(t, "no workflow definitions match; `pgdispatch definitions create` adds one\n",
		d.types("definitions", "list", "--workspace", "Bare"))

	var changes []operate.Administered
	require.NoError(t, json.Unmarshal([]byte(d.types("audit", "list", "--by", "ann", "-o", "json")), &changes))
	require.Len(t, changes, 3)
	require.Equal(t, "definitions version", changes[0].Action)
	require.JSONEq(t, `{"version": 2, "nodes": 1}`, string(changes[0].Details))
	require.Equal(t, "definitions create", changes[1].Action)
	require.Regexp(t, `"task_queue":\s*"mails"`, string(changes[1].Details))
	require.Equal(t, "workspaces create", changes[2].Action)
	require.JSONEq(t,
		`{"name": "Acme", "plan": "PRO", "paused": true, "max_concurrent_workflows": 8, "max_burst_workflows": 12,
		"max_starts_per_second": 2.5}`,
		string(changes[2].Details))
}

func TestWhatCannotBeCreatedIsRefusedByField(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	wrong := file(t, "wrong.json", `{"nodes": [{"id": "a"}, {"name": "b"}]}`)
	create := []string{"definitions", "create", "--workspace", "shop", "--name", "mail", "--type", "Mail", "--task-queue",
		"q"}
	with := func(args ...string) []string { return append(append([]string{}, create...), args...) }
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"workspaces", "create", "shop"}, `has the name "shop" already: choose another, or repeat it with --twin`},
		{[]string{"workspaces", "create", ""}, `NAME is "": it must have 1 to 200 characters`},
		{[]string{"workspaces", "create", "a\nb"}, `NAME is "a\nb"`},
		{[]string{"workspaces", "create", "x", "--plan", "GOLD"}, `unknown plan "GOLD": use FREE, PRO, ENTERPRISE`},
		{[]string{"workspaces", "create", "x", "--limit", "many"}, `--limit: the limit is "many"`},
		{[]string{"workspaces", "create", "x", "--burst", "many"}, `--burst: the burst limit is "many"`},
		{[]string{"workspaces", "create", "x", "--rate", "0"}, `--rate: the rate is "0"`},
		{create[:8], "--task-queue is missing"},
		{create[:2], " is missing"},
		{with("--workspace", "shoop"), `no workspace has the ID or name "shoop": see ` + "`pgdispatch workspaces list`" +
			`; did you mean "shop"?`},
		{with("--name", "order"),
			`the workspace has a definition "order" already: add a version to it, or choose another name`},
		{with("--graph", wrong), "nodes[1].id is missing: it must be a string"},
		{with("--graph", file(t, "cycle.json", `{"nodes": [{"id": "a"}], "edges": [{"from": "a", "to": "a"}]}`)),
			`edges are a cycle: "a -> a"`},
		{with("--graph", file(t, "half.json", "{\n\"nodes\": [}")), `half.json": line 2: it is not JSON`},
		{with("--graph", "/nowhere.json"), "--graph: open /nowhere.json"},
		{with("--max-attempts", "101"), "max_attempts of workflow_definitions is 101: it must be from 1 to 100"},
		{with("--execution-timeout", "soon"), `--execution-timeout is "soon": it must be a time such as 30m, 2h or 7d`},
		{with("--execution-timeout", "1ms"),
			"execution_timeout of workflow_definitions is 00:00:00.001: it must be from 1 s to 3652 days"},
		{with("--namespace", strings.Repeat("x", 1001)), "namespace of workflow_definitions is"},
		{[]string{"definitions", "version", "order", "--workspace", "shop"}, "--graph is missing"},
		{[]string{"definitions", "version", "order", "--workspace", "shop", "--graph", wrong}, "nodes[1].id is missing"},
		{[]string{"definitions", "version", "oder", "--workspace", "shop", "--graph", file(t, "g", `{"nodes": []}`)},
			`its definitions are order; did you mean "order"?`},
		{[]string{"definitions", "list", "--after", "order"}, `--after is "order": it must be a definition's ID`},
	} {
		out, errs, code := d.tries(row.args...)
		require.Equal(t, 1, code, "%v", row.args)
		require.Contains(t, errs, row.want, "%v", row.args)
		require.Empty(t, out, "%v", row.args)
	}
	require.Equal(t, "0", d.value("select count(*)::text from pgdispatch.admin_log"))
	require.NotEmpty(t, d.types("workspaces", "create", "shop", "--twin"))
}

func TestOnlyTheOwnerCreates(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	graph := file(t, "g.json", `{"nodes": []}`)
	for _, role := range []string{"operator", "owner"} {
		login := &desk{t: t, url: sqltest.Login(t, d.url, "in role pgdispatch_"+role)}
		for _, args := range [][]string{
			{"workspaces", "create", "by " + role},
			{"definitions", "create", "--workspace", "shop", "--name", "by " + role, "--type", "T", "--task-queue", "q"},
			{"definitions", "version", "order", "--workspace", "shop", "--graph", graph},
		} {
			_, errs, code := login.tries(args...)
			if role == "owner" {
				require.Zero(t, code, "%v: %s", args, errs)
				continue
			}
			require.Equal(t, 1, code, "%v", args)
			require.Contains(t, errs, "connect as a member of pgdispatch_owner", "%v", args)
		}
	}
}
