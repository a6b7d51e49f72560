package sql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

type deleted = sweeper.Deleted

// sweeps sweeps as a replica does.
func (f fixture) sweeps() *sweeper.Postgres { return &sweeper.Postgres{DB: f.db, Owner: "replica"} }

func (f fixture) deleteFinished(atMost int) deleted {
	return must.Get(f.sweeps().DeleteFinished(f.t.Context(), atMost)).In(f.t)
}

// anew makes the next pass due now, as if a minute had passed.
func (f fixture) anew() fixture {
	f.exec("update pgdispatch.retention_walk set next_pass_at = '-infinity'")
	return f
}

// keep sets how long finished items and dead letters are kept; nil: forever.
func (f fixture) keep(finished, dead any) {
	text := func(keep any) string {
		if keep == nil {
			return "null"
		}
		return fmt.Sprintf("%q", keep.(time.Duration).String())
	}
	f.exec(sql.Text("settings_set"),
		fmt.Sprintf(`{"retention": %s, "dead_letter_retention": %s}`, text(finished), text(dead)), "me")
}

// age ages items, as if they had been finished and handled that long ago.
func (f fixture) age(d time.Duration, ids ...int64) {
	f.untriggered(func(in fixture) {
		in.exec("update pgdispatch.workflow_execution_queue "+
			"set created_at = created_at - $2::interval, finished_at = finished_at - $2::interval where id = any ($1)", ids, d)
		in.exec("update pgdispatch.dead_letter_marks set marked_at = marked_at - $2::interval where item_id = any ($1)", ids,
			d)
	})
}

// done enqueues n items whose workflows complete.
func (f fixture) done(w tenant, n int) []int64 {
	ids := f.items(w, n)
	for range n {
		b := f.claim(1)
		f.dispatched(b)
		require.True(f.t, f.finish(b.ids()[0], "COMPLETED"))
	}
	return ids
}

func (f fixture) kept() []int64 {
	return all[int64](f, "select id from pgdispatch.workflow_execution_queue order by id")
}

const day = 24 * time.Hour

func TestNothingIsDeletedUntilARetentionIsSet(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.age(1000*day, append(f.done(w, 2), f.dead(w, 1)...)...)
	require.Equal(t, deleted{}, f.deleteFinished(100))
	require.Len(t, f.kept(), 3)
	require.Equal(t, "-infinity", one[string](f, "select next_pass_at::text from pgdispatch.retention_walk"),
		"items are not examined")
}

func TestFinishedItemsAreDeletedWithAllThatBelongsToThem(t *testing.T) {
	f, w := openFor(t, "FREE")
	id := f.item(w)
	f.retry(f.claim(1), "once")
	f.dispatched(f.claim(1))
	f.finish(id, "COMPLETED")
	cancelled := f.item(w)
	require.True(t, f.cancel(cancelled))
	young := f.done(w, 1)[0]
	f.keep(30*day, nil)
	f.age(31*day, id, cancelled)
	f.age(29*day, young)

	require.Equal(t, deleted{Items: 2, Executions: 1}, f.deleteFinished(100))
	require.Equal(t, []int64{young}, f.kept())
	require.Equal(t, []int64{young}, all[int64](f, "select queue_item_id from pgdispatch.workflow_executions"))
	require.Zero(t, f.count("item_failures"))
}

func TestWhatIsNotFinishedIsKeptHoweverOld(t *testing.T) {
	f, w := openFor(t, "PRO")
	ids := f.items(w, 4)
	f.dispatched(f.claim(1))
	f.claim(1)
	f.keep(time.Minute, time.Minute)
	f.age(1000*day, ids...)
	require.Equal(t, deleted{}, f.deleteFinished(100))
	require.Equal(t, ids, f.kept())
}

func TestDeadLettersAreKeptUntilSomebodyHasSeenToThem(t *testing.T) {
	f := open(t)
	ids := f.dead(f.tenant("PRO"), 4)
	f.keep(30*day, nil)
	f.age(1000*day, ids...)
	require.Equal(t, deleted{}, f.deleteFinished(100))

	f.discard(ids[0])
	f.replayed(ids[1])
	withdrawn := f.replayed(ids[2])
	require.True(t, f.cancel(withdrawn))
	require.Equal(t, deleted{}, f.anew().deleteFinished(100), "from then on as long as any other item")

	f.age(31*day, ids[:3]...)
	require.Equal(t, deleted{DeadLetters: 2, Executions: 2}, f.anew().deleteFinished(100))
	require.Equal(t, ids[2:], f.listed(), "a dead letter whose replay was withdrawn is open")
}

