package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/request"
)

// stop requests the end of an item's workflow, and returns the answer.
func (f fixture) stop(id int64, how string) string {
	return one[string](f, "select pgdispatch.request_"+
		map[string]string{"CANCEL": "cancel", "TERMINATE": "terminate"}[how]+"($1, 'enough', 'ann')", f.execution(id))
}

// stops returns the executions that a replica is to stop, and how; open reports whether any request was open.
func (f fixture) stops() (given []string, open bool) {
	stops, open, err := f.taker().TakeStops(f.t.Context(), 10)
	require.NoError(f.t, err)
	for _, stop := range stops {
		given = append(given, stop.How+" "+stop.ID)
	}
	return given, open
}

// cancelled records Temporal's response to the request to cancel an item's workflow.
func (f fixture) cancelled(id int64, problem string) {
	stop := temporal.Stop{Execution: temporal.Execution{ID: f.execution(id)}, How: "CANCEL"}
	require.NoError(f.t, f.taker().StopDone(f.t.Context(), stop, problem))
}

func (f fixture) stopState(id int64) string {
	return one[string](f, "select state from pgdispatch.stop_requests where execution_id = $1", f.execution(id))
}

// later ages the requests by this time.
func (f fixture) later(d time.Duration) {
	f.exec("update pgdispatch.stop_requests set next_try_at = next_try_at - $1::interval", d)
}

func TestARunningWorkflowsEndIsAskedForAndFreesNoSlot(t *testing.T) {
	f, w := openFor(t, "FREE")
	id, _ := f.item(w), f.item(w)
	f.dispatched(f.claim(1))
	require.Equal(t, "REQUESTED", f.stop(id, "CANCEL"))
	require.Equal(t, "ALREADY_REQUESTED", f.stop(id, "CANCEL"))
	given, open := f.stops()
	require.Equal(t, []string{"CANCEL " + f.execution(id)}, given)
	require.True(t, open)
	require.Equal(t, "DISPATCHED", f.status(id))
	require.Empty(t, f.claim(1).Items, "the slot is still held")
	f.cancelled(id, "")
	_, open = f.stops()
	require.False(t, open)
	require.Equal(t, "ALREADY_REQUESTED", f.stop(id, "CANCEL"), "Temporal has accepted the request")
	require.True(t, f.finish(id, "CANCELED"))
	require.Len(t, f.claim(1).Items, 1, "its end has freed the slot")
	require.Equal(t, "ALREADY_ENDED", f.stop(id, "TERMINATE"))
	require.Equal(t, []string{"ann executions cancel"},
		all[string](f, "select who || ' ' || action from pgdispatch.admin_log"), "a request without effect is not audited")
}

func TestARequestIsGivenToOneReplicaAndAgainWhereThatDies(t *testing.T) {
	f, id := openRunning(t)
	f.stop(id, "CANCEL")
	for try, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 30 * time.Second, 30 * time.Second} {
		given, _ := f.stops()
		require.Len(t, given, 1, "try %d", try)
		given, open := f.stops()
		require.Empty(t, given, "no other replica gets it")
		require.True(t, open)
		f.later(pause)
	}
	f.cancelled(id, "connection refused")
	require.Equal(t, "OPEN connection refused",
		one[string](f, "select state || ' ' || error from pgdispatch.stop_requests"))
}

func TestTwoReplicasAtOnceAreGivenNothingTwice(t *testing.T) {
	f, id := openRunning(t)
	f.stop(id, "CANCEL")
	in, _ := f.begin()
	given, _ := in.stops()
	require.Len(t, given, 1)
	given, _ = f.stops()
	require.Empty(t, given, "the second replica skips the locked request")
}

func TestTerminateTakesThePlaceOfCancelAndNotTheOtherWayRound(t *testing.T) {
	f, id := openRunning(t)
	f.stop(id, "CANCEL")
	f.stops()
	require.Equal(t, "REQUESTED", f.stop(id, "TERMINATE"))
	f.cancelled(id, "")
	require.Equal(t, "OPEN", f.stopState(id), "Temporal accepted only the weaker request")
	given, _ := f.stops()
	require.Equal(t, []string{"TERMINATE " + f.execution(id)}, given)
	require.Equal(t, "ALREADY_REQUESTED", f.stop(id, "CANCEL"))
}

