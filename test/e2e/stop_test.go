package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func TestExecutionsAreStoppedByRequest(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enqueues()
	item := d.claims()[0]
	d.settles(claim.Dispatched, claim.Settlement{ID: item.ID, Token: item.Token, RunID: "run"})
	d.enqueues()
	out, err := d.answers("n\n", "executions", "terminate", "1", "2")
	require.EqualError(t, err, "nothing was changed: answer y, or repeat the command with --yes")
	require.Equal(t, "terminate the execution of 2 items? [y/N] ", out)
	require.Equal(t, "0", d.value("select count(*)::text from pgdispatch.admin_log where action like 'executions%'"))

	require.Regexp(t,
		`^1  execution-\S{36}  requested: a replica will carry it out\n`+
			`2  execution-\S{36}  withdrawn: it was not started yet\n$`,
		d.types("executions", "cancel", "1", "2", "--yes", "--by", "ann", "--reason", "enough"))
	require.Regexp(t, `already requested\n$`, d.types("executions", "cancel", "1", "--yes"))
	var outcome []stopped
	require.NoError(t,
		json.Unmarshal([]byte(d.types("executions", "terminate", "1", "2", "--yes", "--by", "ann", "-o", "json")), &outcome))
	require.Equal(t,
		[]stopped{{item.ExecutionID, 1, "REQUESTED"},
			{d.value("select execution_id::text from pgdispatch.workflow_execution_queue where id = 2"), 2, "ALREADY_ENDED"}},
		outcome)
	require.Regexp(t, `(?m)^stop +termination requested by ann, no reason given; not carried out yet$`,
		d.types("executions", "show", "1"))
	require.Contains(t, d.story("1"), "termination requested by ann, no reason given; not carried out yet")
	require.Contains(t, d.types("audit", "list"), "executions terminate")
	_, errs, code := d.tries("executions", "cancel", "1", "--yes", "--reason", "a\nb")
	require.Equal(t, 1, code)
	require.Contains(t, errs, `--reason is "a\nb": it must have at most 500 characters and no control characters`)
}

// The poll interval is minutes, so only the wake-up can carry it out immediately.
func TestAReplicaStopsWhatItIsAskedToAndTheEndFreesTheSlot(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	d := &desk{t: t, url: s.url, db: s.db}
	s.replica("PGDISPATCH_POLL_INTERVAL=1h").ready()
	cancelled := s.enqueue("FREE", "Cancelled", 1)[0]
	terminated := s.enqueue("FREE", "Cancelled", 1)[0]
	last := s.enqueue("FREE", "Echo", 1)[0]
	s.eventually(func() bool { return s.statusOf(cancelled) == "DISPATCHED" }, "the first starts")
	d.types("executions", "cancel", cancelled, "--yes")
	s.eventually(func() bool { return s.statusOf(terminated) == "DISPATCHED" }, "its end has freed the slot")
	require.Equal(t, "REQUESTED", one[string](s, "select pgdispatch.request_terminate($1, 'enough')", terminated))
	s.eventually(func() bool { return s.statusOf(last) == "COMPLETED" }, "the second's end too")
	for execution, want := range map[string]string{cancelled: "CANCELED workflow was cancelled",
		terminated: "TERMINATED workflow was terminated: enough"} {
		require.Equal(t, want,
			one[string](s, "select status || ' ' || error from pgdispatch.workflow_executions where id = $1", execution))
		s.eventually(func() bool { // the workflow may end before the answer to the request is recorded
			return one[string](s, "select state from pgdispatch.stop_requests where execution_id = $1", execution) == "SENT"
		}, "the request is settled")
	}
	require.Equal(t, int64(1),
		one[int64](s, "select n from audit.greatest_held where workspace_id = $1", s.workspace["FREE"]))
}

// Any replica carries out a request later that was made while Temporal was unavailable.
func TestARequestOutlivesAnOutageAndItsReplica(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	proxy := newProxy(t, s.temporal)
	direct := s.temporal
	s.temporal = proxy.Address
	first := s.replica("PGDISPATCH_LEASE=1s").ready()
	execution := s.enqueue("FREE", "Cancelled", 1)[0]
	s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "the execution is dispatched")
	proxy.down()
	s.exec("select pgdispatch.request_cancel($1)", execution)
	s.eventually(func() bool {
		return one[bool](s, "select error is not null from pgdispatch.stop_requests")
	}, "the first attempt fails")
	require.NoError(t, first.Kill())
	s.temporal = direct
	s.replica("PGDISPATCH_LEASE=1s").ready()
	s.eventually(func() bool { return s.statusOf(execution) == "FAILED" }, "the execution is cancelled")
	s.eventually(func() bool { return one[string](s, "select state from pgdispatch.stop_requests") == "SENT" },
		"the request is settled")
}

func TestAQueueWithoutAWorkerIsFoundAndShown(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	d := &desk{t: t, url: s.url, db: s.db}
	s.exec("update pgdispatch.workflow_definitions set task_queue = 'nobody' where name = 'Echo'")
	p := s.replica().ready()
	stuck := s.enqueue("PRO", "Echo", 1)[0]
	held := s.enqueue("PRO", "Hold", 1)[0]
	s.eventually(func() bool { return s.statusOf(stuck) == "DISPATCHED" && s.statusOf(held) == "DISPATCHED" }, "both run")
	s.exec("update pgdispatch.workflow_executions set started_at = started_at - interval '1 hour'")
	s.exec("update pgdispatch.stall_look set looked_at = '-infinity'") // a look may have happened while they were young
	s.eventually(func() bool {
		return p.has("No worker polls the task queue; start a worker, or correct task_queue in the workflow definitions")
	}, "the stall is recorded")
	require.Regexp(t, `(?m)^task queue +default +nobody +1 +\S.* +no worker has polled it for minutes$`, d.types("status"))
	var shown operate.Overview
	require.NoError(t, json.Unmarshal([]byte(d.types("status", "-o", "json")), &shown))
	require.Len(t, shown.Stalled, 1)
	d.types("executions", "terminate", stuck, "--yes")
	s.eventually(func() bool { return s.statusOf(stuck) == "FAILED" }, "the execution is terminated")
	require.NotContains(t, d.types("status"), "STALLED")
}

// stopped is a row of the JSON output of `executions cancel` and `terminate`.
type stopped struct {
	ID          string `json:"id"`
	QueueItemID int64  `json:"queue_item_id"`
	Answer      string `json:"answer"`
}
