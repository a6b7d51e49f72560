package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// stop requests the end of an item's workflow, and returns the answer.
func (f fixture) stop(id int64, how string) string {
	f.t.Helper()
	return one[string](f, "select pgdispatch.request_"+
		map[string]string{"CANCEL": "cancel", "TERMINATE": "terminate"}[how]+"($1, 'enough', 'ann')", f.execution(id))
}

// stops returns the executions that a replica is to stop, and how; open reports whether any request was open.
func (f fixture) stops() (given []string, open bool) {
	f.t.Helper()
	stops, open, err := f.taker().TakeStops(f.t.Context(), 10)
	require.NoError(f.t, err)
	for _, stop := range stops {
		given = append(given, stop.How+" "+stop.ID)
	}
	return given, open
}

// cancelled records Temporal's response to the request to cancel an item's workflow.
func (f fixture) cancelled(id int64, problem string) {
	f.t.Helper()
	stop := temporal.Stop{Execution: temporal.Execution{ID: f.execution(id)}, How: "CANCEL"}
	require.NoError(f.t, f.taker().StopDone(f.t.Context(), stop, problem))
}

func (f fixture) stopState(id int64) string {
	f.t.Helper()
	return one[string](f, "select state from pgdispatch.stop_requests where execution_id = $1", f.execution(id))
}

// later ages the requests by this time.
func (f fixture) later(d time.Duration) {
	f.t.Helper()
	f.exec("update pgdispatch.stop_requests set next_try_at = next_try_at - $1::interval", d)
}

func TestARunningWorkflowsEndIsAskedForAndFreesNoSlot(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	id, _ := f.item(w), f.item(w)
	f.dispatched(f.claim(1))
	require.Equal(t, "REQUESTED", f.stop(id, "CANCEL"))
	require.Equal(t, "ALREADY_REQUESTED", f.stop(id, "CANCEL"))
	given, open := f.stops()
	require.Equal(t, []string{"CANCEL " + f.execution(id)}, given)
	require.True(t, open)
	require.Equal(t, "DISPATCHED", f.status(id))
	require.Empty(t, f.claim(1).items, "the slot is still held")
	f.cancelled(id, "")
	_, open = f.stops()
	require.False(t, open)
	require.Equal(t, "ALREADY_REQUESTED", f.stop(id, "CANCEL"), "Temporal has accepted the request")
	require.True(t, f.finish(id, "CANCELED"))
	require.Len(t, f.claim(1).items, 1, "its end has freed the slot")
	require.Equal(t, "ALREADY_ENDED", f.stop(id, "TERMINATE"))
	require.Equal(t, []string{"ann executions cancel"},
		all[string](f, "select who || ' ' || action from pgdispatch.admin_log"), "a request without effect is not audited")
}

func TestARequestIsGivenToOneReplicaAndAgainWhereThatDies(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.oneRunning()
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
	t.Parallel()
	f := open(t)
	id := f.oneRunning()
	f.stop(id, "CANCEL")
	in, _ := f.begin()
	given, _ := in.stops()
	require.Len(t, given, 1)
	given, _ = f.stops()
	require.Empty(t, given, "the second replica skips the locked request")
}

func TestTerminateTakesThePlaceOfCancelAndNotTheOtherWayRound(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.oneRunning()
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
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	waits := f.item(w)
	require.Equal(t, "WITHDRAWN", f.stop(waits, "TERMINATE"))
	require.Equal(t, "CANCELLED", f.status(waits))
	require.Equal(t, "ALREADY_ENDED", f.stop(waits, "TERMINATE"))
	require.Equal(t, `{"answer": "WITHDRAWN", "reason": "enough"}`,
		one[string](f, "select details::text from pgdispatch.admin_log"))
}

func TestARequestOfWhatIsBeingHandedOverWaitsUntilItRuns(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
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
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	back, runs := f.item(w), f.item(w)
	b, other := f.claim(1), f.claim(1)
	f.stop(back, "CANCEL")
	f.stop(runs, "CANCEL")
	f.release(b, false)
	f.dispatched(other)
	in, tx := f.begin()
	in.exec("select from pgdispatch.workflow_execution_queue where id = $1 for update", back)
	f.exec("set lock_timeout = '1s'")
	given, _ := f.stops()
	require.Equal(t, []string{"CANCEL " + f.execution(runs)}, given)
	require.NoError(t, tx.Rollback(t.Context()))
	f.stops()
	require.Equal(t, "WITHDRAWN", f.stopState(back))
}

func TestARequestOfWhatHasEndedMeanwhileIsSettled(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.oneRunning()
	f.stop(id, "TERMINATE")
	f.finish(id, "COMPLETED")
	given, _ := f.stops()
	require.Empty(t, given)
	require.Equal(t, "ENDED", f.stopState(id))
}

func TestRequestsGoWithTheirItemsAndOutliveOneThatRuns(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
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
	t.Parallel()
	f := open(t)
	require.Equal(t, "PGD23", f.refused("select pgdispatch.request_cancel($1)", nobody).Code)
	id := f.item(f.tenant("FREE"))
	require.Equal(t, "PGD25", f.refused("select pgdispatch.request_cancel($1, 'x', '')", f.execution(id)).Code)
	f.dispatched(f.claim(1))
	f.exec("select pgdispatch.request_terminate($1)", f.execution(id))
	require.True(t, one[bool](f, "select requested_by = session_user from pgdispatch.stop_requests"))
}
