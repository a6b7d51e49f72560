package sql_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/request"
)

// signal sends a signal to an item's workflow and returns its ID.
func (f fixture) signal(id int64, name string) int64 {
	_, err := f.taker().TakeSignals(f.t.Context(), nil, nil, 0) // a replica has looked in this epoch
	require.NoError(f.t, err)
	return one[int64](f, "select pgdispatch.signal($1, $2, $3)", f.execution(id), name, `{"n": 1}`)
}

// taker takes signals as a replica does.
func (f fixture) taker() *request.Postgres { return &request.Postgres{DB: f.db} }

// takeSignals settles and takes, and returns the names of what is to be sent, in order of their executions' items.
func (f fixture) takeSignals(settled ...request.SettledSignal) request.TakenSignals {
	return must.Get(f.taker().TakeSignals(f.t.Context(), settled, nil, 10)).In(f.t)
}

func names(taken request.TakenSignals) []string {
	found := []string{}
	for _, s := range taken.Now {
		found = append(found, s.Name)
	}
	return found
}

// settle is the outcome of sending a signal.
func settle(s request.Signal, outcome, problem, runID string) request.SettledSignal {
	return request.SettledSignal{ID: s.ID, Try: s.Try, Outcome: outcome, Error: problem, RunID: runID}
}

func (f fixture) signalStates() []string {
	return all[string](f, "select name || ' ' || state || coalesce(': ' || error, '') from pgdispatch.signals order by id")
}

// signalsLater has so much time pass for the signals.
func (f fixture) signalsLater(d time.Duration) {
	f.exec("update pgdispatch.signals set next_try_at = next_try_at - $1::interval where next_try_at < 'infinity'", d)
	f.exec("update pgdispatch.signal_turn set looked_at = looked_at - $1::interval where looked_at > '-infinity'", d)
}

func TestSignalsOfAnExecutionAreGivenOutInOrderOneAtATime(t *testing.T) {
	f, w := openFor(t, "PRO")
	first, second := f.item(w), f.item(w)
	f.dispatched(f.claim(2))
	f.signal(first, "a")
	f.signal(first, "b")
	f.signal(second, "c")
	f.signal(first, "d")
	taken := f.takeSignals()
	require.Equal(t, []string{"a", "c"}, names(taken))
	require.Equal(t, f.execution(first), taken.Now[0].Execution.ID)
	require.Equal(t, "run", taken.Now[0].To)
	require.Equal(t, `{"n": 1}`, string(taken.Now[0].Payload))
	require.True(t, taken.Waits)
	require.Empty(t, f.takeSignals().Now, "nobody else is given them")

	b := f.takeSignals(settle(taken.Now[0], "DELIVERED", "", ""))
	require.Equal(t, []string{"b"}, names(b))
	d := f.takeSignals(settle(taken.Now[1], "DELIVERED", "", ""), settle(b.Now[0], "DELIVERED", "", ""))
	require.Equal(t, []string{"d"}, names(d))
	last := f.takeSignals(settle(d.Now[0], "DELIVERED", "", ""))
	require.Empty(t, last.Now)
	require.Nil(t, last.Next, "nothing is open")
	require.False(t, last.Waits)
	require.Equal(t, []string{"a DELIVERED", "b DELIVERED", "c DELIVERED", "d DELIVERED"}, f.signalStates())
}

func TestASignalThatFailsKeepsBackItsExecutionAndNoOther(t *testing.T) {
	f, w := openFor(t, "PRO")
	first, second := f.item(w), f.item(w)
	f.dispatched(f.claim(2))
	f.signal(first, "poison")
	f.signal(first, "behind")
	poison := f.takeSignals().Now[0]
	requestID := poison.RequestID
	for try, pause := range []float64{1, 2, 4, 8, 16, 30, 30} {
		f.signal(second, "other")
		taken := f.takeSignals(settle(poison, "OPEN", "unavailable", ""))
		require.Equal(t, []string{"other"}, names(taken), "try %d", try)
		f.takeSignals(settle(taken.Now[0], "DELIVERED", "", ""))
		left := one[float64](f, `select extract(epoch from min(next_try_at) - clock_timestamp()) from pgdispatch.signals
			where state = 'OPEN'`)
		require.LessOrEqual(t, left, pause)
		require.Greater(t, left, pause/2-2, "of its backoff")
		f.signalsLater(time.Duration(pause * float64(time.Second)))
		taken = f.takeSignals()
		require.Equal(t, []string{"poison"}, names(taken))
		poison = taken.Now[0]
		require.Equal(t, requestID, poison.RequestID, "Temporal recognises the repeat")
	}
	require.Equal(t, []string{"behind"}, names(f.takeSignals(settle(poison, "GIVEN_UP", "too large", ""))))
	require.Equal(t, "poison GIVEN_UP: too large", f.signalStates()[0])
}

