package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/request"
)

const add = "select pgdispatch.signal($1, 'add', to_jsonb($2::text))"

// collected returns the result of a Collect or Relay workflow.
func (s *stack) collected(execution string) []string {
	s.t.Helper()
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "the workflow reads them all")
	var all []string
	result := one[string](s, `select coalesce(result::text, result_note, 'null') from pgdispatch.workflow_executions
		where id = $1`, execution)
	require.NoError(s.t, json.Unmarshal([]byte(result), &all), result)
	return all
}

// numbers returns 0 to n-1.
func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}

// The poll interval is an hour, so only wake-ups deliver them.
func TestSignalsOfTheEnqueuersTransactionReachTheWorkflowOnceAndInOrder(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica("PGDISPATCH_POLL_INTERVAL=1h").ready()
	holds := s.enqueue("FREE", "Hold", 1)[0]
	s.eventually(func() bool { return s.statusOf(holds) == "DISPATCHED" }, "it has the one slot")

	tx, err := s.db.Begin(t.Context())
	require.NoError(t, err)
	var execution string
	require.NoError(t, tx.QueryRow(t.Context(), `
		insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select workspace_id, id from pgdispatch.workflow_definitions where workspace_id = $1 and name = 'Collect'
		returning execution_id::text`, s.workspace["FREE"]).Scan(&execution))
	for _, n := range numbers(10) {
		_, err := tx.Exec(t.Context(), add, execution, n)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(t.Context()))
	s.exec(add, execution, "10")
	other := s.enqueue("PRO", "Collect", 1)[0]
	s.exec(add, other, "end")
	require.Empty(t, s.collected(other))
	require.Equal(t, "PENDING", s.statusOf(execution), "a signal bypasses no limit")

	s.exec("select pgdispatch.signal($1, 'go')", holds)
	s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "its end has freed the slot")
	s.exec(add, execution, "11")
	s.exec(add, execution, "end")
	require.Equal(t, numbers(12), s.collected(execution))
	require.Equal(t, int64(0), one[int64](s, "select count(*) from pgdispatch.signals where state <> 'DELIVERED'"))
}

func TestSixteenSendersAndADyingReplicaKeepTheOrderAndRepeatNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	first := s.replica("PGDISPATCH_LEASE=2s").ready()
	executions := append(s.enqueue("PRO", "Collect", 1), s.enqueue("PRO", "Relay", 1)...)
	for _, execution := range executions {
		s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "it runs")
	}
	const each = 12
	var sending sync.WaitGroup
	for sender := range 16 {
		sending.Go(func() {
			for n := range each {
				for _, execution := range executions {
					if _, err := s.db.Exec(context.Background(), add, execution, fmt.Sprintf("%d:%d", sender, n)); err != nil {
						t.Error(err)
					}
				}
				if sender == 0 && n == each/2 {
					_ = first.Kill()
				}
			}
		})
	}
	sending.Wait()
	s.replica("PGDISPATCH_LEASE=2s").ready()
	for _, execution := range executions {
		s.exec(add, execution, "end")
		next := map[string]int{}
		for _, value := range s.collected(execution) {
			sender, number, _ := strings.Cut(value, ":")
			require.Equal(t, strconv.Itoa(next[sender]), number, "of sender %s", sender)
			next[sender]++
		}
		for sender, n := range next {
			require.Equal(t, each, n, "of sender %s", sender)
		}
		require.Len(t, next, 16)
	}
}

// A replica dies after Temporal has accepted a signal and before that is recorded.
func TestASignalThatIsRepeatedTakesEffectOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := s.replica("PGDISPATCH_LEASE=1s").ready()
	executions := append(s.enqueue("PRO", "Collect", 1), s.enqueue("PRO", "Relay", 1)...)
	for _, execution := range executions {
		s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "it runs")
	}
	require.NoError(t, p.Kill())
	s.eventually(func() bool { // until then, what it sent last may still take signals
		return one[int](s, "select count(*) from pg_stat_activity where datname = current_database() and "+
			"application_name like 'pgdispatch%'") == 0
	}, "Postgres has ended the replica's sessions")
	for _, execution := range executions {
		s.exec(add, execution, "0")
	}
	taken, err := (&request.Postgres{DB: s.db}).TakeSignals(t.Context(), nil, nil, 2)
	require.NoError(t, err)
	require.Len(t, taken.Now, 2)
	client := &temporal.Client{Service: s.client.WorkflowService(), Namespace: "default"}
	for _, signal := range taken.Now {
		continues, err := client.Signal(t.Context(), signal.Signal)
		require.NoError(t, err)
		require.Empty(t, continues)
	}
	s.exec("update pgdispatch.signals set next_try_at = clock_timestamp()")
	s.replica("PGDISPATCH_LEASE=1s").ready()
	for _, execution := range executions {
		s.exec(add, execution, "1")
		s.exec(add, execution, "end")
		require.Equal(t, numbers(2), s.collected(execution))
		require.Equal(t, 2,
			one[int](s, "select tries from pgdispatch.signals where execution_id = $1 order by id limit 1", execution))
	}
}

