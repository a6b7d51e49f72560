package complete_test

import (
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/stretchr/testify/require"
)

func TestOneReplicaAtATimeHasTheTurnToListWhatClosed(t *testing.T) {
	b := storetest.Open(t)
	other := b.Replica("b")
	b.Alive()
	other.Alive()
	b.Dispatched(1)
	take := func(s *storetest.Bench, often time.Duration) (complete.Turn, bool) {
		turns := must.Get(s.CloseTurns(t.Context(), often, time.Hour)).In(t)
		if len(turns) == 0 {
			return complete.Turn{}, false
		}
		require.Len(t, turns, 1)
		return turns[0], true
	}
	turn, mine := take(b, time.Hour)
	require.True(t, mine)
	require.True(t, turn.Wide)
	started := sqltest.Scalar[time.Time](b.Shop, "select min(started_at) from pgdispatch.workflow_executions")
	require.True(t, turn.Since.Before(started), "the first list begins before any execution could have ended")
	_, mine = take(other, time.Hour)
	require.False(t, mine)

	// The previous holder of the turn failed: the next begins at the same position.
	turn, mine = take(other, 0)
	require.True(t, mine)
	require.True(t, turn.Wide)
	newest := time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)
	require.NoError(t, other.CloseDone(t.Context(), complete.Turn{Wide: true}, newest))
	require.NoError(t, b.CloseDone(t.Context(), complete.Turn{}, newest.Add(-time.Minute)))
	require.NoError(t, b.CloseDone(t.Context(), complete.Turn{}, time.Time{}))

	_, mine = take(b, 0)
	require.False(t, mine, "every execution is watched")
	require.NoError(t, b.GiveUpWatches(t.Context(), nil))
	turn, _ = take(b, 0)
	require.Equal(t, newest.Add(-5*time.Second), turn.Since.UTC())
	require.False(t, turn.Wide)
	b.Execute("update pgdispatch.close_lists set wide_at = wide_at - interval '1 hour'")
	turn, _ = take(b, 0)
	require.Equal(t, newest.Add(-time.Minute), turn.Since.UTC())
	require.True(t, turn.Wide)

	b.Execute("update pgdispatch.close_lists set wide_at = clock_timestamp()")
	b.Execute("update pgdispatch.workflow_executions set watcher = 'dead'")
	_, mine = take(b, 0)
	require.True(t, mine, "executions of a dead replica are reason enough to list")
}

func TestATurnIsOfAllWhileAnUnwatchedExecutionHasAWorkflowIDOfItsItem(t *testing.T) {
	b := storetest.Open(t)
	b.Alive()
	b.Dispatched(1)
	all := func() bool {
		turns := must.Get(b.CloseTurns(t.Context(), 0, 0)).In(t)
		require.Len(t, turns, 1)
		return turns[0].All
	}
	require.NoError(t, b.GiveUpWatches(t.Context(), nil))
	require.False(t, all(), "its ID has our format")
	watched := b.Dispatched(1)[0]
	b.Execute("update pgdispatch.workflow_executions set workflow_id = 'order-1' where id = $1", watched.ExecutionID)
	require.False(t, all(), "what is watched needs no list")
	require.NoError(t, b.GiveUpWatches(t.Context(), nil))
	require.True(t, all())
}

func TestWhatRunsUnderAnIDIsOfTheKindThatIsAskedFor(t *testing.T) {
	b := storetest.Open(t)
	order, mail := b.Dispatched(1)[0].ExecutionID, b.Dispatched(1)[0].ExecutionID
	b.Execute("update pgdispatch.workflow_executions set workflow_id = 'order-1'")
	b.Execute("update pgdispatch.workflow_executions set kind = 'activity' where id = $1", mail)
	for kind, want := range map[string]map[string]string{
		"workflow": {order: "run-" + order}, "activity": {mail: "run-" + mail},
	} {
		runs := must.Get(b.Running(t.Context(), kind, "", "order-1")).In(t)
		require.Equal(t, want, runs)
	}
}