func TestASignalIsGivenToAnotherReplicaWhereTheFirstDies(t *testing.T) {
	f := open(t)
	f.signal(f.oneRunning(), "a")
	dead := f.takeSignals().Now[0]
	f.signalsLater(16 * time.Second)
	again := f.takeSignals().Now[0]
	require.Equal(t, dead.RequestID, again.RequestID)
	f.takeSignals(settle(dead, "GIVEN_UP", "late", "other"))
	require.Equal(t, []string{"a OPEN"}, f.signalStates(), "the first no longer decides")
	f.takeSignals(settle(dead, "DELIVERED", "", ""))
	require.Equal(t, []string{"a DELIVERED"}, f.signalStates(), "unless Temporal has it")
	f.takeSignals(settle(again, "OPEN", "unavailable", ""))
	require.Equal(t, []string{"a DELIVERED"}, f.signalStates())
}

func TestSignalsFollowAWorkflowThatContinuesInAnotherRun(t *testing.T) {
	f, id := openRunning(t)
	f.signal(id, "a")
	f.signal(id, "b")
	a := f.takeSignals(settle(f.takeSignals().Now[0], "OPEN", "", "second"))
	require.Equal(t, []string{"a"}, names(a), "at once")
	require.Equal(t, "second", a.Now[0].To)
	b := f.takeSignals(settle(a.Now[0], "DELIVERED", "", ""))
	require.Equal(t, []string{"b"}, names(b))
	require.Equal(t, "second", b.Now[0].To, "those behind it begin there")
}

func TestASignalBeforeTheStartWaitsForItAndTakesNoSlot(t *testing.T) {
	f, w := openFor(t, "FREE")
	in, tx := f.begin()
	id := in.item(w)
	in.signal(id, "a")
	in.signal(id, "b")
	require.NoError(t, tx.Commit(t.Context()))
	later := f.item(w)
	f.signal(later, "c")
	taken := f.takeSignals()
	require.Empty(t, taken.Now)
	require.True(t, taken.Waits)
	require.Equal(t, 10, int(taken.Next.Round(time.Second).Seconds()))
	f.dispatched(f.claim(1))
	require.Empty(t, f.takeSignals().Now, "the replica that started it says so")
	started := must.Get(f.taker().TakeSignals(t.Context(), nil, []string{f.execution(id)}, 10)).In(t)
	require.Equal(t, []string{"a"}, names(started))
	require.Equal(t, "run", started.Now[0].To)
	require.Equal(t, []string{"b"}, names(f.takeSignals(settle(started.Now[0], "DELIVERED", "", ""))))
}

// As after the death of the replica.
func TestAStartThatNobodyToldOfIsFound(t *testing.T) {
	f := open(t)
	id := f.item(f.tenant("FREE"))
	f.signal(id, "a")
	f.signal(id, "b")
	f.takeSignals()
	f.dispatched(f.claim(1))
	f.signalsLater(9 * time.Second)
	require.Empty(t, f.takeSignals().Now)
	f.signalsLater(2 * time.Second)
	require.Equal(t, []string{"a"}, names(f.takeSignals()))
}

