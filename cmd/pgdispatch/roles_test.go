package main

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// Each program has only its own role, and workspaces are isolated.
func TestEachRoleDoesItsPartOfTheWhole(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	as := func(role string) *desk {
		url := sqltest.Login(t, s.url, "in role pgdispatch_"+role)
		return &desk{t: t, url: url, db: sqltest.Pool(t, url)}
	}
	owner, reader, enqueuer := as("owner"), as("reader"), as("enqueuer")
	require.Contains(t, owner.types("migrate", "up"), "nothing to do")
	owner.exec("select pgdispatch.isolate_workspaces(true)")
	definition := one[string](s,
		"select id::text from pgdispatch.workflow_definitions where workspace_id = $1 and name = 'Echo'", s.workspace["FREE"])

	replicas := *s
	replicas.url = as("dispatcher").url
	first := replicas.replica("PGDISPATCH_POLL_INTERVAL=100ms", "PGDISPATCH_LEASE=2s").ready()
	tx, err := enqueuer.db.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "select set_config('pgdispatch.workspace_id', $1, true)", s.workspace["FREE"])
	require.NoError(t, err)
	executions := []string{}
	for range 3 {
		var execution string
		require.NoError(t, tx.QueryRow(t.Context(), `insert into pgdispatch.workflow_execution_queue (workspace_id,
			workflow_definition_id)
			values ($1, $2) returning execution_id::text`, s.workspace["FREE"], definition).Scan(&execution))
		executions = append(executions, execution)
	}
	require.NoError(t, tx.Commit(t.Context()))
	for _, execution := range executions {
		s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "execution %s ends", execution)
	}

	require.Contains(t, reader.types("status"), "FREE")
	require.Contains(t, reader.types("items", "list"), "COMPLETED")
	_, errs, code := reader.tries("settings", "set", "paused", "true")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "pgdispatch_operator to change")
	require.Contains(t, owner.types("settings", "set", "paused", "true"), "paused true")
	s.eventually(func() bool {
		return first.logs.has("Paused by the settings; claiming no items")
	}, "the replica is notified")
	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	require.Zero(t, first.exit())
	require.NotContains(t, first.logs.String(), "permission denied")
}

// Runs every command that changes something, except `migrate`. Each must be in the audit under the operator's own
// login.
func TestAnOperatorDoesWhatTheCommandsChange(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 3, "broken")
	failed := []string{}
	for n := range 3 {
		failed = append(failed,
			d.value("select id::text from pgdispatch.workflow_execution_queue order by id offset $1 limit 1", n))
	}
	operator := &desk{t: t, url: sqltest.Login(t, d.url, "in role pgdispatch_operator")}
	operator.db = sqltest.Pool(t, operator.url)

	runs := d.enqueues()
	d.exec("update pgdispatch.settings set max_claims = 100")
	started := d.claims()[0]
	d.settles(claim.Dispatched,
		claim.Settlement{Verb: claim.Dispatched, ID: started.ID, Token: started.Token, RunID: "run"})
	waits, later := operator.enqueues("--idempotency-key", "once"), operator.enqueues("--run-at", "1h")
	for _, command := range [][]string{
		{"settings", "set", "max-claims", "50"}, {"settings", "set", "retention", "30d"},
		{"settings", "set", "result-bytes", "100"}, {"settings", "set", "notify-ended", "true"},
		{"workspaces", "set-plan", "shop", "PRO"}, {"workspaces", "set-limit", "shop", "7"},
		{"workspaces", "set-rate", "shop", "2"},
		{"workspaces", "pause", "shop"}, {"workspaces", "resume", "shop"},
		{"items", "retry", later, "--yes"}, {"items", "cancel", waits, "--yes"},
		{"dead", "replay", failed[0], "--yes"}, {"dead", "discard", failed[1], "--yes"}, {"dead", "replay", "--all", "--yes"},
		{"executions", "cancel", runs, "--yes"}, {"executions", "terminate", runs, "--yes"},
	} {
		operator.types(command...)
	}
	require.Equal(t, "CANCELLED",
		d.value("select status from pgdispatch.workflow_execution_queue where id = $1::bigint", waits))
	require.Equal(t, "TERMINATE", d.value("select how from pgdispatch.stop_requests"))
	require.Equal(t, "0", d.value("select count(*)::text from pgdispatch.dead_letters"))
	for _, command := range []string{"status", "doctor"} {
		out, errs, _ := operator.tries(command, "--output", "json")
		require.NotEmpty(t, out, errs)
	}

	var log []struct{ Role, Action string }
	require.NoError(t, json.Unmarshal([]byte(operator.types("audit", "list", "-o", "json")), &log))
	login := operator.value("select session_user::text")
	actions := []string{}
	for _, entry := range log {
		if entry.Role == login {
			actions = append(actions, entry.Action)
		}
	}
	require.Equal(t,
		[]string{"executions terminate", "executions cancel", "dead replay", "dead discard", "dead replay", "items cancel",
			"items retry",
			"workspaces resume", "workspaces pause", "workspaces set-rate", "workspaces set-limit", "workspaces set-plan",
			"settings set", "settings set", "settings set", "settings set", "enqueue", "enqueue"}, actions, fmt.Sprint(log))
	_, errs, code := operator.tries("migrate", "down", "--to", "0", "--yes")
	require.NotZero(t, code)
	require.Contains(t, errs, "42501")
}
