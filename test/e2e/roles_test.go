package e2e

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

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
	owner.exec("insert into pgdispatch.workspace_roles (role) values ($1::text::regrole)",
		enqueuer.value("select session_user::text"))
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
		return first.has("Paused by the settings; claiming no items")
	}, "the replica is notified")
	require.NoError(t, first.Signal(syscall.SIGTERM))
	require.Zero(t, first.exit())
	require.NotContains(t, first.Log(), "permission denied")
}
