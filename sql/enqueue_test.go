package sql_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

const withKey = `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, idempotency_key)
	values ($1, $2, $3)`

// left counts the rows that rejected or rolled-back inserts must not leave behind.
func (f fixture) left() int {
	return one[int](f, `select (select count(*) from pgdispatch.workflow_execution_queue) + (select count(*)
		from pgdispatch.marks)
		+ (select count(*) from pgdispatch.workflow_executions)`)
}

func TestEnqueueNeedsThreeColumns(t *testing.T) {
	f, w := openFor(t, "FREE")
	id := one[int64](f, insertParams, w.workspace, w.definition, `{"month": "2026-08"}`)
	defaults := one[bool](f, `select status = 'PENDING' and priority = 0 and run_at = created_at and attempt_count = 0
		and failure_count = 0
		and idempotency_key is null and traceparent is null and not outcome_unknown
		from pgdispatch.workflow_execution_queue where id = $1`, id)
	require.True(t, defaults)

	claimed := f.claim(10)
	require.Len(t, claimed.Items, 1)
	item := claimed.Items[0]
	require.Equal(t, id, item.ID)
	require.Equal(t, f.execution(id), item.ExecutionID)
	require.Equal(t, `{"month": "2026-08"}`, string(item.Params))
	require.Equal(t, "Report reports", item.WorkflowType+" "+item.TaskQueue)
	require.Equal(t, `["fetch", "send"]`, string(item.NodeIDs))
	require.Equal(t, w.version, item.WorkflowDefinitionVersionID)
}

func TestEnqueueAcceptsDefaultsThatAClientSpellsOut(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.exec(`insert into pgdispatch.workflow_execution_queue
			(id, execution_id, workspace_id, workflow_definition_id, status, priority, run_at, params, attempt_count,
				failure_count,
			 lost_lease_count, last_error, created_at, claimed_by, claimed_at, lease_expires_at, lease_token, outcome_unknown,
			 	dispatched_at, finished_at)
		values (default, default, $1, $2, 'PENDING', 0, default, default, 0, 0, 0, null, now(), null, null, null, 0, false,
			null, null)`,
		w.workspace, w.definition)
	require.Len(t, f.claim(1).Items, 1)
}

func TestEnqueueInTheTransactionThatMakesTheDefinition(t *testing.T) {
	f := open(t)
	in, tx := f.begin()
	w := in.tenant("FREE")
	id := in.item(w)
	require.Empty(t, f.claim(10).Items, "invisible before the commit")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []int64{id}, f.claim(10).ids())
}

func TestEnqueueByCopy(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	rows := [][]any{}
	for n := range 10 {
		rows = append(rows, []any{w.workspace, w.definition, map[string]int{"n": n}})
	}
	n := must.Get(f.pool.CopyFrom(t.Context(), queueTable, []string{"workspace_id", "workflow_definition_id", "params"},
		pgx.CopyFromRows(rows))).In(t)
	require.EqualValues(t, 10, n)
	require.NoError(t, f.copyText("workspace_id, workflow_definition_id, params",
		strings.Repeat(w.workspace+"\t"+w.definition+"\t{\"n\": 1}\n", 10)))
	require.Zero(t, f.count("marks"), "new items need no marks")
	require.Len(t, f.claim(30).Items, 20)
}

var queueTable = pgx.Identifier{"pgdispatch", "workflow_execution_queue"}

// copyText sends rows as psql's \copy does.
func (f fixture) copyText(columns, rows string) error {
	conn := must.Get(f.db.(*pgxpool.Pool).Acquire(f.t.Context())).In(f.t)
	defer conn.Release()
	_, err := conn.Conn().PgConn().CopyFrom(f.t.Context(), strings.NewReader(rows),
		"copy pgdispatch.workflow_execution_queue ("+columns+") from stdin")
	return err
}

