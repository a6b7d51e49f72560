package e2e

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/operate/cli"
	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// desk is a database with a workspace, and runs commands.
type desk struct {
	t         *testing.T
	url       string
	db        *pgxpool.Pool
	workspace string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	url := sqltest.URL(t)
	d := &desk{t: t, url: url, db: sqltest.Pool(t, url)}
	d.workspace = d.addWorkspace("shop")
	return d
}

func (d *desk) addWorkspace(name string) string {
	d.t.Helper()
	id := d.value(
		"insert into pgdispatch.workspaces (name, max_concurrent_workflows) values ($1, 5000) returning id::text", name)
	d.exec(`with d as (insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
			values ($1, 'order', 'Order', 'orders') returning id)
		insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
			select id, 1, '{"nodes": []}' from d`, id)
	return id
}

func (d *desk) exec(statement string, args ...any) {
	d.t.Helper()
	_, err := d.db.Exec(d.t.Context(), statement, args...)
	require.NoError(d.t, err)
}

func (d *desk) value(query string, args ...any) string {
	d.t.Helper()
	var value string
	require.NoError(d.t, d.db.QueryRow(d.t.Context(), query, args...).Scan(&value))
	return value
}

// dead enqueues n items in a workspace; each fails once and then permanently.
func (d *desk) dead(workspace string, n int, reason string) {
	d.t.Helper()
	d.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
		select workspace_id, id, '{"order": 17}' from pgdispatch.workflow_definitions, generate_series(1, $2::int)
			where workspace_id = $1`, workspace, n)
	d.exec("update pgdispatch.settings set max_claims = 10000")
	store := &claim.Store{Pool: d.db, Owner: "replica-1", Lease: time.Minute}
	for _, verb := range []claim.Verb{claim.Retry, claim.Fail} {
		for left := n; left > 0; {
			batch, err := store.Claim(d.t.Context(), left)
			require.NoError(d.t, err)
			require.NotEmpty(d.t, batch.Items)
			left -= len(batch.Items)
			settlements := []claim.Settlement{}
			for _, item := range batch.Items {
				settlements = append(settlements, claim.Settlement{ID: item.ID, Token: item.Token, Error: reason})
			}
			_, err = store.Settle(d.t.Context(), verb, settlements)
			require.NoError(d.t, err)
		}
	}
}

// types runs a command that must succeed, and returns its standard output.
func (d *desk) types(args ...string) string {
	d.t.Helper()
	out, errs, code := d.tries(args...)
	require.Zero(d.t, code, "%v: %s", args, errs)
	require.Empty(d.t, errs)
	return out
}

// tries runs a command in this process, or as one of its own if it is `run`, which only the binary has.
func (d *desk) tries(args ...string) (stdout, stderr string, code int) {
	d.t.Helper()
	if args[0] == "run" {
		return pgdispatch(d.t, []string{"DATABASE_URL=" + d.url}, args...)
	}
	var out, errs bytes.Buffer
	app := &cli.App{LookupEnv: d.lookupEnv, Stdout: &out, Stderr: &errs}
	code = app.Run(d.t.Context(), args)
	return out.String(), errs.String(), code
}

func (d *desk) lookupEnv(name string) (string, bool) { return d.url, name == "DATABASE_URL" }

// answers runs a command with terminal input, and returns its output and error.
func (d *desk) answers(answer string, args ...string) (string, error) {
	d.t.Helper()
	var out bytes.Buffer
	command := (&cli.App{LookupEnv: d.lookupEnv, Stdout: &out, Stderr: &out}).Root()
	command.SetArgs(args)
	command.SetIn(strings.NewReader(answer))
	err := command.ExecuteContext(d.t.Context())
	return out.String(), err
}

// pgdispatch runs the binary with these variables in addition to the process's, and returns its output and exit code.
func pgdispatch(t *testing.T, variables []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), binary(t), args...)
	command.Env = process.Environment(variables...)
	command.Stdout, command.Stderr = &out, &errs
	_ = command.Run() // the exit code says it
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}