func TestWhatWaitsIsWithdrawnInstead(t *testing.T) {
	f, w := openFor(t, "PRO")
	waits := f.item(w)
	require.Equal(t, "WITHDRAWN", f.stop(waits, "TERMINATE"))
	require.Equal(t, "CANCELLED", f.status(waits))
	require.Equal(t, "ALREADY_ENDED", f.stop(waits, "TERMINATE"))
	require.Equal(t, `{"answer": "WITHDRAWN", "reason": "enough"}`,
		one[string](f, "select details::text from pgdispatch.admin_log"))
}

func TestARequestOfWhatIsBeingHandedOverWaitsUntilItRuns(t *testing.T) {
	f, w := openFor(t, "PRO")
	starts, back, unknown := f.item(w), f.item(w), f.item(w)
	first, second, third := f.claim(1), f.claim(1), f.claim(1)
	for _, id := range []int64{starts, back, unknown} {
		require.Equal(t, "REQUESTED", f.stop(id, "CANCEL"))
	}
	given, open := f.stops()
	require.Empty(t, given)
	require.True(t, open)
	f.dispatched(first)
	f.release(second, false)
	f.release(third, true)
	given, _ = f.stops()
	require.Equal(t, []string{"CANCEL " + f.execution(starts)}, given)
	require.Equal(t, "CANCELLED", f.status(back), "it was released, and is not started again")
	require.Equal(t, "WITHDRAWN", f.stopState(back))
	require.Equal(t, "PENDING", f.status(unknown), "its workflow may be running")
	f.dispatched(f.claim(1))
	given, _ = f.stops()
	require.Equal(t, []string{"CANCEL " + f.execution(unknown)}, given)
}

func TestALockedItemKeepsNoOtherRequestWaiting(t *testing.T) {
	f, w := openFor(t, "PRO")
	back, runs := f.item(w), f.item(w)
	b, other := f.claim(1), f.claim(1)
	f.stop(back, "CANCEL")
	f.stop(runs, "CANCEL")
	f.release(b, false)
	f.dispatched(other)
	tx := f.lock(back)
	f.exec("set lock_timeout = '1s'")
	given, _ := f.stops()
	require.Equal(t, []string{"CANCEL " + f.execution(runs)}, given)
	require.NoError(t, tx.Rollback(t.Context()))
	f.stops()
	require.Equal(t, "WITHDRAWN", f.stopState(back))
}

func TestARequestOfWhatHasEndedMeanwhileIsSettled(t *testing.T) {
	f, id := openRunning(t)
	f.stop(id, "TERMINATE")
	f.finish(id, "COMPLETED")
	given, _ := f.stops()
	require.Empty(t, given)
	require.Equal(t, "ENDED", f.stopState(id))
}

func TestRequestsGoWithTheirItemsAndOutliveOneThatRuns(t *testing.T) {
	f, w := openFor(t, "PRO")
	ended, runs := f.item(w), f.item(w)
	execution := f.execution(runs)
	f.dispatched(f.claim(2))
	f.stop(ended, "CANCEL")
	f.stop(runs, "CANCEL")
	f.finish(ended, "CANCELED")
	f.exec("delete from pgdispatch.workflow_execution_queue")
	require.Equal(t, []string{execution}, all[string](f, "select execution_id::text from pgdispatch.stop_requests"))
	given, _ := f.stops()
	require.Equal(t, []string{"CANCEL " + execution}, given)
}

func TestARequestNamesWhoAndWhat(t *testing.T) {
	f := open(t)
	f.refusedAs("PGD23", "", "select pgdispatch.request_cancel($1)", nobody)
	id := f.item(f.tenant("FREE"))
	f.refusedAs("PGD25", "", "select pgdispatch.request_cancel($1, 'x', '')", f.execution(id))
	f.dispatched(f.claim(1))
	f.exec("select pgdispatch.request_terminate($1)", f.execution(id))
	require.True(t, one[bool](f, "select requested_by = session_user from pgdispatch.stop_requests"))
}

// resend sends a signal again and returns its new ID.
func (f fixture) resend(id int64) int64 {
	return one[int64](f, "select id from pgdispatch.resend_signal($1)", id)
}