func TestOnlyWhatRunsIsAskedAbout(t *testing.T) {
	b := storetest.Open(t)
	running, ended, claimed := b.Dispatched(1)[0], b.Dispatched(1)[0], b.Claimed(1)[0]
	must.Get(b.Finish(t.Context(), ended.ExecutionID, "COMPLETED", "", "")).In(t)
	open := must.Get(b.OpenAmong(t.Context(),
		[]string{running.ExecutionID, ended.ExecutionID, claimed.ExecutionID, "0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01"})).In(t)
	require.Equal(t, []temporal.Execution{{ID: running.ExecutionID, RunID: "run-" + running.ExecutionID,
		Kind: temporal.Workflow}}, open)
}

func TestSilentExecutionsAreAskedAboutOnceInAWhile(t *testing.T) {
	b := storetest.Open(t)
	b.Alive()
	watched, old, young := b.Dispatched(1)[0], b.Replica("dead").Dispatched(1)[0], b.Replica("dead").Dispatched(1)[0]
	b.Replica("dead").Claimed(1)
	b.Execute("update pgdispatch.workflow_executions set started_at = started_at - interval '2 minutes' "+
		"where id = any ($1)", []string{watched.ExecutionID, old.ExecutionID})
	silent := func() (ids []string) {
		executions := must.Get(b.Silent(t.Context(), 10, time.Minute)).In(t)
		for _, e := range executions {
			ids = append(ids, e.ID)
		}
		return ids
	}
	require.Equal(t, []string{old.ExecutionID}, silent())
	require.Empty(t, silent(), "it was checked just now")
	b.Execute("update pgdispatch.workflow_executions " +
		"set asked_at = asked_at - interval '2 minutes', started_at = started_at - interval '2 minutes'")
	require.ElementsMatch(t, []string{old.ExecutionID, young.ExecutionID}, silent())
}

func TestEndsRecordedTogetherAreThoseOfTheirExecutionsAndALockedOneIsLeft(t *testing.T) {
	b := storetest.Open(t)
	ran := b.Dispatched(3)
	tx := must.Get(b.Conns.Begin(t.Context())).In(t)
	must.Get(tx.Exec(t.Context(),
		"select from pgdispatch.workflow_execution_queue where id = $1 for update", ran[1].ID)).In(t)
	ends := []complete.Ended{{ExecutionID: ran[0].ExecutionID, Outcome: "COMPLETED", Result: `{"total": 3}`},
		{ExecutionID: ran[1].ExecutionID, Outcome: "COMPLETED"},
		{ExecutionID: ran[2].ExecutionID, Outcome: "FAILED", Reason: "enough \x00 of\nit"}}
	first := must.Get(b.FinishAll(t.Context(), ends)).In(t)
	require.Equal(t, map[string]bool{ran[0].ExecutionID: true, ran[2].ExecutionID: true}, first)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, []string{"COMPLETED", "DISPATCHED", "FAILED enough \uFFFD of it"}, sqltest.Scalar[[]string](b.Shop,
		"select array_agg(concat_ws(' ', status, last_error) order by id) from pgdispatch.workflow_execution_queue"))
	alone := must.Get(b.Finish(t.Context(), ran[1].ExecutionID, "TERMINATED", "enough \x00 of\nit", "")).In(t)
	require.True(t, alone)
	require.Equal(t, "enough \uFFFD of it", sqltest.Scalar[string](b.Shop,
		"select last_error from pgdispatch.workflow_execution_queue where id = $1", ran[1].ID))
	first = must.Get(b.FinishAll(t.Context(), ends)).In(t)
	require.Equal(t, map[string]bool{ran[0].ExecutionID: false, ran[1].ExecutionID: false, ran[2].ExecutionID: false},
		first)
	_, err := b.Finish(t.Context(), ran[1].ExecutionID, "VANISHED", "", "")
	require.ErrorContains(t, err, "finish execution: ")
}