func TestCopyWithOneBadRowLeavesNothing(t *testing.T) {
	f, w, other := openForTwo(t, "FREE", "FREE")
	good := w.workspace + "\t" + w.definition + "\t{}\n"
	for name, bad := range map[string]struct{ row, code string }{
		"no object":          {w.workspace + "\t" + w.definition + "\t[]\n", "PGD04"},
		"unknown definition": {w.workspace + "\t" + nobody + "\t{}\n", "PGD02"},
		"foreign definition": {w.workspace + "\t" + other.definition + "\t{}\n", "PGD03"},
		"no JSON":            {w.workspace + "\t" + w.definition + "\t{\n", "22P02"},
		"null":               {w.workspace + "\t" + w.definition + "\t\\N\n", "23502"},
	} {
		err := f.copyText("workspace_id, workflow_definition_id, params", strings.Repeat(good, 999)+bad.row+good)
		require.Equal(t, bad.code, f.pgError(err).Code, name)
		require.Zero(t, f.left(), name)
	}
}

func TestIdempotencyKeyIsUniqueInItsWorkspaceOnly(t *testing.T) {
	f, a, b := openForTwo(t, "FREE", "FREE")
	f.exec(withKey, a.workspace, a.definition, "invoice-17")
	refusal := f.refusedAs("23505", "", withKey, a.workspace, a.definition, "invoice-17")
	require.Equal(t, "workflow_execution_queue_idempotency", refusal.ConstraintName)
	f.exec(withKey, b.workspace, b.definition, "invoice-17")
	require.EqualValues(t, 0, f.exec(withKey+" on conflict do nothing", a.workspace, a.definition, "invoice-17"))
	require.EqualValues(t, 0,
		f.exec(withKey+" on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing",
			a.workspace, a.definition, "invoice-17"))
	require.Equal(t, 2, f.count("workflow_execution_queue"))
	for _, id := range f.dispatched(f.claimAll(2)) {
		require.True(t, f.finish(id, "COMPLETED"))
	}
	f.refusedAs("23505", "", withKey, a.workspace, a.definition, "invoice-17")
}

func TestReadsOfAnApplication(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.tenant("FREE")
	f.items(w, 3)
	f.at(w, 0, time.Hour)
	f.dispatched(f.claim(1))
	b := f.claim(1)
	require.Equal(t, 2, one[int](f, "select pgdispatch.pending_count($1)", w.workspace))
	row := one[string](f, `select format('%s %s %s %s %s %s', waiting, scheduled, claimed, running,
		max_concurrent_workflows, oldest_waiting_since is not null)
		from pgdispatch.workspace_statistics where workspace_id = $1`, w.workspace)
	require.Equal(t, "1 1 1 1 5 t", row)
	first := one[string](f, "select name from ("+strings.ReplaceAll(sql.Text("workspace_statistics"), "$1", "1")+") s")
	require.Equal(t, "tenant on PRO", first, "the workspace with the most items comes first")
	f.release(b, true)
	require.Equal(t, 3, one[int](f, "select pgdispatch.pending_count($1)", w.workspace), "unanswered starts count too")
	require.Equal(t, 1, f.count("workspace_statistics where workspace_id = $1 and unanswered = 1", w.workspace))
}

func TestDeadLettersAreTheItemsThatFailedForGood(t *testing.T) {
	f, claimed := openClaimed(t, "PRO", 3)
	one, two := claimed.Items[0].ID, claimed.Items[1].ID
	all[int64](f, sql.Text("fail"), []int64{one}, claimed.tokens()[:1], []string{"input too large"})
	f.dispatched(claimed)
	f.finish(two, "TERMINATED")
	dead := all[string](f,
		"select format('%s %s %s', id, execution_status, last_error) from pgdispatch.dead_letters order by id")
	require.Equal(t,
		[]string{fmt.Sprintf("%d FAILED input too large", one), fmt.Sprintf("%d TERMINATED workflow terminated", two)}, dead)
}