func TestDeadLettersMayHaveARetentionOfTheirOwn(t *testing.T) {
	f, w := openFor(t, "PRO")
	done, dead := f.done(w, 1), f.dead(w, 3)
	f.discard(dead[0])
	f.replayed(dead[1])
	f.keep(nil, 90*day)
	f.age(91*day, done...)
	f.age(91*day, dead[:2]...)
	f.age(89*day, dead[2])
	require.Equal(t, deleted{DeadLetters: 2, Executions: 2}, f.deleteFinished(100))
	require.Subset(t, f.kept(), []int64{done[0], dead[2]})
	f.keep(30*day, 90*day)
	require.Equal(t, deleted{Items: 1, Executions: 1}, f.anew().deleteFinished(100), "dead[2] is kept for longer")
}

func TestADeletedReplayDoesNotBringItsDeadLetterBack(t *testing.T) {
	f := open(t)
	id := f.dead(f.tenant("FREE"), 1)[0]
	again := f.replayed(id)
	f.dispatched(f.claim(1))
	f.finish(again, "COMPLETED")
	f.keep(30*day, nil)
	f.age(31*day, again)
	require.Equal(t, deleted{Items: 1, Executions: 1}, f.deleteFinished(100))
	require.Empty(t, f.listed())
	require.False(t, f.replay(id).Replayed)
}

func TestADeletionGoesBatchByBatchAndPassByPass(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	ids := append(f.done(w, 3), f.dead(w, 2)...)
	ids = append(ids, f.done(w, 4)...)
	young := f.done(w, 5)
	f.keep(30*day, nil)
	f.age(31*day, ids...)
	require.Equal(t, deleted{Items: 3, Executions: 3, More: true}, f.deleteFinished(4))
	require.Equal(t, deleted{Items: 3, Executions: 3, More: true}, f.deleteFinished(4),
		"the walk continues behind the dead letters")
	require.Equal(t, deleted{Items: 1, Executions: 1}, f.deleteFinished(4), "the walk ends at items that are too young")
	require.Equal(t, append(ids[3:5:5], young...), f.kept())

	f.age(31*day, young[0])
	require.Equal(t, deleted{}, f.deleteFinished(4), "the next pass is a minute away")
	require.True(t, one[bool](f,
		"select next_pass_at between clock_timestamp() + interval '30 seconds' and clock_timestamp() + interval '1 minute' "+
			"from pgdispatch.retention_walk"))
	require.Equal(t, deleted{Items: 1, Executions: 1}, f.anew().deleteFinished(4))
}

func TestADeletionPassesOverWhatSomebodyHasLocked(t *testing.T) {
	f, w := openFor(t, "PRO")
	ids := append(f.done(w, 1), f.dead(w, 1)...)
	ahead := f.done(w, 1)[0] // the clock was set back
	f.keep(day, day)
	f.age(2*day, ids...)
	f.age(-2*day, ahead)
	in, tx := f.begin()
	in.exec("select from pgdispatch.workflow_execution_queue where id = any ($1) for update", []int64{ids[0], ahead})
	replay := in.replayed(ids[1])
	require.Equal(t, deleted{}, f.impatient().deleteFinished(100))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, deleted{Items: 1, DeadLetters: 1, Executions: 2}, f.anew().deleteFinished(100))
	require.ElementsMatch(t, []int64{ahead, replay}, f.kept())
	require.Zero(t, f.count("dead_letter_marks"))
}

func TestTwoDeletionsAtOnceAreOne(t *testing.T) {
	f := open(t)
	ids := f.done(f.tenant("PRO"), 2)
	f.keep(day, day)
	f.age(2*day, ids...)
	in, tx := f.begin()
	require.Equal(t, deleted{Items: 1, Executions: 1, More: true}, in.deleteFinished(1))
	require.Equal(t, deleted{}, f.impatient().deleteFinished(100), "the other sweeper returns at once")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, deleted{Items: 2, Executions: 2}, f.deleteFinished(100), "a rolled-back pass is repeated")
}

func TestAnOpenDeletionIsInNobodysWay(t *testing.T) {
	f, w := openFor(t, "PRO")
	ids := append(f.done(w, 3), f.dead(w, 2)...)
	f.keep(day, day)
	f.age(2*day, ids...)
	in, _ := f.begin()
	require.Equal(t, deleted{Items: 3, DeadLetters: 2, Executions: 5}, in.deleteFinished(100))

	other := f.impatient()
	next := other.items(w, 2)
	b := other.claim(10)
	require.Equal(t, next, b.ids())
	other.dispatched(b)
	require.True(t, other.finish(next[0], "COMPLETED"))
	require.True(t, other.finish(next[1], "FAILED"))
	require.True(t, one[bool](other, "select pgdispatch.discard($1)", other.execution(next[1])))
	require.Zero(t, one[int](other, "select pgdispatch.requeue_expired(10)"))
	other.exec("update pgdispatch.settings set max_claims = 10")
}

