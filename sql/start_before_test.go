package sql_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// hurried enqueues an item of the tenant that must be claimed within the time given.
func (f fixture) hurried(w tenant, within time.Duration) int64 {
	return f.insert(w, 1, "run_at, start_before", "now() - interval '1 hour', now() + $4::interval", within)[0]
}

// late lets the start_before of items pass.
func (f fixture) late(ids ...int64) {
	f.exec(`update pgdispatch.workflow_execution_queue set start_before = clock_timestamp() - interval '1 second'
		where id = any ($1)`, ids)
}

// sweepLate sweeps, and returns how many items were cancelled.
func (f fixture) sweepLate() int {
	return one[int](f, "select s.late from ("+sql.Text("sweep")+") s", 100, "replica-1")
}

func TestAnItemThatWasNotClaimedBeforeItsStartBeforeIsCancelledWithAReason(t *testing.T) {
	f, w := openFor(t, "FREE")
	late, intime, ever := f.hurried(w, time.Minute), f.hurried(w, time.Minute), f.item(w)
	require.Zero(t, f.sweepLate())
	f.late(late)

	require.Equal(t, 1, f.sweepLate())
	require.Equal(t, "CANCELLED", f.status(late))
	require.Regexp(t, `^not claimed before start_before, 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ$`,
		column[string](f, late, "last_error"))
	require.Equal(t, "PENDING", f.status(intime))
	require.Equal(t, "PENDING", f.status(ever))
	require.Zero(t, f.sweepLate(), "once")
}

func TestAnItemIsNotClaimedAfterItsStartBeforeEvenIfNoSweepHasRun(t *testing.T) {
	must.Each(t, map[string]string{
		"by the plain statement": "", "by the procedure": "smtp",
	}, func(t *testing.T, key string) {
		f, w := openFor(t, "ENTERPRISE")
		late := f.hurried(w, time.Minute)
		f.late(late)
		next := f.insert(w, 1, "limit_key, start_before", "nullif($4, ''), now() + interval '1 minute'", key)
		require.Equal(t, next, f.claimAll(10).ids())
		require.Equal(t, "PENDING", f.status(late))
		require.Equal(t, 1, f.sweepLate())
	})
}

func TestAnItemThatWasClaimedInTimeIsNotCancelled(t *testing.T) {
	must.Each(t, map[string]func(f fixture, b batch){
		"it is claimed": func(fixture, batch) {},
		"it failed, and waits for its next attempt": func(f fixture, b batch) {
			f.exec(sql.Text("retry"), b.ids(), b.tokens(), []string{"no"}, []time.Duration{0}, []bool{false})
			f.exec("update pgdispatch.workflow_execution_queue set run_at = now() - interval '1 hour'")
		},
		"its start was not answered": func(f fixture, b batch) { f.release(b, true) },
		"its lease expired": func(f fixture, b batch) {
			f.expire(b.ids()...)
			f.exec("select pgdispatch.requeue_expired(10)")
		},
		"it runs": func(f fixture, b batch) { f.dispatched(b) },
	}, func(t *testing.T, bring func(f fixture, b batch)) {
		f, w := openFor(t, "FREE")
		id := f.hurried(w, time.Minute)
		bring(f, f.claim(1))
		f.late(id)
		status := f.status(id)
		require.Zero(t, f.sweepLate())
		require.Equal(t, status, f.status(id))
		if status == "PENDING" {
			require.Equal(t, []int64{id}, f.claimAll(1).ids(), "it is tried again")
		}
	})
}

func TestAnItemThatWasReleasedUnusedIsCancelledWithItsExecution(t *testing.T) {
	f, w := openFor(t, "FREE")
	id := f.hurried(w, time.Minute)
	f.release(f.claim(1), false)
	f.late(id)
	require.Equal(t, 1, f.sweepLate())
	require.Equal(t, "CANCELED", one[string](f,
		"select status from pgdispatch.workflow_executions where queue_item_id = $1", id))
}

