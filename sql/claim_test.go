package sql_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

func TestClaimLeavesWhatIsNotDueAndSaysWhenItIs(t *testing.T) {
	f, w := openFor(t, "PRO")
	require.Negative(t, f.claim(10).LookAgainIn, "no item becomes due later")
	later := f.at(w, 0, time.Hour)
	sooner := f.at(w, 5, 10*time.Minute)
	answer := f.claim(10)
	require.Empty(t, answer.Items)
	require.False(t, answer.More)
	require.InDelta(t, 10*time.Minute, answer.LookAgainIn, float64(time.Minute))

	f.set("run_at = now()", sooner)
	answer = f.claim(10)
	require.Equal(t, []int64{sooner}, answer.ids())
	require.InDelta(t, time.Hour, answer.LookAgainIn, float64(time.Minute))

	f.set("run_at = now()", later)
	b := f.claim(10)
	require.Equal(t, []int64{later}, b.ids())
	all[int64](f, sql.Text("retry"), b.ids(), b.tokens(), []string{"no answer"}, []time.Duration{time.Hour}, []bool{true})
	answer = f.claim(1)
	require.Empty(t, answer.Items)
	require.InDelta(t, time.Hour, answer.LookAgainIn, float64(time.Minute), "an unanswered start")
}

func TestUnansweredStartHoldsItsSlotUntilItIsAnswered(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.items(w, 2)
	first := f.claim(10)
	f.release(first, true)
	again := f.claim(10)
	require.Equal(t, first.ids(), again.ids())
	f.release(again, true)
	f.at(w, 100, -time.Hour)
	still := f.claim(10)
	require.Equal(t, first.ids(), still.ids(), "its slot stays held")
	require.True(t, still.Items[0].Unanswered)
	f.expire(first.ids()...)
	answered := f.claim(10)
	require.Equal(t, first.ids(), answered.ids())
	all[int64](f, sql.Text("fail"), answered.ids(), answered.tokens(), []string{"refused"})
	require.Len(t, f.claim(10).Items, 1)
}

// An item whose starts were all refused keeps its slot while others of its namespace start. Its workflow cannot run.
func TestAnItemThatFailsAloneKeepsItsSlotAndItsTriesAreCounted(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.items(w, 2)
	first := f.claim(10)
	f.failsAlone(first, "forbidden", time.Second, false)
	require.Equal(t, "DOUBT", column[string](f, first.ids()[0], "stage"))
	require.Empty(t, f.claim(10).Items, "its slot is held")

	f.exec("update pgdispatch.workflow_execution_queue set run_at = clock_timestamp() - interval '1 second'")
	f.exec("update pgdispatch.start_tries set since = clock_timestamp() - interval '6 minutes'")
	f.exec("update pgdispatch.workflow_definitions set task_queue = 'corrected'")
	again := f.claim(10)
	item := again.Items[0]
	require.True(t, item.Unanswered)
	require.Zero(t, item.UnansweredFor, "nothing was started")
	require.Equal(t, "corrected", item.TaskQueue)
	require.Equal(t, 1, item.Tries)
	require.InDelta(t, 6*time.Minute, item.FailingFor, float64(10*time.Second))
	require.Equal(t, "forbidden", item.LastError)

	f.failsAlone(again, "no answer", time.Second, true)
	f.exec("update pgdispatch.workflow_execution_queue set run_at = clock_timestamp() - interval '1 second'")
	again = f.claim(10)
	item = again.Items[0]
	require.Positive(t, item.UnansweredFor)
	require.Equal(t, 2, item.Tries)

	f.release(again, false)
	require.Equal(t, "WAITS", column[string](f, item.ID, "stage"), "as its holder knows that nothing was started")
}