func TestASignalOfWhatEndsUnsentIsGivenUpWithTheReason(t *testing.T) {
	f, w := openFor(t, "PRO")
	ids := f.items(w, 4)
	for _, id := range ids {
		f.signal(id, "a"+strconv.FormatInt(id, 10))
		f.signal(id, "b")
	}
	f.takeSignals()
	f.cancel(ids[3])
	f.dispatched(f.claim(1))
	f.finish(ids[0], "TERMINATED")
	refused := f.claim(1)
	f.exec("update pgdispatch.workflow_execution_queue set status = 'FAILED', last_error = 'no', finished_at = now(),"+
		" claimed_by = null, lease_expires_at = null where id = $1", refused.ids()[0])
	f.exec("update pgdispatch.workflow_executions set status = 'FAILED', finished_at = now() where id = $1",
		f.execution(ids[1]))
	f.remove(ids[2])
	f.signalsLater(11 * time.Second)
	given := map[string]string{}
	for _, g := range f.takeSignals().GivenUp {
		require.Equal(t, 2, g.Signals)
		given[g.ExecutionID] = g.Reason
	}
	require.Equal(t, map[string]string{
		f.execution(ids[0]): "workflow had ended",
		f.execution(ids[1]): "item failed before its workflow was started",
		f.execution(ids[3]): "item was cancelled before it started",
	}, given)
	require.NotContains(t, strings.Join(f.signalStates(), ","), "OPEN", "those of the deleted item went with it")
}

func TestAnExecutionsSignalsAreGivenUpInOneRow(t *testing.T) {
	f := open(t)
	f.takeSignals()
	id := f.oneRunning()
	for range 30 {
		f.signal(id, "a")
	}
	f.finish(id, "FAILED")
	require.Equal(t, []request.GivenUp{{ExecutionID: f.execution(id), Reason: "workflow had ended", Signals: 30}},
		f.takeSignals().GivenUp)
}

func TestASignalThatMayHaveArrivedIsLeftToTemporalToDecide(t *testing.T) {
	f, id := openRunning(t)
	f.signal(id, "a")
	f.takeSignals()
	f.finish(id, "COMPLETED")
	f.signalsLater(16 * time.Second)
	taken := f.takeSignals()
	require.Empty(t, taken.GivenUp)
	require.Equal(t, []string{"a"}, names(taken))
}

// An epoch ends with a crash or a promotion, which empty its table. Commits of it may be lost.
func TestASignalOfAnEarlierEpochMayHaveBeenSentToAnyLaterRun(t *testing.T) {
	f, w := openFor(t, "PRO")
	ids := f.items(w, 3)
	f.dispatched(f.claim(3))
	f.takeSignals()
	f.signal(ids[0], "sent")
	sent := f.takeSignals().Now[0]
	require.Equal(t, "run false", sent.To+fmt.Sprint(" ", sent.Unanswered))
	f.signal(ids[0], "behind")
	f.signal(ids[1], "unsent")
	f.signal(ids[2], "ended")
	f.finish(ids[2], "COMPLETED")
	f.signalsLater(16 * time.Second)
	f.exec("delete from pgdispatch.epoch")

	given := map[string]string{}
	taken := f.takeSignals()
	require.Empty(t, taken.GivenUp, "it may have arrived before the end")
	for _, s := range taken.Now {
		given[s.Name] = fmt.Sprint(s.To, " ", s.Unanswered)
	}
	require.Equal(t, map[string]string{"sent": "run true", "unsent": " true", "ended": " true"}, given)
	f.signal(ids[0], "new")
	at := slices.IndexFunc(taken.Now, func(s request.Signal) bool { return s.Name == "sent" })
	next := f.takeSignals(settle(taken.Now[at], "OPEN", "", "second")).Now[0]
	require.Equal(t, "sent second true", fmt.Sprint(next.Name, " ", next.To, " ", next.Unanswered))
	behind := f.takeSignals(settle(next, "DELIVERED", "", "")).Now[0]
	require.Equal(t, "behind second true", fmt.Sprint(behind.Name, " ", behind.To, " ", behind.Unanswered))
	last := f.takeSignals(settle(behind, "DELIVERED", "", "")).Now[0]
	require.Equal(t, "new second false", fmt.Sprint(last.Name, " ", last.To, " ", last.Unanswered),
		"it was sent in this epoch")
}