func TestASweepSaysWhenTheNextStartBeforePasses(t *testing.T) {
	f, w := openFor(t, "FREE")
	id := f.hurried(w, time.Hour)
	f.hurried(w, time.Minute)
	next := func() time.Duration {
		return one[time.Duration](f, "select s.next_expiry_in from ("+sql.Text("sweep")+") s", 100, "replica-1")
	}
	require.InDelta(t, time.Minute, next(), float64(20*time.Second))
	f.claim(1)
	f.set("lease_expires_at = now() + interval '10 seconds'", id)
	require.LessOrEqual(t, next(), 10*time.Second, "or a lease ends before")
}

func TestALateItemThatATriggerDoesNotLetGoHoldsUpNoOther(t *testing.T) {
	f, w := openFor(t, "FREE")
	stuck, free := f.hurried(w, time.Minute), f.hurried(w, time.Minute)
	f.exec(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$`)
	f.exec(`create trigger refuse before update on pgdispatch.workflow_execution_queue
		for each row when (new.status = 'CANCELLED' and new.priority = 7) execute function refuse()`)
	f.set("priority = 7", stuck)
	f.late(stuck, free)
	require.Equal(t, 1, f.sweepLate())
	require.Equal(t, "CANCELLED", f.status(free))
	require.Equal(t, "it cannot be cancelled after its start_before: no",
		one[string](f, "select error from pgdispatch.parked_items where item_id = $1", stuck))
	require.Zero(t, f.sweepLate(), "not before its next try")
}

func TestStartBeforeMustBeATimeAfterRunAt(t *testing.T) {
	f, w := openFor(t, "FREE")
	for _, statement := range []string{
		`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, start_before)
			values ($1, $2, now())`,
		`insert into pgdispatch.enqueue (workspace_id, workflow_definition_id, run_at, start_before)
			values ($1, $2, now() + interval '2 hours', now() + interval '1 hour')`,
		`insert into pgdispatch.enqueue (workspace_id, workflow_definition_id, start_before) values ($1, $2, '2300-01-01')`,
		`select pgdispatch.enqueue($1, $2, start_before => '1999-01-01')`,
		`select pgdispatch.enqueue($1, $2, key => 'k', run_at => '2100-01-01', start_before => '2099-01-01')`,
	} {
		f.refusedAs("PGD14", "start_before", statement, w.workspace, w.definition)
	}
	f.refusedAs("PGD53", "start_before must not be given",
		`select pgdispatch.enqueue($1, $2, key => 'k', on_conflict => 'debounce', quiet => '1 s',
		start_before => '2100-01-01')`, w.workspace, w.definition)
}

func TestReplaceSetsStartBeforeAndKeepsItAfterRunAt(t *testing.T) {
	f, w := openFor(t, "FREE")
	const replace = `select id from pgdispatch.enqueue($1, $2, key => 'k',
		on_conflict => 'replace', run_at => $3, start_before => $4)`
	now := time.Now().Truncate(time.Microsecond)
	id := one[int64](f, replace, w.workspace, w.definition, now, now.Add(time.Hour))
	f.refusedAs("PGD14", "", replace, w.workspace, w.definition, now.Add(2*time.Hour), nil)
	require.Equal(t, id, one[int64](f, replace, w.workspace, w.definition, now.Add(2*time.Hour), now.Add(3*time.Hour)))
	require.Equal(t, now.Add(3*time.Hour), column[time.Time](f, id, "start_before").Local())
}

func TestAnItemWithANearStartBeforeIsAnnouncedToSweepers(t *testing.T) {
	f, w := openFor(t, "FREE")
	listener := f.conn()
	listener.exec("listen pgdispatch_late")
	f.hurried(w, time.Minute) // a sweep comes before
	f.exec("select pg_notify('pgdispatch_late', 'nothing was announced')")
	f.hurried(w, 5*time.Second)
	for _, want := range []string{"nothing was announced", ""} {
		heard := must.Get(listener.db.(*pgxpool.Conn).Conn().WaitForNotification(t.Context())).In(t)
		require.Equal(t, want, heard.Payload)
	}
}
