package sqltest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// Shop is a database with one workspace, "shop", with room for 100 executions.
type Shop struct {
	Conns *pgxpool.Pool
	Shop  string // the workspace's ID
	t     testing.TB
}

// NewShop returns a new Shop on a database of its own.
func NewShop(t testing.TB) *Shop {
	t.Helper()
	s := &Shop{t: t, Conns: Pool(t, URL(t)+"&pool_max_conns=20")}
	s.Shop = s.NewWorkspace("shop", 100)
	return s
}

// NewWorkspace creates a workspace with a definition that has one version, and returns the workspace's ID.
func (s *Shop) NewWorkspace(name string, limit int) string {
	s.t.Helper()
	id := Scalar[string](s,
		`insert into pgdispatch.workspaces (name, max_concurrent_workflows) values ($1, $2) returning id::text`, name, limit)
	s.Execute(`with d as (
			insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
			values ($1::uuid, 'order', 'Order', 'orders') returning id
		)
		insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
		select id, 1, '{"nodes": [{"id": "n1"}, {"id": "n2"}], "edges": []}' from d`, id)
	return id
}

// Insert enqueues n items in a workspace.
func (s *Shop) Insert(workspace string, items int) {
	s.t.Helper()
	s.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select d.workspace_id, d.id from pgdispatch.workflow_definitions d, generate_series(1, $2::integer)
		where d.workspace_id = $1::uuid`, workspace, items)
}

// InsertWith enqueues items in a workspace. Further columns have SQL expressions, in which n counts the items.
func (s *Shop) InsertWith(workspace string, items int, columns, values string, args ...any) {
	s.t.Helper()
	s.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, `+columns+`)
		select workspace_id, id, `+values+` from pgdispatch.workflow_definitions, generate_series(1, $2::integer) n
		where workspace_id = $1::uuid`, append([]any{workspace, items}, args...)...)
}

// Limit sets the limit of a key, in the shop or over all workspaces.
func (s *Shop) Limit(inShop bool, key string, most, starts, per any) {
	s.t.Helper()
	var workspace any
	if inShop {
		workspace = s.Shop
	}
	s.Execute(`insert into pgdispatch.limits (workspace_id, key, max_concurrent, max_starts, per)
		values ($1, $2, $3, $4::text::integer[], $5::text::interval[])`, workspace, key, most, starts, per)
}

// Expire expires items' leases.
func (s *Shop) Expire(items ...int64) {
	s.t.Helper()
	s.Execute(`update pgdispatch.workflow_execution_queue
		set lease_expires_at = clock_timestamp() - interval '1 millisecond' where id = any ($1)`, items)
}

// Status returns an item's status.
func (s *Shop) Status(item int64) string {
	s.t.Helper()
	return Scalar[string](s, "select status from pgdispatch.workflow_execution_queue where id = $1", item)
}

// Execute runs a statement.
func (s *Shop) Execute(statement string, args ...any) {
	s.t.Helper()
	_, err := s.Conns.Exec(context.Background(), statement, args...)
	require.NoError(s.t, err)
}

// Scalar reads one value.
func Scalar[T any](s *Shop, statement string, args ...any) T {
	s.t.Helper()
	var value T
	require.NoError(s.t, s.Conns.QueryRow(context.Background(), statement, args...).Scan(&value))
	return value
}