func TestAWorkflowThatStillRunsKeepsItsExecution(t *testing.T) {
	f := open(t)
	id := f.done(f.tenant("FREE"), 1)[0]
	f.exec("update pgdispatch.workflow_executions set status = 'RUNNING', finished_at = null")
	f.keep(day, nil)
	f.age(2*day, id)
	require.Equal(t, deleted{Items: 1}, f.deleteFinished(100))
	require.Equal(t, 1, f.count("workflow_executions"), "its watcher records the end")
}

func TestARetentionOutOfReasonIsRefused(t *testing.T) {
	f := open(t)
	for _, column := range []string{"retention", "dead_letter_retention"} {
		for _, value := range []string{"0", "-1 day", "59 seconds", "101 years"} {
			statement := fmt.Sprintf("update pgdispatch.settings set %s = '%s'", column, value)
			require.Equal(t, column, f.refusedAs("23514", "", statement).ColumnName)
		}
		f.exec(fmt.Sprintf("update pgdispatch.settings set %s = '1 minute'", column))
		f.exec(fmt.Sprintf("update pgdispatch.settings set %s = '3 months'", column))
		f.exec(fmt.Sprintf("update pgdispatch.settings set %s = null", column))
	}
}

func TestADeletionReadsWhatItLooksAtAndNoMore(t *testing.T) {
	f := open(t)
	f.noVacuum("workflow_execution_queue", "workflow_executions")
	w := f.tenant("FREE")
	f.untriggered(func(in fixture) {
		const past = "now() - interval '2 days'"
		in.insert(w, 20000, "status, created_at, claimed_at, dispatched_at, finished_at",
			"'COMPLETED', "+past+", "+past+", "+past+", "+past)
		in.exec(`insert into pgdispatch.workflow_executions (id, queue_item_id, workspace_id, workflow_definition_id,
		workflow_definition_version_id, status, finished_at)
		select q.execution_id, q.id, q.workspace_id, q.workflow_definition_id, $1, 'COMPLETED', now()
			from pgdispatch.workflow_execution_queue q`, w.version)
	})
	f.keep(day, nil)
	c := f.conn()
	for table, most := range map[string]int64{"workflow_execution_queue": 1000, "workflow_executions": 200,
		"item_failures": 200, "dead_letter_marks": 200} {
		f.anew()
		c.bounded(table, most, table, func() { require.Equal(t, 100, c.deleteFinished(100).Items) })
	}
}

func (f fixture) history(id int64) []string {
	return all[string](f, `select format('%s: attempt %s on %s: %s', failure, attempt, replica, error)
		from pgdispatch.item_failures
		where item_id = $1 order by failure`, id)
}

func TestEveryFailureOfAnItemIsKept(t *testing.T) {
	f := open(t)
	id := f.item(f.tenant("FREE"))
	f.retry(f.claim(1), "first")
	f.release(f.claim(1), false) // an outage, for example: it counts nowhere
	f.retry(f.claim(1), "second")
	f.fail(f.claim(1), "third")
	require.Equal(t, []string{
		"1: attempt 1 on replica-1: first",
		"2: attempt 2 on replica-1: second",
		"3: attempt 3 on replica-1: third",
	}, f.history(id))
	require.True(t, one[bool](f, `select bool_and(h.failed_at between q.created_at and q.finished_at + interval '1 second')
		from pgdispatch.item_failures h join pgdispatch.workflow_execution_queue q on q.id = h.item_id`))
}

func TestAHistoryIsBoundedAndNeverInTheWay(t *testing.T) {
	f := open(t)
	id := f.item(f.tenant("FREE"))
	f.retry(f.claim(1), "first")
	f.exec("update pgdispatch.workflow_execution_queue set failure_count = 0")
	require.Len(t, f.retry(f.claim(1), "counted anew by hand"), 1, "the settle succeeds")
	f.exec("update pgdispatch.workflow_execution_queue set failure_count = 99")
	require.Len(t, f.retry(f.claim(1), "the hundredth"), 1)
	require.Len(t, f.retry(f.claim(1), "one too many"), 1)
	require.Len(t, f.fail(f.claim(1), "one too many"), 1)
	require.Len(t, f.history(id), 2)
}