func TestStartOptionsAreCheckedFieldByField(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.exec(
		`update pgdispatch.workflow_definitions set start_options = '{"allow_overrides": ["task_queue"]}' where id = $1`,
		w.definition)
	insert := insertWith("start_options")
	for _, good := range []string{
		`{}`, `{"workflow_run_timeout": "1.5h", "workflow_task_timeout": "10s"}`, `{"task_queue": "special"}`,
		`{"retry_policy": {"initial_interval": "1s", "backoff_coefficient": 2.5, "maximum_interval": "1m",
			"maximum_attempts": 3,
			"non_retryable_error_types": ["Declined"]}}`,
		`{"search_attributes": {"CustomerId": "c-1", "Tags": ["a"]}, "memo": {"any": {"value": [1, null]}}}`,
		`{"priority": {"priority_key": 1, "fairness_key": "acme", "fairness_weight": 2.5},
			"static_summary": "Order 17", "static_details": "*md*"}`,
		`{"versioning_override": {"pinned": {"deployment_name": "orders", "build_id": "b7"}}}`,
		`{"versioning_override": {"auto_upgrade": true}}`,
	} {
		f.exec(insert, w.workspace, w.definition, good)
	}
	for bad, message := range map[string]string{
		`[]`:                                "start_options must be a JSON object, not array",
		`{"workflow_id": "mine"}`:           "start_options has no field workflow_id",
		`{"retry_policy": {"attempts": 3}}`: "start_options has no field retry_policy.attempts",
		`{"retry_policy": {"maximum_attempts": 1.5}}`: "start_options.retry_policy.maximum_attempts is 1.5, " +
			"it must be a whole number from 0",
		`{"retry_policy": {"non_retryable_error_types": [1]}}`: "start_options.retry_policy.non_retryable_error_types " +
			"is [1], it must be a list of strings",
		`{"workflow_run_timeout": 90}`: "start_options.workflow_run_timeout is 90, it must be " +
			"a duration such as",
		`{"workflow_run_timeout": "1 day"}`: `start_options.workflow_run_timeout is "1 day", ` +
			`it must be a duration such as`,
		`{"memo": "x"}`: `start_options.memo is "x", it must be an object`,
		`{"memo": {"pgdispatch_execution_id": "x"}}`: "start_options.memo has a field that pgdispatch sets",
		`{"memo": {"pgdispatch_workspace_id": "x"}}`: "start_options.memo has a field that pgdispatch sets",
		`{"workflow_type": "Other"}`: "start_options.workflow_type may not be set: the " +
			"definition does not allow it",
		`{"allow_overrides": []}`: "start_options.allow_overrides is for a definition, " +
			"not for an item",
		`{"static_summary": "` + strings.Repeat("x", 70_000) +
			`"}`: "start_options has 70022 bytes as text, the limit is 65536",
	} {
		f.refusedAs("PGD11", message, insert, w.workspace, w.definition, bad)
	}
	f.refusedAs("PGD11", "", `update pgdispatch.workflow_definitions set start_options = '{"memo": 1}'`)
	f.refusedAs("PGD11", "", `update pgdispatch.workflow_execution_queue set start_options = '{"x": 1}'`)
}

func TestAnItemsStartOptionsReplaceThoseOfItsDefinition(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.exec(`update pgdispatch.workflow_definitions
		set start_options = '{"workflow_run_timeout": "1h", "static_summary": "of the definition"}'`)
	f.exec(`insert into pgdispatch.enqueue (workspace_id, workflow_definition_id, start_options)
		values ($1, $2, '{"static_summary": "mine"}')`,
		w.workspace, w.definition)
	f.item(w)
	store := &claim.Store{Pool: f.pool, Owner: "replica-1", Lease: lease}
	batch := must.Get(store.Claim(t.Context(), 10)).In(t)
	require.Len(t, batch.Items, 2)
	require.JSONEq(t, `{"workflow_run_timeout": "1h", "static_summary": "mine"}`, string(batch.Items[0].StartOptions))
	require.JSONEq(t, `{"workflow_run_timeout": "1h", "static_summary": "of the definition"}`,
		string(batch.Items[1].StartOptions))
}
