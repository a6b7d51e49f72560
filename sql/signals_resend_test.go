package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/request"
)

// resend sends a signal again and returns its new ID.
func (f fixture) resend(id int64) int64 {
	f.t.Helper()
	return one[int64](f, "select id from pgdispatch.resend_signal($1)", id)
}

// givenUp gives up the signal that was taken.
func (f fixture) givenUp(s request.Signal, problem string) {
	f.t.Helper()
	f.takeSignals(settle(s, "GIVEN_UP", problem, ""))
}

func TestAGivenUpSignalIsSentAgainAsTheLastOfItsExecution(t *testing.T) {
	t.Parallel()
	f := open(t)
	runs := f.oneRunning()
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
	t.Parallel()
	f := open(t)
	item := f.oneRunning()
	first := f.execution(item)
	f.signal(item, "approve")
	f.signal(item, "ship")
	approve := f.takeSignals().Now[0]
	f.finish(item, "FAILED")
	f.givenUp(approve, "workflow had ended")
	require.Equal(t, []string{"approve GIVEN_UP: workflow had ended", "ship GIVEN_UP: workflow had ended"},
		f.signalStates())
	refusal := f.refused("select pgdispatch.resend_signal($1)", approve.ID)
	require.Equal(t, "PGD42", refusal.Code)
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
	taken, err := f.taker().TakeSignals(f.t.Context(), nil, []string{newest}, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"approve"}, names(taken))
	require.NotEqual(t, approve.RequestID, taken.Now[0].RequestID, "another workflow gets another signal")
	require.Equal(t, []string{"ship"}, names(f.takeSignals(settle(taken.Now[0], "DELIVERED", "", ""))))
}

func TestOnlyGivenUpSignalsAreSentAgainAndOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	runs := f.oneRunning()
	const resend = "select pgdispatch.resend_signal($1)"
	openOne := f.signal(runs, "open")
	for _, id := range []any{openOne, 0, nil} {
		refusal := f.refused(resend, id)
		require.Equal(t, "PGD43", refusal.Code)
		require.NotEmpty(t, refusal.Hint)
	}
	delivered := f.takeSignals().Now[0]
	f.takeSignals(settle(delivered, "DELIVERED", "", ""))
	require.Equal(t, "PGD43", f.refused(resend, openOne).Code)

	f.signal(runs, "twice")
	twice := f.takeSignals().Now[0]
	f.givenUp(twice, "bad")
	in, tx := f.begin()
	in.resend(twice.ID)
	code := make(chan string)
	other := f.conn()
	go func() {
		_, err := other.db.Exec(t.Context(), resend, twice.ID)
		code <- f.pgError(err).Code
	}()
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "PGD43", <-code, "of two at the same time, one")
	require.Equal(t, []string{"open DELIVERED", "twice OPEN"}, f.signalStates())
}
