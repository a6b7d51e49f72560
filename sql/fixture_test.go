package sql_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

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

func open(t testing.TB) fixture {
	t.Helper()
	pool := sqltest.Open(t)
	return fixture{t: t, pool: pool, db: pool, replicas: &sync.Map{}}
}

// on returns the same fixture on another connection or inside a transaction.
func (f fixture) on(db database) fixture {
	f.db = db
	return f
}

// conn returns the same fixture on its own connection.
func (f fixture) conn() fixture {
	f.t.Helper()
	conn, err := f.pool.Acquire(f.t.Context())
	require.NoError(f.t, err)
	f.t.Cleanup(conn.Release)
	return f.on(conn)
}

// replicaConn returns the same fixture on its own connection, with a replica's settings of the planner.
func (f fixture) replicaConn() fixture {
	f.t.Helper()
	c := f.conn()
	for name, value := range postgres.Planning {
		c.exec("select set_config($1, $2, false)", name, value)
	}
	return c
}

// begin returns the same fixture inside a transaction that is rolled back when the test ends.
func (f fixture) begin() (fixture, pgx.Tx) {
	f.t.Helper()
	tx, err := f.pool.Begin(f.t.Context())
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return f.on(tx), tx
}

func (f fixture) exec(statement string, args ...any) int64 {
	f.t.Helper()
	tag, err := f.db.Exec(f.t.Context(), statement, args...)
	require.NoError(f.t, err)
	return tag.RowsAffected()
}

func one[T any](f fixture, statement string, args ...any) T {
	f.t.Helper()
	var value T
	require.NoError(f.t, f.db.QueryRow(f.t.Context(), statement, args...).Scan(&value))
	return value
}

