package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
)

// checkEnds checks that each item has ended as it should, and that each workflow has read its signals once and in
// order.
func (s *shop) checkEnds(replayed int) {
	s.t.Helper()
	const left = `select coalesce(string_agg(format('%s of %s %s', l.items, l.workspace, l.status), ', '), '') from (
		select count(*) as items, w.name as workspace, d.name || ' ' || q.stage as status
		from pgdispatch.workflow_execution_queue q join pgdispatch.workspaces w on w.id = q.workspace_id
		join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
		where q.status not in ('COMPLETED', 'FAILED', 'CANCELLED') group by 2, 3) l`
	unended := ""
	s.t.Cleanup(func() {
		if unended != "" {
			s.t.Log("not ended: " + unended)
		}
	})
	s.eventually(func() bool {
		unended = one[string](s, left)
		return unended == ""
	}, "everything ends")
	require.Equal(s.t, len(s.items)+replayed, one[int](s, "select count(*) from pgdispatch.workflow_execution_queue"))
	ends := map[string]map[string]int{}
	for execution, it := range s.items {
		end := one[string](s, `select coalesce(e.status, q.status) || coalesce(' ' || e.result::text, '')
			from pgdispatch.workflow_execution_queue q left join pgdispatch.workflow_executions e on e.id = q.execution_id
			where q.execution_id = $1`, execution)
		if ends[it.workflow] == nil {
			ends[it.workflow] = map[string]int{}
		}
		ends[it.workflow][end]++
	}
	s.t.Logf("%d items: %v", len(s.items), ends)
	for workflow, allowed := range map[string][]string{
		work: {"COMPLETED"}, fails: {"FAILED"}, again: {"COMPLETED"}, collect: {"COMPLETED [0, 1, 2, 3]"},
		forever: {"CANCELED", "CANCELLED"}, late: {"FAILED", "COMPLETED"},
	} {
		require.NotEmpty(s.t, ends[workflow], workflow)
		for end, items := range ends[workflow] {
			require.Contains(s.t, allowed, end, "%d items of %s", items, workflow)
		}
	}
	require.Zero(s.t, one[int](s, "select count(*) from pgdispatch.signals where state <> 'DELIVERED'"))
	require.Zero(s.t, one[int](s, "select count(*) from pgdispatch.dead_letters d join pgdispatch.workflow_definitions f"+
		" on f.id = d.workflow_definition_id where f.name = $1", late), "each is replayed")
}

// checkRuns asks Temporal for all runs: each started item has one workflow, and no workspace had more of them at once
// than it may.
func (s *shop) checkRuns() {
	s.t.Helper()
	type event struct {
		at    time.Time
		delta int
	}
	of := map[string]*tenant{}
	for _, w := range append(s.tenants, s.steady) {
		of[w.id] = w
	}
	workspaces := map[string]string{}
	rows, err := s.db.Query(context.Background(), "select 'execution-' || execution_id, workspace_id::text"+
		" from pgdispatch.workflow_execution_queue where dispatched_at is not null")
	require.NoError(s.t, err)
	for rows.Next() {
		var id, workspace string
		require.NoError(s.t, rows.Scan(&id, &workspace))
		workspaces[id] = workspace
	}
	require.NoError(s.t, rows.Err())

	var runs map[string]int
	var events map[string][]event
	s.eventually(func() bool {
		runs, events = map[string]int{}, map[string][]event{}
		for token := []byte(nil); ; {
			page, err := s.client.ListWorkflow(context.Background(),
				&workflowservice.ListWorkflowExecutionsRequest{NextPageToken: token})
			if err != nil {
				return false
			}
			for _, run := range page.Executions {
				if run.CloseTime == nil {
					return false
				}
				id := run.GetExecution().GetWorkflowId()
				if runs[id]++; run.GetType().GetName() == again && runs[id] == 2 {
					runs[id] = 1
				}
				events[workspaces[id]] = append(events[workspaces[id]], event{run.StartTime.AsTime(), 1},
					event{run.CloseTime.AsTime(), -1})
			}
			if token = page.NextPageToken; len(token) == 0 {
				return len(runs) >= len(workspaces)
			}
		}
	}, "Temporal lists every started workflow as closed")
	for id, n := range runs {
		require.Equal(s.t, 1, n, "runs of %s", id)
		require.Contains(s.t, workspaces, id, "a workflow without an item")
	}
	for workspace, list := range events {
		slices.SortFunc(list, func(a, b event) int { return cmp2(a.at, b.at, a.delta, b.delta) })
		running, greatest := 0, 0
		for _, e := range list {
			running += e.delta
			greatest = max(greatest, running)
		}
		require.LessOrEqual(s.t, greatest, of[workspace].limit, "workflows of %s that ran at once", of[workspace].name)
	}
}

// cmp2 orders by time, and ends before starts.
func cmp2(a, b time.Time, deltaA, deltaB int) int {
	if order := a.Compare(b); order != 0 {
		return order
	}
	return deltaA - deltaB
}

// checkLimits replays every change of an item in the order of commits.
func (s *shop) checkLimits() {
	s.t.Helper()
	leased := one[int](s, "select n from audit.greatest_leased")
	text := "most leased at once: " + strconv.Itoa(leased) + " of " + strconv.Itoa(maxClaims) + "; slots held:"
	require.LessOrEqual(s.t, leased, maxClaims)
	for _, w := range append(s.tenants, s.steady) {
		held := one[int](s, "select n from audit.greatest_held where workspace_id = $1", w.id)
		text += fmt.Sprintf(" %s %d of %d,", w.name, held, w.limit)
		require.LessOrEqual(s.t, held, w.limit, w.name)
	}
	keyed := one[int](s, `select max(n) from (
		select sum(sum(c.held)) over (order by pg_xact_commit_timestamp(c.xid::xid), c.xid) as n
		from audit.changes c join pgdispatch.workflow_execution_queue q on q.id = c.item
		where q.limit_key is not null group by c.xid) t`)
	s.t.Logf("%s with the key %d of %d", text, keyed, keyLimit)
	require.Equal(s.t, keyLimit, keyed, "slots held by items with the key; it is reached")
}

// longestPause returns the longest time without a start between two times, by the database's clock, and when it began.
func (s *shop) longestPause(from, to time.Time) (longest time.Duration) {
	s.t.Helper()
	return one[time.Duration](s, `select max(following - at) from (
		select s.at, lead(s.at, 1, $2) over (order by s.at) as following from (
			select q.dispatched_at as at from pgdispatch.workflow_execution_queue q where q.dispatched_at between $1 and $2
			union all select $1) s
		) p`, from, to)
}

func (s *shop) now() time.Time { return one[time.Time](s, "select clock_timestamp()") }
