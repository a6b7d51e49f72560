package lab

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

// recorded is a database with the product's schema and the audit's triggers, in which tests plant violations. Sessions
// of planted violations skip the product's triggers, and not the audit's.
type recorded struct {
	*testing.T
	Store
	planted               *pgx.Conn
	workspace, definition string
}

func record(t *testing.T) *recorded {
	t.Helper()
	r := &recorded{T: t, Store: Store{db: sqltest.Open(t)}}
	r.exec("audit")
	r.row("workspace", []any{"w", "PRO", 5, nil, 0.5}, &r.workspace)
	r.row("definition", []any{r.workspace, "Work", "Work", "queue", nil, "workflow", "reject", nil}, &r.definition)
	var err error
	r.planted, err = pgx.ConnectConfig(t.Context(), r.db.Config().ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.planted.Close(context.Background())) })
	_, err = r.planted.Exec(t.Context(), Query("no_trigger"))
	require.NoError(t, err)
	return r
}

func (r *recorded) exec(query string, args ...any) {
	r.Helper()
	_, err := r.db.Exec(r.Context(), Query(query), args...)
	require.NoError(r, err)
}

func (r *recorded) row(query string, args []any, into ...any) {
	r.Helper()
	require.NoError(r, r.db.QueryRow(r.Context(), Query(query), args...).Scan(into...))
}

// edit changes values that hold, as an operator does.
func (r *recorded) edit(statement string) {
	r.Helper()
	_, err := r.db.Exec(r.Context(), statement)
	require.NoError(r, err)
}

// plant executes a statement without the product's triggers.
func (r *recorded) plant(statement string, args ...any) {
	r.Helper()
	_, err := r.planted.Exec(r.Context(), statement, args...)
	require.NoError(r, err)
}

// Statements that plant what becomes of an item.
const (
	claims = `update pgdispatch.workflow_execution_queue
		set status = 'CLAIMED', claimed_by = 'me', claimed_at = now(), lease_expires_at = now() + interval '1 minute',
		    lease_token = lease_token + 1
		where execution_id = $1::text::uuid`
	executed = `insert into pgdispatch.workflow_executions
			(id, workspace_id, workflow_definition_id, workflow_definition_version_id, queue_item_id, status, run_id, started_at)
		select q.execution_id, q.workspace_id, q.workflow_definition_id, v.id, q.id, 'RUNNING', 'r', now()
		from pgdispatch.workflow_execution_queue q
		join pgdispatch.workflow_definition_versions v using (workflow_definition_id)
		where q.execution_id = $1::text::uuid`
	dispatched = `update pgdispatch.workflow_execution_queue
		set status = 'DISPATCHED', dispatched_at = now(), claimed_by = null, lease_expires_at = null
		where execution_id = $1::text::uuid`
	completed = `update pgdispatch.workflow_execution_queue set status = 'COMPLETED', finished_at = now()
		where execution_id = $1::text::uuid`
	deleted = `delete from pgdispatch.workflow_execution_queue where execution_id = $1::text::uuid`
)

// changes returns the changes, with those of limits a second earlier: a claim right after one may have missed it.
func (r *recorded) changes() []audit.Change {
	r.Helper()
	changes, err := Changes(r.Context(), r)
	require.NoError(r, err)
	for n := range changes {
		if changes[n].Kind != audit.Item {
			changes[n].Committed = changes[n].Committed.Add(-time.Second)
		}
	}
	return changes
}

// call calls pgdispatch.enqueue as the applications of the load do.
func (r *recorded) call(key, policy string) audit.Call {
	r.Helper()
	c := audit.Call{Marker: uuid.NewString(), Workspace: r.workspace, Key: key, Policy: policy, Acknowledged: true,
		Sent: time.Now()}
	var quiet, atMost any
	if policy == "debounce" {
		c.Quiet, c.AtMost = time.Minute, time.Hour
		quiet, atMost = c.Quiet, c.AtMost
	}
	params := `{"ms": 1, "key": "` + key + `", "n": "` + c.Marker + `"}`
	r.row("enqueue_key", []any{r.workspace, r.definition, params, key, policy, quiet, atMost}, &c.Execution, &c.Action)
	c.Answered = time.Now()
	return c
}

func broken(violations []audit.Violation) (rules []string) {
	for _, v := range violations {
		rules = append(rules, v.Rule)
	}
	return rules
}