func all[T any](f fixture, statement string, args ...any) []T {
	f.t.Helper()
	rows, err := f.db.Query(f.t.Context(), statement, args...)
	require.NoError(f.t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(f.t, err)
	return values
}

// refused runs a statement that must fail and returns the database's error.
func (f fixture) refused(statement string, args ...any) *pgconn.PgError {
	f.t.Helper()
	_, err := f.db.Exec(f.t.Context(), statement, args...)
	require.Error(f.t, err, "%.300s %.300v", statement, args)
	return f.pgError(err)
}

func (f fixture) pgError(err error) *pgconn.PgError {
	f.t.Helper()
	var refusal *pgconn.PgError
	require.ErrorAs(f.t, err, &refusal)
	return refusal
}

// tenant is a workspace with one definition that has one version.
type tenant struct{ workspace, definition, version string }

func (f fixture) tenant(plan string) tenant {
	f.t.Helper()
	var w tenant
	w.workspace = one[string](f, "insert into pgdispatch.workspaces (name, plan) values ($1, $2) returning id::text",
		"tenant on "+plan, plan)
	w.definition, w.version = f.definition(w.workspace, "report")
	return w
}

func (f fixture) definition(workspace, name string) (definition, version string) {
	f.t.Helper()
	definition = one[string](f, `insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type,
		task_queue)
		values ($1, $2, 'Report', 'reports') returning id::text`, workspace, name)
	return definition, f.version(definition, 1, `{"nodes": [{"id": "fetch"}, {"id": "send"}]}`)
}

func (f fixture) version(definition string, number int, graph string) string {
	f.t.Helper()
	return one[string](f, `insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		values ($1, $2, $3) returning id::text`, definition, number, graph)
}

const insertItem = `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
	values ($1, $2)`

// item enqueues one item and returns its ID.
func (f fixture) item(w tenant) int64 {
	f.t.Helper()
	return one[int64](f, insertItem+" returning id", w.workspace, w.definition)
}

// items enqueues n items in one statement and returns their IDs in order.
func (f fixture) items(w tenant, n int) []int64 {
	f.t.Helper()
	return all[int64](f, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select $1, $2 from generate_series(1, $3::int) returning id`, w.workspace, w.definition, n)
}

// at enqueues an item with a priority that is due after the given time (negative: since then).
func (f fixture) at(w tenant, priority int, due time.Duration) int64 {
	f.t.Helper()
	return one[int64](f, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, priority,
		run_at)
		values ($1, $2, $3, now() + $4::interval) returning id`, w.workspace, w.definition, priority, due)
}

func (f fixture) status(id int64) string {
	f.t.Helper()
	return one[string](f, "select status from pgdispatch.workflow_execution_queue where id = $1", id)
}

func (f fixture) execution(id int64) string {
	f.t.Helper()
	return one[string](f, "select execution_id::text from pgdispatch.workflow_execution_queue where id = $1", id)
}

// claimRow is an item as returned by a claim; nil fields are absent.
type claimRow struct {
	ID                          *int64
	LeaseToken                  *int64
	ExecutionID                 *string
	WorkspaceID                 *string
	WorkflowDefinitionID        *string
	WorkflowDefinitionVersionID *string
	Namespace                   *string
	WorkflowType, TaskQueue     *string
	Input, Kind                 string
	ExecutionTimeout            *time.Duration
	NodeIDs                     *string
	Params, Traceparent         *string
	AttemptCount, FailureCount  *int
	MaxAttempts                 *int
	Unanswered                  *bool `db:"outcome_unknown"`
	UnansweredFor               *time.Duration
	Problem                     *string
	Waited                      *time.Duration
}

type batch struct {
	items                []claimRow
	more, capped, paused bool
	lookAgainIn          *time.Duration
	unannounced          int
	atCapacity           string // a JSON array; "": none
}

func (b batch) ids() []int64 {
	ids := []int64{}
	for _, item := range b.items {
		ids = append(ids, *item.ID)
	}
	return ids
}

func (b batch) tokens() []int64 {
	tokens := []int64{}
	for _, item := range b.items {
		tokens = append(tokens, *item.LeaseToken)
	}
	return tokens
}

func (f fixture) tryClaim(atMost int) (batch, error) { return f.tryClaimBy("replica-1", atMost) }

func (f fixture) tryClaimBy(owner string, atMost int) (batch, error) {
	return f.tryClaimAround(owner, atMost, nil)
}

// tryClaimAround claims like a replica whose memory lasts as long as the test, with limits per namespace. Definitions
// without a namespace use the limit of "default".
func (f fixture) tryClaimAround(owner string, atMost int, limits map[string]int) (batch, error) {
	f.t.Helper()
	r := f.replica(owner)
	r.Lock()
	defer r.Unlock()
	r.store.Pool = f.db
	f.exec("select pgdispatch.requeue_expired(1000)") // as a sweep does, which waits for the moment
	holding := one[int](f, `select count(*) from pgdispatch.workflow_execution_queue
		where stage in ('HOLDS', 'DOUBT') and lease_token >= (select leased_from from pgdispatch.mark_trim)
			and claimed_by = $1 and status = 'CLAIMED' and lease_expires_at > clock_timestamp()`, owner)
	answer, _, err := r.store.SettleAndClaim(f.t.Context(), nil,
		claim.Wanted{AtMost: atMost, Holding: holding, Look: true, Quiet: true, Namespaces: limits})
	if err != nil {
		return batch{}, err
	}
	b := batch{more: answer.More, capped: answer.Capped, paused: answer.Paused, unannounced: answer.Unannounced}
	if answer.LookAgainIn >= 0 {
		b.lookAgainIn = &answer.LookAgainIn
	}
	if len(answer.AtCapacity) > 0 {
		full, err := json.Marshal(answer.AtCapacity)
		require.NoError(f.t, err)
		b.atCapacity = string(full)
	}
	for _, item := range answer.Items {
		b.items = append(b.items, rowOf(item))
	}
	return b, nil
}

func rowOf(i claim.Item) claimRow {
	nodes, params := string(i.NodeIDs), string(i.Params)
	return claimRow{
		ID: &i.ID, LeaseToken: &i.Token, ExecutionID: &i.ExecutionID, WorkspaceID: &i.WorkspaceID,
		WorkflowDefinitionID: &i.WorkflowDefinitionID, WorkflowDefinitionVersionID: some(i.WorkflowDefinitionVersionID),
		Namespace: some(i.Namespace), WorkflowType: some(i.WorkflowType), TaskQueue: some(i.TaskQueue),
		Input: string(i.Input), Kind: string(i.Kind), ExecutionTimeout: some(i.ExecutionTimeout),
		NodeIDs: some(nodes), Params: &params, Traceparent: some(i.Traceparent),
		AttemptCount: &i.AttemptCount, FailureCount: &i.FailureCount, MaxAttempts: some(i.MaxAttempts),
		Unanswered: &i.Unanswered, UnansweredFor: &i.UnansweredFor, Problem: some(string(i.Problem)),
		Waited: &i.Waited,
	}
}

// some returns a pointer to a value, or nil for the zero value.
func some[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// forget clears the memory of all replicas, as after a restart.
func (f fixture) forget() { f.replicas.Clear() }

func (f fixture) replica(owner string) *replica {
	r, _ := f.replicas.LoadOrStore(owner, &replica{store: claim.Store{Owner: owner, Lease: lease, Namespace: "default"}})
	return r.(*replica)
}

// claimers runs claims of n owners at the same time. Each calls next with its number of calls so far, which claims and
// returns whether to go on.
func (f fixture) claimers(n int, next func(owner string, calls int) (more bool, err error)) {
	f.t.Helper()
	var all sync.WaitGroup
	for k := range n {
		all.Go(func() {
			more, err := true, error(nil)
			for calls := 0; more && err == nil; calls++ {
				more, err = next(fmt.Sprint("replica-", k), calls)
			}
			if err != nil {
				f.t.Error(err)
			}
		})
	}
	all.Wait()
}

// claimAll claims as a dispatcher does: again, as long as workers are free and more items are known.
func (f fixture) claimAll(atMost int) batch {
	f.t.Helper()
	return f.claimAllAround(atMost, nil)
}

func (f fixture) claimAllAround(atMost int, limits map[string]int) (all batch) {
	f.t.Helper()
	for range 100 {
		b, err := f.tryClaimAround("replica-1", atMost-len(all.items), limits)
		require.NoError(f.t, err)
		b.items = append(all.items, b.items...)
		if all = b; len(all.items) >= atMost || !b.more || b.capped {
			return all
		}
	}
	f.t.Fatal("a dispatcher would claim for ever")
	return all
}

func (f fixture) claim(atMost int) batch {
	f.t.Helper()
	b, err := f.tryClaim(atMost)
	require.NoError(f.t, err)
	return b
}

func (f fixture) claimBy(owner string, atMost int) batch {
	f.t.Helper()
	b, err := f.tryClaimBy(owner, atMost)
	require.NoError(f.t, err)
	return b
}

func repeated[T any](n int, value T) []T {
	values := make([]T, n)
	for i := range values {
		values[i] = value
	}
	return values
}

// dispatched settles a batch as dispatched. It returns the IDs that changed state.
func (f fixture) dispatched(b batch) []int64 {
	f.t.Helper()
	return all[int64](f, sql.Text("dispatched"), b.ids(), b.tokens(), repeated(len(b.items), "run"), "replica-1")
}

// oneRunning returns a FREE workspace's item whose workflow runs.
func (f fixture) oneRunning() int64 {
	f.t.Helper()
	id := f.item(f.tenant("FREE"))
	f.dispatched(f.claim(1))
	return id
}

// release releases a batch; unknown: a start was sent and not answered.
func (f fixture) release(b batch, unknown bool) []int64 {
	f.t.Helper()
	return all[int64](f, sql.Text("release"), b.ids(), b.tokens(), repeated(len(b.items), ""),
		repeated(len(b.items), time.Duration(0)), repeated(len(b.items), unknown))
}

func (f fixture) finish(id int64, outcome string) bool {
	f.t.Helper()
	return one[bool](f, sql.Text("finish"), f.execution(id), outcome, nil, nil)
}

// expire expires the leases of claimed items, as if a minute had passed.
func (f fixture) expire(ids ...int64) {
	f.t.Helper()
	f.exec(`update pgdispatch.workflow_execution_queue
		set claimed_at = clock_timestamp() - interval '2 minutes', lease_expires_at = clock_timestamp() - interval '1 minute'
		where id = any ($1) and status = 'CLAIMED'`, ids)
}

func (f fixture) maxClaims(n int) {
	f.t.Helper()
	f.exec(sql.Text("settings_set"), fmt.Sprintf(`{"max_claims": %d}`, n), "me")
}
