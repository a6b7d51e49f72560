package sql_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

func TestClaimTakesPriorityBeforeFairnessBeforeAge(t *testing.T) {
	t.Parallel()
	f := open(t)
	a, b := f.tenant("ENTERPRISE"), f.tenant("ENTERPRISE")
	old := f.at(a, 0, -time.Hour)
	older := f.at(a, 0, -2*time.Hour)
	young := f.at(b, 0, -time.Minute)
	urgent := f.at(b, 1, -time.Second)

	require.Equal(t, []int64{urgent}, f.claim(1).ids(), "priority first")
	require.Equal(t, []int64{older}, f.claim(1).ids(), "then by turn, within the workspace by age")
	require.Equal(t, []int64{young}, f.claim(1).ids(), "then the other's turn, although its item is younger")
	require.Equal(t, []int64{old}, f.claim(1).ids())
}

func TestClaimLeavesWhatIsNotDueAndSaysWhenItIs(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	require.Nil(t, f.claim(10).lookAgainIn, "no item becomes due later")
	later := f.at(w, 0, time.Hour)
	sooner := f.at(w, 5, 10*time.Minute)
	answer := f.claim(10)
	require.Empty(t, answer.items)
	require.False(t, answer.more)
	require.InDelta(t, 10*time.Minute, *answer.lookAgainIn, float64(time.Minute))

	f.exec("update pgdispatch.workflow_execution_queue set run_at = now() where id = $1", sooner)
	answer = f.claim(10)
	require.Equal(t, []int64{sooner}, answer.ids())
	require.InDelta(t, time.Hour, *answer.lookAgainIn, float64(time.Minute))

	f.exec("update pgdispatch.workflow_execution_queue set run_at = now() where id = $1", later)
	require.Equal(t, []int64{later}, f.claim(10).ids())
}

func TestClaimSaysWhenAnUnansweredStartIsDue(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.item(f.tenant("FREE"))
	b := f.claim(1)
	all[int64](f, sql.Text("retry"), b.ids(), b.tokens(), []string{"no answer"}, []time.Duration{time.Hour}, []bool{true})
	answer := f.claim(1)
	require.Empty(t, answer.items)
	require.InDelta(t, time.Hour, *answer.lookAgainIn, float64(time.Minute))
}

func TestUnansweredStartsComeFirstAndNeedNoRoom(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	unanswered := f.item(w)
	f.release(f.claim(1), true)
	f.at(w, 100, 0)
	f.at(f.tenant("FREE"), 100, 0)
	require.Equal(t, []int64{unanswered}, f.claim(1).ids(), "before any priority, though its workspace is full")
	require.Len(t, f.claim(10).items, 1, "only the other workspace's item: this one's slot is still held")
}

func TestUnansweredStartHoldsItsSlotUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.items(w, 2)
	first := f.claim(10)
	f.release(first, true)
	again := f.claim(10)
	require.Equal(t, first.ids(), again.ids())
	f.release(again, false)
	f.at(w, 100, -time.Hour)
	still := f.claim(10)
	require.Equal(t, first.ids(), still.ids(), "a later release leaves the start unanswered, and its slot stays held")
	require.True(t, *still.items[0].Unanswered)
	f.expire(first.ids()...)
	answered := f.claim(10)
	require.Equal(t, first.ids(), answered.ids())
	all[int64](f, sql.Text("fail"), answered.ids(), answered.tokens(), []string{"refused"})
	require.Len(t, f.claim(10).items, 1)
}

func TestReleaseWithoutDoubtGivesTheSlotBack(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.at(w, 0, -time.Minute)
	urgent := int64(0)
	b := f.claim(10)
	f.release(b, false)
	urgent = f.at(w, 1, 0)
	require.Equal(t, []int64{urgent}, f.claim(10).ids())
	require.Equal(t, "0 0 PENDING", one[string](f, `select format('%s %s %s', attempt_count, failure_count, status)
		from pgdispatch.workflow_execution_queue where id = $1`, b.ids()[0]))
}