func TestPlantedStartsBeyondARateAreFoundInTheRecord(t *testing.T) {
	t.Parallel()
	r := record(t)
	executions := []string{uuid.NewString(), uuid.NewString()}
	for _, execution := range executions {
		r.plant(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, execution_id,
			limit_key)
			values ($1::text::uuid, $2::text::uuid, $3::text::uuid, 'metered')`, r.workspace, r.definition, execution)
	}
	r.edit(`update pgdispatch.limits set max_starts = '{1}', per = '{1 minute}' where key = 'metered'`)
	r.plant(claims, executions[0])
	require.Empty(t, audit.Rates(r.changes()))
	r.plant(claims, executions[1])
	require.Equal(t, []string{audit.RuleRate, audit.RuleRate, audit.RuleRate}, broken(audit.Rates(r.changes())))
}

func TestPlantedMistakesOfStatesAndLimitsAreFoundInTheRecord(t *testing.T) {
	t.Parallel()
	const cancelled = `update pgdispatch.workflow_execution_queue set status = 'CANCELLED', finished_at = now(),
		claimed_by = null, claimed_at = null, lease_expires_at = null where execution_id = $1::text::uuid`
	const stolen = `update pgdispatch.workflow_execution_queue set claimed_by = 'another'
		where execution_id = $1::text::uuid`
	const older = `update chaos.changes set began = began - interval '1 hour' where execution = $1::text::uuid`
	kept := `update pgdispatch.settings set retention = '1 minute', dead_letter_retention = '2 minutes'`
	for _, c := range []struct {
		rule, edit string
		planted    []string // each for both items
	}{
		{"", kept, []string{claims, dispatched, completed}},
		{audit.RuleLate + "; " + audit.RuleMoves, kept, []string{claims, cancelled}},
		{audit.RuleCap, `update pgdispatch.settings set max_claims = 1`, []string{claims}},
		{audit.RuleLimit, `update pgdispatch.workspaces set max_concurrent_workflows = 1`, []string{claims, dispatched}},
		{audit.RuleKey, `update pgdispatch.limits set max_concurrent = 1 where key = 'own'`, []string{claims, dispatched}},
		{audit.RuleKey, `update pgdispatch.limits set max_concurrent = 1 where key = 'shared'`, []string{claims, dispatched}},
		{"", `delete from pgdispatch.limits`, []string{claims, dispatched}},
		{audit.RulePause, `update pgdispatch.settings set paused = true`, []string{claims}},
		{audit.RulePause, `update pgdispatch.workspaces set paused = true`, []string{claims}},
		{audit.RulePause, `update pgdispatch.limits set paused = true where key = 'own'`, []string{claims}},
		{audit.RuleTokens, kept, []string{claims, stolen}},
		{audit.RuleExpiry, kept, []string{claims, strings.ReplaceAll(dispatched, "now()", "now() + interval '1 hour'")}},
		{audit.RuleKept, kept, []string{claims, dispatched, completed, deleted}},
		{"", kept, []string{claims, dispatched, completed, older, deleted}},
		{audit.RuleKept, kept, []string{deleted}},
	} {
		t.Run(c.rule+": "+c.edit, func(t *testing.T) {
			t.Parallel()
			r := record(t)
			r.edit(c.edit)
			key := "own"
			if strings.Contains(c.edit, "shared") {
				key = "shared"
			}
			executions := []string{uuid.NewString(), uuid.NewString()}
			for _, execution := range executions {
				r.exec("cell_enqueue", r.workspace, r.definition, execution, key, nil)
			}
			for _, statement := range c.planted {
				for _, execution := range executions {
					r.plant(statement, execution)
				}
			}
			got := slices.Sorted(slices.Values(broken(audit.Replay(r.changes(), 9).Violations)))
			require.Equal(t, c.rule, strings.Join(slices.Compact(got), "; "))
			found, err := AllFound(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, c.planted[0] != deleted, len(found) == 2, "what was deleted after its end is found")
		})
	}
}

func TestPlantedMistakesOfPoliciesAreFoundInTheRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, rule string
		plant      func(r *recorded, calls []audit.Call) []audit.Call
	}{
		{"no mistake", "", func(_ *recorded, calls []audit.Call) []audit.Call { return calls }},
		{"a replaced item has its old params", audit.RuleCalls, func(_ *recorded, calls []audit.Call) []audit.Call {
			calls[1].Marker = uuid.NewString()
			return calls
		}},
		{"a claimed item is changed", audit.RuleParams, func(r *recorded, calls []audit.Call) []audit.Call {
			r.plant(claims, calls[0].Execution)
			r.plant(`update pgdispatch.workflow_execution_queue set params = params || '{"n": "later"}'
				where execution_id = $1::text::uuid`, calls[0].Execution)
			return append(calls, audit.Call{Marker: "later", Unknown: true})
		}},
		{"a second item of the key waits", audit.RuleWaiting, func(r *recorded, calls []audit.Call) []audit.Call {
			r.plant(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
				values ($1::text::uuid, $2::text::uuid, '{"key": "mixed-1", "n": "later"}')`, r.workspace, r.definition)
			return append(calls, audit.Call{Marker: "later", Unknown: true})
		}},
		{"a skip inserts beside a running item", audit.RuleSkip, func(r *recorded, calls []audit.Call) []audit.Call {
			skip := r.call(audit.SkipPrefix+"1", "skip")
			r.plant(claims, skip.Execution)
			r.plant(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
				values ($1::text::uuid, $2::text::uuid, '{"key": "skip-1", "n": "later"}')`, r.workspace, r.definition)
			return append(calls, skip, audit.Call{Marker: "later", Unknown: true})
		}},
		{"a debounced item is claimed at once", audit.RuleQuiet, func(r *recorded, calls []audit.Call) []audit.Call {
			debounced := r.call("mixed-2", "debounce")
			r.plant(claims, debounced.Execution)
			return append(calls, debounced)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := record(t)
			calls := []audit.Call{r.call("mixed-1", "replace"), r.call("mixed-1", "replace"), r.call("mixed-1", "skip")}
			require.Equal(t, [3]string{"inserted", "replaced", "skipped"},
				[3]string{calls[0].Action, calls[1].Action, calls[2].Action})
			calls = c.plant(r, calls)
			got := broken(audit.Policies(calls, r.changes(), nil))
			if c.rule == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got, c.rule)
		})
	}
}

func TestPlantedClaimsOfLateItemsAreFoundInTheRecord(t *testing.T) {
	t.Parallel()
	r := record(t)
	executions := []string{uuid.NewString(), uuid.NewString(), uuid.NewString()}
	r.exec("enqueue", r.workspace, r.definition, executions, `{}`, 0, time.Duration(0), nil, time.Hour)
	judge := func() []string { return broken(audit.Replay(r.changes(), 9).Violations) }
	r.plant(claims, executions[0])
	require.Empty(t, judge())
	const late = `update pgdispatch.workflow_execution_queue set start_before = now() where execution_id = $1::text::uuid`
	r.plant(late, executions[1])
	r.plant(claims, executions[1])
	require.Equal(t, []string{audit.RuleLate}, judge())
	r.plant(`update pgdispatch.workflow_execution_queue set status = 'CANCELLED', finished_at = now()
		where execution_id = $1::text::uuid`, executions[2])
	require.Equal(t, []string{audit.RuleLate, audit.RuleLate}, judge(), "it is in time")
}

func TestPlantedReportsOfEndsAreFoundInTheRows(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"push_finish", "push_completed", "push_failed"} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			r := record(t)
			execution := uuid.NewString()
			r.exec("enqueue", r.workspace, r.definition, []string{execution}, `{"ms": 1}`, 0, time.Duration(0), nil, nil)
			r.plant(claims, execution)
			r.plant(executed, execution)
			r.plant(dispatched, execution)
			push := audit.Push{Execution: execution, Marker: "pushed 1", First: true}
			if query == "push_finish" {
				r.row(query, []any{execution, "COMPLETED", push.Marker}, &push.First)
				require.True(t, push.First)
			} else {
				r.exec(query, execution, push.Marker)
			}
			judge := func() []string {
				found, err := AllFound(t.Context(), r)
				require.NoError(t, err)
				return broken(audit.Pushes([]audit.Push{push}, found))
			}
			require.Empty(t, judge())
			r.plant(`update pgdispatch.workflow_executions set error = null, result_note = null, result = null
				where id = $1::text::uuid`, execution)
			require.Equal(t, []string{audit.RulePushed}, judge())
		})
	}
}

func TestPlantedRemainsAreFoundInTheTables(t *testing.T) {
	t.Parallel()
	r := record(t)
	call := r.call("mixed-1", "replace")
	var open, running, old int
	var oldest []string
	r.row("open_items", nil, &open, &oldest)
	require.Equal(t, 1, open)
	r.exec("signal", call.Execution, "note", "1")
	r.plant(claims, call.Execution)
	r.plant(executed, call.Execution)
	r.plant(dispatched, call.Execution)
	r.exec("request_cancel", call.Execution)
	r.plant(`insert into pgdispatch.item_failures (item_id, failure, attempt, error) select q.id, 1, 1, 'planted'
		from pgdispatch.workflow_execution_queue q where q.execution_id = $1::text::uuid`, call.Execution)
	r.plant(`insert into pgdispatch.parked_items (item_id, error, attempts, try_at) select q.id, 'planted', 1, now()
		from pgdispatch.workflow_execution_queue q where q.execution_id = $1::text::uuid`, call.Execution)
	var dispatched int
	r.row("probe_items", []any{[]string{call.Execution}}, &dispatched)
	require.Equal(t, 1, dispatched)
	r.plant(completed, call.Execution)
	r.row("executions_open", nil, &running)
	require.Equal(t, 1, running)
	r.row("overdue", []any{time.Hour}, &old)
	require.Zero(t, old)
	r.row("overdue", []any{-time.Second}, &old)
	require.Equal(t, 1, old)
	left := func() []string {
		places, err := Rows(t.Context(), r, "left_behind", pgx.RowTo[string])
		require.NoError(t, err)
		return places
	}
	require.Empty(t, left())
	r.plant(deleted, call.Execution)
	require.ElementsMatch(t,
		[]string{"executions", "signals", "stop requests", "failures", "keys", "parked items"}, left())
}