func TestSignalsOutliveAnOutageOfTemporalAndItsReplica(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	proxy := newProxy(t, s.temporal)
	direct := s.temporal
	s.temporal = proxy.Address
	first := s.replica("PGDISPATCH_LEASE=1s").ready()
	execution, ended := s.enqueue("PRO", "Collect", 1)[0], s.enqueue("PRO", "Hold", 1)[0]
	for _, one := range []string{execution, ended} {
		s.eventually(func() bool { return s.statusOf(one) == "DISPATCHED" }, "it runs")
	}
	proxy.down()
	for _, n := range numbers(5) {
		s.exec(add, execution, n)
		s.exec(add, ended, n)
	}
	s.eventually(func() bool {
		return one[bool](s, "select bool_or(error is not null) from pgdispatch.signals")
	}, "a try fails")
	require.LessOrEqual(t, one[int](s, "select count(*)::int from pgdispatch.signals where tries > 0"), 2,
		"one signal at a time is tried")
	require.NoError(t, s.client.TerminateWorkflow(t.Context(), temporal.WorkflowID(ended), "", "enough"))
	require.NoError(t, first.Kill())
	s.temporal = direct
	s.replica("PGDISPATCH_LEASE=1s").ready()
	s.exec(add, execution, "end")
	require.Equal(t, numbers(5), s.collected(execution))
	s.eventually(func() bool {
		return one[int](s, `select count(*)::int from pgdispatch.signals
			where state = 'GIVEN_UP' and error = 'workflow had ended' and execution_id = $1`, ended) == 5
	}, "nobody waits for the others")
}

func TestAResentSignalReachesTheReplayOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	failed := s.enqueue("PRO", "Collect", 1)[0]
	s.eventually(func() bool { return s.statusOf(failed) == "DISPATCHED" }, "it runs")
	require.NoError(t, s.client.TerminateWorkflow(t.Context(), temporal.WorkflowID(failed), "", "enough"))
	s.eventually(func() bool { return s.statusOf(failed) == "FAILED" }, "its end is recorded")
	s.exec(`insert into pgdispatch.signals (execution_id, name, payload, state, settled_at, error)
		select $1, name, '"1"', 'GIVEN_UP', now(), 'workflow had ended' from unnest(array['add', 'add']) name`, failed)
	replay := one[string](s, "select execution_id::text from pgdispatch.replay($1)", failed)
	for _, id := range []int64{1, 2} {
		require.Equal(t, replay, one[string](s, "select execution_id::text from pgdispatch.resend_signal($1)", id))
	}
	s.exec(add, replay, "end")
	require.Equal(t, []string{"1", "1"}, s.collected(replay))
}

func TestSignalsAreSentAndListedAtTheCommandLine(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enqueues()
	require.Regexp(t, `^1  execution-\S{36}  sent as signal 1: a replica will deliver it\n$`,
		d.types("executions", "signal", "1", "approve", "--payload", `{"by": "ann"}`, "--by", "ann"))
	require.Contains(t, d.types("executions", "signal", "1", "approve", "-o", "json"), `"signal": 2`)
	require.Equal(t, `{"by": "ann"}|approve`,
		d.value("select payload::text || '|' || name from pgdispatch.signals where id = 1"))
	require.Equal(t, "true", d.value("select (payload is null)::text from pgdispatch.signals where id = 2"))
	require.Contains(t, d.types("audit", "list"), "executions signal")
	require.Contains(t, strings.Join(d.story("1"), "\n"), `signal "approve" sent by`)

	d.exec(`update pgdispatch.signals set state = 'GIVEN_UP', settled_at = now(), error = 'workflow had ended'
		where id = 1`)
	require.Regexp(t, `(?s)^ID .*\n2 .* OPEN .*\n1 .* GIVEN_UP +0 +workflow had ended\n$`,
		d.types("executions", "signals"))
	require.NotContains(t, d.types("executions", "signals", "1", "--state", "given-up"), "OPEN")
	require.Equal(t, "no signals match\n", d.types("executions", "signals", "--state", "delivered"))
	require.Contains(t, d.types("items", "show", "1", "-o", "json"), `"state": "GIVEN_UP"`)
	require.Contains(t, d.types("status"), "1 signal to a workflow was given up in the last day.")
	require.Contains(t, d.types("status"), "undelivered signals 1")

	require.Regexp(t, `^signal 1 was sent again as signal 3, to execution-\S{36}\n$`,
		d.types("executions", "resend", "1", "--by", "bob"))
	require.Equal(t, `{"by": "ann"}|approve|OPEN`,
		d.value("select payload::text || '|' || name || '|' || state from pgdispatch.signals where id = 3"))
	require.Regexp(t, `bob .*executions resend +execution .*name: approve; sent_as: 3`, d.types("audit", "list"))
	require.NotContains(t, d.types("executions", "signals"), "GIVEN_UP")

	for want, args := range map[string][]string{
		"signal 1 was not given up, or was sent again (SQLSTATE PGD43)":        {"resend", "1"},
		`the signal is "x": it must be an ID of`:                               {"resend", "x"},
		`the signal is "0": it must be an ID of`:                               {"resend", "0"},
		`--by is "": it must have 1 to 200`:                                    {"resend", "3", "--by", ""},
		`--payload is "{": it must be JSON`:                                    {"signal", "1", "approve", "--payload", "{"},
		"must have 1 to 1000 bytes and no control characters (SQLSTATE PGD40)": {"signal", "1", ""},
		`--state is "late": it must be one or more of open, delivered`:         {"signals", "--state", "late"},
		"accepts 2 arg(s), received 1":                                         {"signal", "1"},
	} {
		_, errs, code := d.tries(append([]string{"executions"}, args...)...)
		require.Equal(t, 1, code, want)
		require.Contains(t, errs, want)
	}
}
