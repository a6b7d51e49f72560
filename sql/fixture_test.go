package sql_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

const lease = time.Minute

// database executes statements: a pool, a connection or a transaction.
type database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// fixture is a test's own database, with helpers.
type fixture struct {
	t        testing.TB
	pool     *pgxpool.Pool
	db       database
	replicas *sync.Map // *replica, by owner
}

// replica is a store whose claims take turns, as in a process.
type replica struct {
	sync.Mutex
	store claim.Store
}

// open returns a fixture on a database of its own. From then on the test runs beside others.
func open(t *testing.T) fixture {
	t.Parallel()
	return openAlone(t)
}

// openAlone is for a test that runs beside no other, or has opened a fixture before.
func openAlone(t *testing.T) fixture {
	pool := sqltest.Open(t)
	return fixture{t: t, pool: pool, db: pool, replicas: &sync.Map{}}
}

// openFor returns a fixture with a tenant.
func openFor(t *testing.T, plan string) (fixture, tenant) {
	f := open(t)
	return f, f.tenant(plan)
}

// openForTwo returns a fixture with two tenants.
func openForTwo(t *testing.T, first, second string) (fixture, tenant, tenant) {
	f := open(t)
	return f, f.tenant(first), f.tenant(second)
}

// openClaimed returns a fixture with a tenant and its items, all of them claimed.
func openClaimed(t *testing.T, plan string, items int) (fixture, batch) {
	f, w := openFor(t, plan)
	f.items(w, items)
	return f, f.claim(items)
}

// openRunning returns a fixture with one item whose workflow runs.
func openRunning(t *testing.T) (fixture, int64) {
	f := open(t)
	return f, f.oneRunning()
}

// on returns the same fixture on another connection or inside a transaction.
func (f fixture) on(db database) fixture {
	f.db = db
	return f
}

// conn returns the same fixture on its own connection.
func (f fixture) conn() fixture {
	conn := must.Get(f.pool.Acquire(f.t.Context())).In(f.t)
	f.t.Cleanup(conn.Release)
	return f.on(conn)
}

// replicaConn returns the same fixture on its own connection, with a replica's settings of the planner.
func (f fixture) replicaConn() fixture {
	c := f.conn()
	for name, value := range postgres.Planning {
		c.exec("select set_config($1, $2, false)", name, value)
	}
	return c
}

// begin returns the same fixture inside a transaction that is rolled back when the test ends.
func (f fixture) begin() (fixture, pgx.Tx) {
	tx := must.Get(f.pool.Begin(f.t.Context())).In(f.t)
	f.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return f.on(tx), tx
}

func (f fixture) exec(statement string, args ...any) int64 {
	tag := must.Get(f.db.Exec(f.t.Context(), statement, args...)).In(f.t)
	return tag.RowsAffected()
}

func one[T any](f fixture, statement string, args ...any) T {
	var value T
	require.NoError(f.t, f.db.QueryRow(f.t.Context(), statement, args...).Scan(&value))
	return value
}

func all[T any](f fixture, statement string, args ...any) []T {
	rows := must.Get(f.db.Query(f.t.Context(), statement, args...)).In(f.t)
	return must.Get(pgx.CollectRows(rows, pgx.RowTo[T])).In(f.t)
}

// rowsOf returns the rows of a statement, each with one field for each column.
func rowsOf[T any](f fixture, statement string, args ...any) []T {
	rows := must.Get(f.db.Query(f.t.Context(), statement, args...)).In(f.t)
	return must.Get(pgx.CollectRows(rows, pgx.RowToStructByPos[T])).In(f.t)
}

// column returns what an expression gives for an item.
func column[T any](f fixture, id int64, expression string) T {
	return one[T](f, "select "+expression+" from pgdispatch.workflow_execution_queue where id = $1", id)
}

// set updates items.
func (f fixture) set(to string, ids ...int64) {
	f.exec("update pgdispatch.workflow_execution_queue set "+to+" where id = any ($1)", ids)
}

// setWorkspace updates a tenant's workspace.
func (f fixture) setWorkspace(w tenant, to string) {
	f.exec("update pgdispatch.workspaces set "+to+" where id = $1", w.workspace)
}

// remove deletes items.
func (f fixture) remove(ids ...int64) {
	f.exec("delete from pgdispatch.workflow_execution_queue where id = any ($1)", ids)
}

// leave deletes a tenant's workspace.
func (f fixture) leave(w tenant) {
	f.exec("delete from pgdispatch.workspaces where id = $1", w.workspace)
}

// unlimited lets all workspaces that there are hold any number of items, and so all replicas together.
func (f fixture) unlimited() {
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 100000")
	f.maxClaims(100000)
}

// count returns the number of rows of a table, or those for which a condition holds: "signals where tries = 1".
func (f fixture) count(rows string, args ...any) int {
	return one[int](f, "select count(*) from pgdispatch."+rows, args...)
}