// givenUp gives up the signal that was taken.
func (f fixture) givenUp(s request.Signal, problem string) {
	f.takeSignals(settle(s, "GIVEN_UP", problem, ""))
}

func TestAGivenUpSignalIsSentAgainAsTheLastOfItsExecution(t *testing.T) {
	f, runs := openRunning(t)
	f.signal(runs, "refused")
	refused := f.takeSignals().Now[0]
	f.givenUp(refused, "bad")
	f.signal(runs, "next")
	again := f.resend(refused.ID)
	next := f.takeSignals()
	require.Equal(t, []string{"next"}, names(next), "it keeps the order of what was sent before it")
	last := f.takeSignals(settle(next.Now[0], "DELIVERED", "", ""))
	require.Equal(t, []string{"refused"}, names(last))
	require.Equal(t, again, last.Now[0].ID)
	require.Equal(t, refused.RequestID, last.Now[0].RequestID, "Temporal drops it if the first try did arrive")
	require.Equal(t, refused.RunID, last.Now[0].To)
	require.Equal(t, `{"n": 1}`, string(last.Now[0].Payload))

	require.Equal(t, "PGD43", f.refused("select pgdispatch.resend_signal($1)", refused.ID).Code, "it was sent again")
	f.takeSignals(settle(refused, "DELIVERED", "", ""))
	require.Equal(t, []string{"next DELIVERED", "refused OPEN"}, f.signalStates(), "a late answer to the first is not its")
}

func TestAGivenUpSignalOfAFailedItemIsSentToItsNewestReplay(t *testing.T) {
	f, item := openRunning(t)
	first := f.execution(item)
	f.signal(item, "approve")
	f.signal(item, "ship")
	approve := f.takeSignals().Now[0]
	f.finish(item, "FAILED")
	f.givenUp(approve, "workflow had ended")
	require.Equal(t, []string{"approve GIVEN_UP: workflow had ended", "ship GIVEN_UP: workflow had ended"},
		f.signalStates())
	refusal := f.refusedAs("PGD42", "", "select pgdispatch.resend_signal($1)", approve.ID)
	require.Contains(t, refusal.Hint, "Replay")
	require.Len(t, f.signalStates(), 2, "a refused one stays")

	replay := one[int64](f, "select id from pgdispatch.replay($1)", first)
	f.dispatched(f.claim(1))
	f.finish(replay, "FAILED")
	f.exec("select pgdispatch.replay($1)", f.execution(replay))
	newest := one[string](f, "select execution_id::text from pgdispatch.workflow_execution_queue order by id desc limit 1")
	require.Equal(t, newest, one[string](f, "select execution_id::text from pgdispatch.resend_signal($1)", approve.ID))
	require.Empty(t, f.takeSignals().Now, "it waits for the start")
	f.resend(approve.ID + 1)
	started := f.claim(1)
	f.dispatched(started)
	taken := must.Get(f.taker().TakeSignals(f.t.Context(), nil, []string{newest}, 10)).In(t)
	require.Equal(t, []string{"approve"}, names(taken))
	require.NotEqual(t, approve.RequestID, taken.Now[0].RequestID, "another workflow gets another signal")
	require.Equal(t, []string{"ship"}, names(f.takeSignals(settle(taken.Now[0], "DELIVERED", "", ""))))
}

func TestOnlyGivenUpSignalsAreSentAgainAndOnce(t *testing.T) {
	f, runs := openRunning(t)
	const resend = "select pgdispatch.resend_signal($1)"
	openOne := f.signal(runs, "open")
	for _, id := range []any{openOne, 0, nil} {
		f.refusedAs("PGD43", "", resend, id)
	}
	delivered := f.takeSignals().Now[0]
	f.takeSignals(settle(delivered, "DELIVERED", "", ""))
	f.refusedAs("PGD43", "", resend, openOne)

	f.signal(runs, "twice")
	twice := f.takeSignals().Now[0]
	f.givenUp(twice, "bad")
	f.beside(func(in fixture) { in.resend(twice.ID) }, func(in fixture) {
		in.refusedAs("PGD43", "", resend, twice.ID) // of two at the same time, one
	})
	require.Equal(t, []string{"open DELIVERED", "twice OPEN"}, f.signalStates())
}