// An item that is to fail keeps its slot, and the reason, until Temporal has not found its workflow for a minute.
func TestRelease_NotesForHowLongEachLookupFindsNothing(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.items(w, 2)
	f.release(f.claim(10), true)
	b := f.claim(10)
	require.Zero(t, b.Items[0].MissingFor)
	f.set("lost_lease_count = 2", b.ids()...)
	passes := func(by string) {
		f.exec(`update pgdispatch.start_tries set missing_since = missing_since - $1::text::interval,
			missing_at = missing_at - $1::text::interval`, by)
		f.set("run_at = clock_timestamp() - interval '1 second', lost_lease_count = 0", b.ids()...)
	}
	missingFor := func() time.Duration {
		b = f.claim(10)
		require.Len(t, b.Items, 1, "its slot is held")
		return b.Items[0].MissingFor
	}

	f.notFound(b)
	require.Equal(t, 2, column[int](f, b.ids()[0], "lost_lease_count"), "an item that killed its holders still is to fail")
	passes("50 seconds")
	require.InDelta(t, 50*time.Second, missingFor(), float64(5*time.Second))

	f.notFound(b)
	passes("2 minutes")
	require.InDelta(t, 170*time.Second, missingFor(), float64(5*time.Second))

	f.failsAlone(b, "no answer", time.Second, true)
	passes("2 minutes")
	require.Zero(t, missingFor(), "silence is no answer, and the last answer is too old")

	f.notFound(b)
	passes("0")
	require.InDelta(t, 0, missingFor(), float64(5*time.Second), "answers begin again")
}

func TestHasten_MakesUnansweredItemsDueAndWaitsForNone(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.items(w, 3)
	b := f.claim(3)
	f.failsAlone(b, "no", 20*time.Second, true)
	later := f.at(w, 0, time.Hour)
	require.Empty(t, f.claim(10).Items)

	locks := must.Get(f.pool.Begin(t.Context())).In(t)
	defer locks.Rollback(context.Background()) //nolint:errcheck // it only held a lock
	must.Get(locks.Exec(t.Context(), "select from pgdispatch.workflow_execution_queue where id = $1 for update",
		b.ids()[0])).In(t)
	hastened := all[int64](f, sql.Text("hasten"), append(b.ids(), later))
	require.ElementsMatch(t, b.ids()[1:], hastened, "not what is locked, and not what is not due for another reason")
	require.ElementsMatch(t, b.ids()[1:], f.claim(10).ids())
	require.Equal(t, []int{1, 0, 0}, all[int](f, "select tries from pgdispatch.start_tries order by item_id"),
		"tries while their namespace failed do not count")
	require.Empty(t, all[int64](f, sql.Text("hasten"), b.ids()[1:]), "they are claimed")
}

func TestReleaseWithoutDoubtGivesTheSlotBack(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.at(w, 0, -time.Minute)
	b := f.claim(10)
	f.release(b, false)
	urgent := f.at(w, 1, 0)
	require.Equal(t, []int64{urgent}, f.claim(10).ids())
	require.Equal(t, "0 0 PENDING", one[string](f, `select format('%s %s %s', attempt_count, failure_count, status)
		from pgdispatch.workflow_execution_queue where id = $1`, b.ids()[0]))
}

