package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

const (
	clientsDirectory = checkout + "/docs/clients"

	workspace   = "0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01"
	definition  = "5a3f8d0c-2d0e-4b59-8a0c-0f6d2d3f7e02"
	traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// program is a command that takes a workspace, a definition and an order.
type program struct {
	file    string
	command func(definition, order string) []string
	digest  bool // whether it also calls pgdispatch.enqueue
}

func arguments(command ...string) func(string, string) []string {
	return func(definition, order string) []string { return append(command, workspace, definition, order) }
}

// others need tools that are not installed everywhere: see clients_all_test.go.
var others []program

func everyClient() []program {
	return append([]program{
		{"enqueue.go", arguments("go", "run", "."), true},
		{"enqueue.sql", func(definition, order string) []string {
			return []string{"psql", "", "--no-psqlrc", "-v", "workspace=" + workspace, "-v", "definition=" + definition,
				"-v", "order=" + order, "-v", "traceparent=" + traceparent, "-f", "enqueue.sql"}
		}, true},
	}, others...)
}

func TestEveryClientEnqueuesInATransactionAndKnowsARefusal(t *testing.T) {
	t.Parallel()
	for _, c := range everyClient() {
		t.Run(c.file, func(t *testing.T) { t.Parallel(); tryClient(t, c) })
	}
}

func tryClient(t *testing.T, c program) {
	url := sqltest.URL(t)
	pool := sqltest.Pool(t, url)
	for _, statement := range []string{
		"create table orders (id bigint primary key, execution_id uuid not null)",
		"insert into pgdispatch.workspaces (id, name) values ('" + workspace + "', 'acme')",
		"insert into pgdispatch.workflow_definitions (id, workspace_id, name, workflow_type, task_queue) values ('" +
			definition + "', '" + workspace + "', 'order', 'Order', 'orders')",
	} {
		must.Get(pool.Exec(t.Context(), statement)).In(t)
	}
	run := func(definition, order string) (string, error) {
		args := c.command(definition, order)
		for n, arg := range args {
			if arg == "" { // psql gets the address as an argument
				args[n] = url
			}
		}
		command := exec.CommandContext(t.Context(), args[0], args[1:]...)
		command.Dir = clientsDirectory
		address, _, _ := strings.Cut(strings.TrimPrefix(url, "postgres://postgres@"), "?")
		command.Env = append(os.Environ(), "DATABASE_URL="+url, "JDBC_URL=jdbc:postgresql://"+address+"?user=postgres",
			"TRACEPARENT="+traceparent)
		out, err := command.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	said, err := run(definition, "42")
	require.NoError(t, err, said)
	again, err := run(definition, "42")
	require.NoError(t, err, again)
	require.Equal(t, said, again)
	rows, err := pool.Query(t.Context(), `select 'execution-' || q.execution_id || ' ' || (q.params ->> 'orderId') || ' '
		|| q.idempotency_key || ' ' || q.traceparent
		from orders o full join pgdispatch.workflow_execution_queue q using (execution_id)
		where q.params ->> 'digest' is null`)
	require.NoError(t, err)
	stored := must.Get(pgx.CollectRows(rows, pgx.RowTo[string])).In(t)
	require.Equal(t, []string{said + " 42 order-42 " + traceparent}, stored)
	var digests int
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from pgdispatch.workflow_execution_queue
		where params ->> 'digest' is not null`).Scan(&digests))
	require.Equal(t, map[bool]int{true: 1}[c.digest], digests, "of two calls")

	said, err = run("00000000-0000-4000-8000-000000000000", "43")
	require.Error(t, err)
	require.Contains(t, said, "PGD02: workflow definition 00000000-0000-4000-8000-000000000000 does not exist")
	require.Contains(t, said, "Insert it into pgdispatch.workflow_definitions first")
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from orders").Scan(&left))
	require.Equal(t, 1, left, "a rejected enqueue rolls the order back")
}