// lock locks items until the test ends, or the transaction that it returns.
func (f fixture) lock(ids ...int64) pgx.Tx {
	holder, tx := f.begin()
	holder.exec("select from pgdispatch.workflow_execution_queue where id = any ($1) for update", ids)
	return tx
}

// untriggered runs do in a transaction whose statements fire no trigger, as those of logical replication.
func (f fixture) untriggered(do func(in fixture)) {
	in, tx := f.begin()
	in.exec("set local session_replication_role = replica")
	do(in)
	require.NoError(f.t, tx.Commit(f.t.Context()))
}

// refused runs a statement that must fail and returns the database's error.
func (f fixture) refused(statement string, args ...any) *pgconn.PgError {
	_, err := f.db.Exec(f.t.Context(), statement, args...)
	require.Error(f.t, err, "%.300s %.300v", statement, args)
	return f.pgError(err)
}

// refusedAs runs a statement that must fail with this SQLSTATE and a message with this text. It returns the error,
// which has a hint if it is the product's own.
func (f fixture) refusedAs(code, message, statement string, args ...any) *pgconn.PgError {
	refusal := f.refused(statement, args...)
	require.Equal(f.t, code, refusal.Code, "%.300s %.300v: %s", statement, args, refusal.Message)
	require.Contains(f.t, refusal.Message, message, "%.300s %.300v", statement, args)
	require.False(f.t, refusal.Hint == "" && strings.HasPrefix(code, "PGD"), "%s has no hint", code)
	return refusal
}

func (f fixture) pgError(err error) *pgconn.PgError {
	var refusal *pgconn.PgError
	require.ErrorAs(f.t, err, &refusal)
	return refusal
}

// tenant is a workspace with one definition that has one version.
type tenant struct{ workspace, definition, version string }

func (f fixture) tenant(plan string) tenant {
	var w tenant
	w.workspace = one[string](f, "insert into pgdispatch.workspaces (name, plan) values ($1, $2) returning id::text",
		"tenant on "+plan, plan)
	w.definition, w.version = f.definition(w.workspace, "report")
	return w
}

func (f fixture) definition(workspace, name string) (definition, version string) {
	definition = one[string](f, `insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type,
		task_queue)
		values ($1, $2, 'Report', 'reports') returning id::text`, workspace, name)
	return definition, f.version(definition, 1, `{"nodes": [{"id": "fetch"}, {"id": "send"}]}`)
}

// tenants creates n workspaces, "full 1" and so on, each with one definition that has one version.
func (f fixture) tenants(n int, plan string) {
	f.exec("insert into pgdispatch.workspaces (name, plan) select 'full ' || n, $2 from generate_series(1, $1::int) n", n,
		plan)
	f.exec(`insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
		select id, 'report', 'Report', 'reports' from pgdispatch.workspaces`)
	f.exec(`insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		select id, 1, '{"nodes": []}' from pgdispatch.workflow_definitions`)
}

// itemEach enqueues an item of each definition.
func (f fixture) itemEach() {
	f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select workspace_id, id from pgdispatch.workflow_definitions`)
}

func (f fixture) version(definition string, number int, graph string) string {
	return one[string](f, `insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		values ($1, $2, $3) returning id::text`, definition, number, graph)
}

const insertItem = `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
	values ($1, $2)`

// insertWith inserts an item with a further column.
func insertWith(column string) string {
	return "insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, " + column +
		") values ($1, $2, $3) returning id"
}

// item enqueues one item and returns its ID.
func (f fixture) item(w tenant) int64 {
	return one[int64](f, insertItem+" returning id", w.workspace, w.definition)
}

// items enqueues n items in one statement and returns their IDs in order.
func (f fixture) items(w tenant, n int) []int64 {
	return f.insert(w, n, "priority", "0")
}

// insert enqueues items in one statement and returns their IDs in order. Further columns have SQL expressions, in which
// n counts the items.
func (f fixture) insert(w tenant, items int, columns, values string, args ...any) []int64 {
	return all[int64](f, `insert into pgdispatch.workflow_execution_queue
			(workspace_id, workflow_definition_id, `+columns+`)
		select $1, $2, `+values+` from generate_series(1, $3::int) n returning id`,
		append([]any{w.workspace, w.definition, items}, args...)...)
}

// at enqueues an item with a priority that is due after the given time (negative: since then).
func (f fixture) at(w tenant, priority int, due time.Duration) int64 {
	return f.insert(w, 1, "priority, run_at", "$4::integer, now() + $5::interval", priority, due)[0]
}

func (f fixture) status(id int64) string { return column[string](f, id, "status") }

func (f fixture) execution(id int64) string { return column[string](f, id, "execution_id::text") }