func TestClaimDemandsReadCommitted(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		f.item(f.tenant("PRO"))
		tx, err := f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		_, err = f.on(tx).tryClaim(1)
		refusal := f.pgError(err)
		require.Equal(t, "PGD30", refusal.Code)
		require.Contains(t, refusal.Hint, "READ COMMITTED")
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

func TestNodeIDsAreTheNewestVersions(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	newest := f.version(w.definition, 10, `{"nodes": [{"id": "x"}, {"id": "y"}], "edges": [{"from": "x", "to": "y"}]}`)
	f.version(w.definition, 9, `{"nodes": [{"id": "old"}]}`)
	f.item(w)
	item := f.claim(1).items[0]
	require.Equal(t, newest, *item.WorkflowDefinitionVersionID)
	require.Equal(t, `["x", "y"]`, *item.NodeIDs)
}

func TestARepeatedStartKeepsItsVersionAndANewOneTakesTheNewest(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.item(w)
	f.release(f.claim(1), true)
	second := f.version(w.definition, 2, `{"nodes": []}`)
	repeat := f.claim(1)
	require.Equal(t, w.version, *repeat.items[0].WorkflowDefinitionVersionID,
		"the start may have arrived, so it is repeated unchanged")
	f.dispatched(repeat)
	f.finish(*repeat.items[0].ID, "COMPLETED")

	f.item(w)
	f.release(f.claim(1), false)
	third := f.version(w.definition, 3, `{"nodes": []}`)
	require.NotEqual(t, second, third)
	require.Equal(t, third, *f.claim(1).items[0].WorkflowDefinitionVersionID)
}

func TestWhatWasDeletedIsAProblemOfItsItemsOnly(t *testing.T) {
	t.Parallel()
	f := open(t)
	noWorkspace, noDefinition, noVersion, whole := f.tenant("PRO"), f.tenant("PRO"), f.tenant("PRO"), f.tenant("PRO")
	want := map[int64]string{
		f.item(noWorkspace): "workspace not found", f.item(noDefinition): "workflow definition not found",
		f.item(noVersion): "workflow definition has no version", f.item(whole): "",
	}
	f.exec("delete from pgdispatch.workspaces where id = $1", noWorkspace.workspace)
	f.exec("delete from pgdispatch.workflow_definitions where id = $1", noDefinition.definition)
	f.exec("delete from pgdispatch.workflow_definition_versions where id = $1", noVersion.version)
	got, b := map[int64]string{}, f.claim(10)
	for _, item := range b.items {
		got[*item.ID] = ""
		if item.Problem != nil {
			got[*item.ID] = *item.Problem
		}
	}
	require.Equal(t, want, got)
	require.ElementsMatch(t, b.ids(), all[int64](f, sql.Text("fail"), b.ids(), b.tokens(), []string{"a", "b", "c", "d"}))
}

func TestAVersionDeletedUnderAnUnansweredStartIsAProblem(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.item(w)
	f.release(f.claim(1), true)
	f.version(w.definition, 2, `{"nodes": []}`)
	f.exec("delete from pgdispatch.workflow_definition_versions where id = $1", w.version)
	require.Equal(t, "workflow definition has no version", *f.claim(1).items[0].Problem)
}

func TestAnItemThatLostItsHolderThreeTimesIsAProblem(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.item(f.tenant("FREE"))
	for range 3 {
		held := f.claim(1)
		require.Equal(t, []int64{id}, held.ids())
		require.Nil(t, held.items[0].Problem)
		f.expire(id)
	}
	last := f.claim(1)
	require.Equal(t, "holder lost three times, the last time with this item alone", *last.items[0].Problem)
	require.Equal(t, 0, *last.items[0].FailureCount, "a lost lease is no failure of the item's own")
	require.Equal(t, 4, *last.items[0].AttemptCount)
}

// A workspace caches its head's priority. If the head has disappeared unnoticed, the same claim finds the next item.
func TestAHeadThatWasWithdrawnHidesNothingBehindIt(t *testing.T) {
	t.Parallel()
	for name, withdraw := range map[string]string{
		"cancelled": "select pgdispatch.cancel(execution_id) from pgdispatch.workflow_execution_queue where id = $1",
		"deleted":   "delete from pgdispatch.workflow_execution_queue where id = $1",
	} {
		f := open(t)
		w := f.tenant("PRO")
		f.maxClaims(0)
		behind, head := f.at(w, 0, 0), f.at(w, 9, 0)
		f.claim(10)
		f.exec(withdraw, head)
		f.maxClaims(10)
		require.Equal(t, []int64{behind}, f.claimAll(10).ids(), name)
	}
}

func TestAHeadThatSomebodyHoldsIsPassedOver(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("PRO"), f.tenant("PRO")
	held := f.item(w)
	holder, _ := f.begin()
	holder.exec("select from pgdispatch.workflow_execution_queue where id = $1 for update", held)
	free, second := f.item(w), f.item(other)
	require.ElementsMatch(t, []int64{free, second}, f.claim(10).ids())
	answer := f.claim(10)
	require.Empty(t, answer.items)
	require.False(t, answer.more, "an immediate claim would find nothing")
}

func TestClaimRowsSayHowLongTheyWaited(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.exec("set session_replication_role = replica; " +
		fmt.Sprintf(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, created_at,
			run_at)
			values ('%[1]s', '%[2]s', now() - interval '1 hour', now() - interval '2 hours'),
			       ('%[1]s', '%[2]s', now() - interval '2 hours', now() - interval '1 hour'); `, w.workspace, w.definition) +
		"reset session_replication_role")
	for _, item := range f.claim(10).items {
		require.InDelta(t, time.Hour, *item.Waited, float64(time.Minute), "since it was inserted and due")
	}
}