func TestEachOfSixteenSendersKeepsItsOrder(t *testing.T) {
	f := open(t)
	execution := f.execution(f.oneRunning())
	const senders, each = 16, 20
	var sending sync.WaitGroup
	for sender := range senders {
		sending.Go(func() {
			for n := range each {
				_, err := f.pool.Exec(t.Context(), "select pgdispatch.signal($1, $2, to_jsonb($3::int))", execution,
					strconv.Itoa(sender), n)
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	next, settled := map[string]int{}, []request.SettledSignal{}
	for got := 0; got < senders*each; {
		taken := f.takeSignals(settled...)
		settled = nil
		for _, s := range taken.Now {
			n := must.Get(strconv.Atoi(string(s.Payload))).In(t)
			require.Equal(t, next[s.Name], n, "sender %s", s.Name)
			next[s.Name]++
			got++
			settled = append(settled, settle(s, "DELIVERED", "", ""))
		}
	}
	sending.Wait()
}

func TestASignalIsRefusedWhereItCannotArrive(t *testing.T) {
	f, running := openRunning(t)
	execution := f.execution(running)
	const send = "select pgdispatch.signal($1, $2, $3)"
	for _, name := range []any{nil, "", strings.Repeat("x", 1001), "a\nb"} {
		f.refusedAs("PGD40", "", send, execution, name, nil)
	}
	require.Equal(t, "PGD41", f.refused(send, execution, "a", `"`+strings.Repeat("x", 1966080)+`"`).Code)
	f.refusedAs("PGD23", "", send, nobody, "a", nil)
	f.refusedAs("PGD23", "", send, nil, "a", nil)
	f.finish(running, "COMPLETED")
	f.refusedAs("PGD42", "", send, execution, "a", nil)
	waits := f.item(tenant{workspace: one[string](f, "select workspace_id::text from pgdispatch.workflow_execution_queue"),
		definition: one[string](f, "select workflow_definition_id::text from pgdispatch.workflow_execution_queue")})
	f.exec(send, f.execution(waits), strings.Repeat("x", 1000), `"`+strings.Repeat("x", 1966000)+`"`)
	f.exec(send, f.execution(waits), "no payload", nil)
	f.cancel(waits)
	f.refusedAs("PGD42", "", send, f.execution(waits), "a", nil)
	require.Empty(t, all[string](f, "select name from pgdispatch.signals where state <> 'OPEN'"))
}

func TestDeliveredSignalsGoWithTheirItem(t *testing.T) {
	f, w := openFor(t, "PRO")
	ended, runs := f.item(w), f.item(w)
	f.dispatched(f.claim(2))
	f.signal(ended, "a")
	f.signal(runs, "b")
	for _, s := range f.takeSignals().Now {
		if s.Name == "a" {
			f.takeSignals(settle(s, "DELIVERED", "", ""))
		}
	}
	f.finish(ended, "COMPLETED")
	f.exec("delete from pgdispatch.workflow_execution_queue")
	require.Equal(t, []string{"b OPEN"}, f.signalStates(), "a workflow that runs is still to be signalled")
	f.signalsLater(16 * time.Second)
	require.Equal(t, []string{"b"}, names(f.takeSignals()))
}

// The signals of those that wait for their start are read once, not by each look.
func TestManySignalsOfWaitingItemsDelayNoOther(t *testing.T) {
	f, w := openFor(t, "PRO")
	runs := f.item(w)
	f.dispatched(f.claim(1))
	f.exec(`with item as (
			insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
			select $1, $2 from generate_series(1, 2000) returning execution_id)
		select pgdispatch.signal(execution_id, 'early') from item`, w.workspace, w.definition)
	f.takeSignals()
	f.signal(runs, "now")
	before := one[int64](f, "select pg_stat_get_xact_tuples_fetched('pgdispatch.signals'::regclass)")
	in, _ := f.begin()
	require.Equal(t, []string{"now"}, names(in.takeSignals()))
	fetched := one[int64](in, "select pg_stat_get_xact_tuples_fetched('pgdispatch.signals'::regclass)") - before
	require.Less(t, fetched, int64(20), "rows of signals that a look fetched")
}