func TestClaimDemandsReadCommitted(t *testing.T) {
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

func TestARepeatedStartKeepsItsVersionAndANewOneTakesTheNewest(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.item(w)
	f.release(f.claim(1), true)
	f.version(w.definition, 2, `{"nodes": []}`)
	repeat := f.claim(1)
	require.Equal(t, w.version, repeat.Items[0].WorkflowDefinitionVersionID,
		"the start may have arrived, so it is repeated unchanged")
	f.dispatched(repeat)
	f.finish(repeat.Items[0].ID, "COMPLETED")

	f.item(w)
	f.release(f.claim(1), false)
	newest := f.version(w.definition, 10, `{"nodes": [{"id": "x"}, {"id": "y"}], "edges": [{"from": "x", "to": "y"}]}`)
	f.version(w.definition, 9, `{"nodes": [{"id": "old"}]}`)
	item := f.claim(1).Items[0]
	require.Equal(t, newest, item.WorkflowDefinitionVersionID)
	require.Equal(t, `["x", "y"]`, string(item.NodeIDs))
}

func TestWhatWasDeletedIsAProblemOfItsItemsOnly(t *testing.T) {
	f := open(t)
	noWorkspace, noDefinition, noVersion, whole := f.tenant("PRO"), f.tenant("PRO"), f.tenant("PRO"), f.tenant("PRO")
	want := map[int64]string{
		f.item(noWorkspace): "workspace not found", f.item(noDefinition): "workflow definition not found",
		f.item(noVersion): "workflow definition has no version", f.item(whole): "",
	}
	f.leave(noWorkspace)
	f.exec("delete from pgdispatch.workflow_definitions where id = $1", noDefinition.definition)
	f.exec("delete from pgdispatch.workflow_definition_versions where id = $1", noVersion.version)
	got, b := map[int64]string{}, f.claim(10)
	for _, item := range b.Items {
		got[item.ID] = string(item.Problem)
	}
	require.Equal(t, want, got)
	require.ElementsMatch(t, b.ids(), all[int64](f, sql.Text("fail"), b.ids(), b.tokens(), []string{"a", "b", "c", "d"}))
}

func TestAVersionDeletedUnderAnUnansweredStartIsAProblem(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.item(w)
	f.release(f.claim(1), true)
	f.version(w.definition, 2, `{"nodes": []}`)
	f.exec("delete from pgdispatch.workflow_definition_versions where id = $1", w.version)
	require.Equal(t, "workflow definition has no version", string(f.claim(1).Items[0].Problem))
}

// A workspace caches its head's priority. If the head has disappeared unnoticed, the same claim finds the next item.
func TestAHeadThatWasWithdrawnHidesNothingBehindIt(t *testing.T) {
	must.Each(t, map[string]string{
		"cancelled": "select pgdispatch.cancel(execution_id) from pgdispatch.workflow_execution_queue where id = $1",
		"deleted":   "delete from pgdispatch.workflow_execution_queue where id = $1",
	}, func(t *testing.T, withdraw string) {
		f, w := openFor(t, "PRO")
		f.maxClaims(0)
		behind, head := f.at(w, 0, 0), f.at(w, 9, 0)
		f.claim(10)
		f.exec(withdraw, head)
		f.maxClaims(10)
		require.Equal(t, []int64{behind}, f.claimAll(10).ids())
	})
}

func TestAHeadThatSomebodyHoldsIsPassedOver(t *testing.T) {
	f, w, other := openForTwo(t, "PRO", "PRO")
	held := f.item(w)
	f.lock(held)
	free, second := f.item(w), f.item(other)
	require.ElementsMatch(t, []int64{free, second}, f.claim(10).ids())
	answer := f.claim(10)
	require.Empty(t, answer.Items)
	require.False(t, answer.More, "an immediate claim would find nothing")
}

func TestClaimRowsSayHowLongTheyWaited(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.untriggered(func(in fixture) {
		in.insert(w, 2, "created_at, run_at", "now() - n * interval '1 hour', now() - (3 - n) * interval '1 hour'")
	})
	for _, item := range f.claim(10).Items {
		require.InDelta(t, time.Hour, item.Waited, float64(time.Minute), "since it was inserted and due")
	}
}

// sentAgo ages an item's first start.
func (f fixture) sentAgo(id int64, ago time.Duration) {
	f.exec("update pgdispatch.workflow_executions set first_sent_at = clock_timestamp() - $2::interval "+
		"where queue_item_id = $1", id, ago)
}

func TestAClaimSaysForHowLongAStartHasBeenUnanswered(t *testing.T) {
	f := open(t)
	id := f.item(f.tenant("FREE"))
	first := f.claim(1)
	require.Zero(t, first.Items[0].UnansweredFor, "no start was sent before")
	f.release(first, true)

	f.sentAgo(id, 3*time.Hour)
	for range 2 { // the first start stays the first
		again := f.claim(1)
		require.InDelta(t, 3*time.Hour, again.Items[0].UnansweredFor, float64(time.Minute))
		f.release(again, true)
	}
	f.claim(1)
	f.expire(id)
	again := f.claim(1)
	require.InDelta(t, 3*time.Hour, again.Items[0].UnansweredFor, float64(time.Minute), "a lost lease does not change it")
}

func TestAStartThatWasAnsweredIsNotTheFirst(t *testing.T) {
	f := open(t)
	id := f.item(f.tenant("FREE"))
	f.release(f.claim(1), false)
	f.sentAgo(id, 100*time.Hour)
	known := f.claim(1)
	require.Zero(t, known.Items[0].UnansweredFor, "every start sent then was rejected")
	f.expire(id)
	again := f.claim(1)
	require.Less(t, again.Items[0].UnansweredFor, time.Hour, "the unanswered start was sent just now")
	f.release(again, true)
	f.exec("delete from pgdispatch.workflow_executions")
	require.Positive(t, f.claim(1).Items[0].UnansweredFor, "no start was sent before it was enqueued")
}

// An epoch begins after commits may have been lost, claims among them. Temporal recognises a repeated start unless its
// ID may be used again.
func TestAnItemThatNamesItsIDMayHaveBeenStartedBeforeTheEpoch(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	claimed := func() map[int64]bool {
		sent := map[int64]bool{}
		for _, item := range f.claim(9).Items {
			sent[item.ID] = item.UnansweredFor > 0
		}
		return sent
	}
	named, other := f.named(w, "a"), f.item(w)
	f.exec("delete from pgdispatch.epoch")
	require.Equal(t, map[int64]bool{named: true, other: false}, claimed(), "before there is an epoch")
	named = f.named(w, "b")
	require.Equal(t, map[int64]bool{named: false}, claimed(), "in it")

	for _, plain := range []bool{true, false} {
		named, other = f.named(w, "c"), f.item(w)
		f.exec("delete from pgdispatch.epoch")
		f.exec(sql.Text("epoch"))
		sent := map[int64]bool{}
		if plain {
			in, tx := f.begin()
			in.exec(sql.Text("lock_claims"))
			rows := must.Get(tx.Query(t.Context(), sql.Text("claim_plain"), plainArguments("replica-1", f.epoch(), 9,
				entry{}, []entry{{workspace: w.workspace, items: 9}})...)).In(t)
			answer := must.Get(pgx.CollectRows(rows, pgx.RowToMap)).In(t)
			for _, row := range answer {
				sent[row["id"].(int64)] = row["unanswered_for"].(pgtype.Interval).Microseconds > 0
			}
			require.NoError(t, tx.Commit(t.Context()))
		} else {
			sent = claimed()
		}
		require.Equal(t, map[int64]bool{named: true, other: false}, sent, "plain: %v", plain)
	}
}

// given claims items one by one while more urgent ones arrive, and returns those that were claimed.
func (f fixture) given(urgent tenant, claims int) (ids []int64) {
	for range claims {
		f.at(urgent, 100, 0)
		ids = append(ids, f.claim(1).ids()...)
	}
	return ids
}

// overloaded has two workspaces without limits: the first has more urgent work than the replicas can do, and the items
// of the second must not starve.
func overloaded(t *testing.T) (f fixture, urgent, patient tenant) {
	f, urgent, patient = openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	f.unlimited()
	f.insert(urgent, 200, "priority", "100")
	return f, urgent, patient
}

func TestALockedOldItemTakesNobodysTurn(t *testing.T) {
	f, urgent, patient := overloaded(t)
	locked := f.at(f.tenant("PRO"), 0, -2*time.Hour)
	next := f.at(patient, 0, -time.Hour)
	f.lock(locked)
	require.Contains(t, f.given(urgent, 12), next)
}

func TestAgingIsASetting(t *testing.T) {
	f, urgent, patient := overloaded(t)
	f.exec("update pgdispatch.settings set priority_aging = '1 day'")
	id := f.at(patient, 0, -time.Hour)
	require.NotContains(t, f.given(urgent, 25), id)
	f.exec("update pgdispatch.settings set priority_aging = '1 second'")
	require.Contains(t, f.given(urgent, 11), id)
}

// A failover forgets the last claims and the sequence that numbered them, but not the replicas that hold them.
func TestNoTokenOfAnEarlierEpochIsDrawnAgain(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	token := func() int64 { f.item(w); return f.claim(1).Items[0].Token }
	before := token()
	for _, begins := range []string{"select", sql.Text("epoch")} { // a claim begins it, too
		f.exec("select setval('pgdispatch.lease_tokens', $1, false)", before)
		f.exec("delete from pgdispatch.epoch")
		f.exec(begins)
		drawn := token()
		require.Greater(t, drawn, before+1_000_000)
		require.Less(t, token(), drawn+10, "an epoch begins once")
	}
	f.item(w)
	f.exec("delete from pgdispatch.epoch")
	f.ask(proposal{entries: []entry{{workspace: w.workspace, items: 1}}})
	require.Equal(t, 1, f.count("epoch"), "before any look")
}
