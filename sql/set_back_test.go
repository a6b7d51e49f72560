package sql_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/sql"
)

// notWaitedFor are the timestamps that nothing waits for, each with the reason.
var notWaitedFor = map[string]string{
	"admin_log.at":                            "history",
	"applied_functions.applied_at":            "history",
	"installation.bound_at":                   "display",
	"marks.due":                               "a copy of run_at; the change of run_at leaves another mark",
	"missing_executions.asked_at":             "the next answer of Temporal writes it",
	"missing_executions.since":                "the next answer of Temporal does not leave it ahead",
	"parked_items.parked_at":                  "display",
	"replicas.started_at":                     "display",
	"signals.sent_at":                         "display",
	"signals.settled_at":                      "display",
	"start_tries.missing_at":                  "the next answer of Temporal writes it",
	"start_tries.missing_since":               "the next answer of Temporal does not leave it ahead",
	"stop_requests.requested_at":              "display",
	"stop_requests.settled_at":                "display",
	"workflow_definition_versions.created_at": "display",
	"workflow_definitions.created_at":         "display",
	"workflow_execution_queue.dispatched_at":  "display",
	"workflow_execution_queue.start_before":   "set by the application",
	"workflow_executions.created_at":          "display",
	"workflow_executions.finished_at":         "display",
	"workspaces.created_at":                   "display",
}

// waits is something that waits for stored times.
type waits struct {
	name string
	// columns are the times, as table.column.
	columns string
	// prepare has the times stored. happens reports whether what waits for them happens, at once or within its period.
	prepare func(f fixture) (happens func() bool)
	// itself means that it brings its times back itself.
	itself bool
}

// timestamps returns every column of a table that has a time, as table.column.
func (f fixture) timestamps() []string {
	return all[string](f, `select c.relname || '.' || a.attname
		from pg_class c join pg_attribute a on a.attrelid = c.oid
		where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
		  and format_type(a.atttypid, null) ~ '(timestamp|date|time |range)'
		order by 1`)
}

// setBack has the database's clock set back: every time that is stored lies that much further ahead.
func (f fixture) setBack(by time.Duration) {
	f.untriggered(func(in fixture) {
		for _, column := range f.timestamps() {
			table, name, _ := strings.Cut(column, ".")
			in.exec("update pgdispatch."+table+" set "+name+" = "+name+" + $1::interval where "+name+" is not null", by)
		}
	})
}

// brought is the answer of bring_back.
type brought struct {
	Times  int
	More   bool
	OpenTo int64
}

// bringBack brings back stored times until nothing is left, as a sweeper does, and returns how many there were.
func (f fixture) bringBack() (times int) {
	for more := true; more; {
		answer := rowsOf[brought](f, sql.Text("bring_back"), 2000)[0]
		times, more = times+answer.Times, answer.More
	}
	return times
}

func TestEveryStoredTimeIsDeclared(t *testing.T) {
	var declared []string
	for column := range notWaitedFor {
		declared = append(declared, column)
	}
	for _, w := range whatWaits() {
		for _, column := range strings.Fields(w.columns) {
			require.NotContains(t, notWaitedFor, column)
			declared = append(declared, column)
		}
	}
	slices.Sort(declared)
	require.Equal(t, open(t).timestamps(), slices.Compact(declared),
		"a new time needs a case in whatWaits, or a reason in notWaitedFor")
}

func TestWhatWaitsForATimeThatIsAheadHappensOnceTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for _, w := range whatWaits() {
		t.Run(w.name, func(t *testing.T) {
			f := open(t)
			happens := w.prepare(f)
			require.Zero(t, f.bringBack(), "no time is ahead yet")
			f.setBack(10 * time.Minute) // longer than any pause, but for that of an item that is often parked
			if !w.itself {
				require.False(t, happens(), "it would wait for ten minutes")
				f.forget()
				require.Positive(t, f.bringBack())
				require.Zero(t, f.bringBack(), "all are brought back at once")
			}
			f.forget()
			require.True(t, happens())
		})
	}
}

// An application's own time is no witness: an item may be due in years.
func TestATimeThatAnApplicationAskedForIsNotBroughtBack(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.at(w, 0, 20*time.Minute)
	f.at(w, 0, 1000*day)
	f.enqueue(w, 1, "key => 'a', on_conflict => 'replace', run_at => now() + interval '3 minutes'")
	f.enqueue(w, 2, "key => 'b', on_conflict => 'debounce', quiet => '1 min'")
	f.enqueue(w, 3, "key => 'b', on_conflict => 'replace', run_at => now() + interval '4 minutes'")
	asked := func() []string {
		return all[string](f, "select run_at::text from pgdispatch.workflow_execution_queue order by id")
	}
	f.setBack(time.Hour)
	before := asked()
	f.bringBack()
	require.Equal(t, before, asked())
}

// Two replicas that send the same signal at the same time could pass a later one.
func TestASignalUnderWayIsNotGivenToAnotherReplicaWhenTheClockIsSetBack(t *testing.T) {
	f := open(t)
	f.signal(f.oneRunning(), "a")
	require.Len(t, f.takeSignals().Now, 1)
	f.setBack(time.Hour)
	f.bringBack()
	require.Empty(t, f.takeSignals().Now)
	f.signalsLater(30 * time.Second)
	require.Len(t, f.takeSignals().Now, 1, "the caller may have died")
}

func TestItemsKeepTheirOrderWhenTheClockIsSetBack(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	ids := append(f.items(w, 3), f.items(w, 3)...)
	f.setBack(time.Hour)
	f.bringBack()
	require.Equal(t, ids, f.claim(10).ids())
}

// An item that an application's trigger does not let change is left, and so is a locked one.
func TestAnItemThatCannotChangeHoldsUpNoOtherWhenTheClockIsSetBack(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	ids := f.items(w, 4)
	f.exec(`create function public.refuse() returns trigger language plpgsql as
		$$begin raise 'not this one'; end;$$`)
	f.exec(`create trigger refuse before update on pgdispatch.workflow_execution_queue for each row
		when (old.id = ` + one[string](f, "select $1::bigint::text", ids[1]) + `) execute function public.refuse()`)
	f.setBack(time.Hour)
	f.lock(ids[2])
	require.Equal(t, 2, f.impatient().bringBack())
	require.Equal(t, []int64{ids[0], ids[3]}, f.claim(10).ids())
}

// A replica that starts brings back times. Usually there are none, and an idle system does not write.
func TestBringingBackWritesNothingWithoutATimeAhead(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.items(w, 3)
	f.at(w, 0, time.Hour)
	f.dispatched(f.claim(2))
	f.sweep()
	in, _ := f.begin()
	require.Zero(t, in.bringBack())
	require.Nil(t, one[*string](in, "select pg_current_xact_id_if_assigned()::text"))
}

// clockMoves simulates a jump of the database's clock: it shifts the times in all rows in the opposite direction.
func (f fixture) clockMoves(by time.Duration) {
	f.exec(`update pgdispatch.workflow_execution_queue
		set claimed_at = claimed_at - $1::interval, lease_expires_at = lease_expires_at - $1::interval
			where status = 'CLAIMED'`, by)
	f.exec("update pgdispatch.replicas set renewed_at = renewed_at - $1::interval, expires_at = expires_at - $1::interval",
		by)
}

func (f fixture) leftOf(id int64) time.Duration {
	return column[time.Duration](f, id, "lease_expires_at - clock_timestamp()")
}

func TestAClockThatIsSetBackKeepsNoLeaseForLonger(t *testing.T) {
	f := open(t)
	f.items(f.tenant("PRO"), 3)
	f.exec(sql.Text("replica_alive"), "replica-1", "dev", 4, lease, "default", "{}")
	b := f.claim(2)
	f.clockMoves(-time.Hour)
	after := f.claim(1).ids()[0]
	dead, alive := b.ids()[0], b.ids()[1]
	require.Greater(t, f.leftOf(dead), time.Hour)

	require.Equal(t, []int64{alive}, f.heartbeat(batch{claim.Batch{Items: b.Items[1:]}}))
	require.InDelta(t, lease, f.leftOf(alive), float64(20*time.Second), "a heartbeat resets it")
	require.Equal(t, 2, f.bringBack(), "the replica, and the lease neither claimed nor renewed since the jump")
	require.Zero(t, f.bringBack())
	for _, id := range []int64{dead, alive, after} {
		require.InDelta(t, lease, f.leftOf(id), float64(20*time.Second))
	}
	require.GreaterOrEqual(t, f.leftOf(dead), lease-20*time.Second, "the lease starts again: a live holder keeps it")
	require.Len(t, f.dispatched(b), 2, "the holder settles its claims as usual")
	require.InDelta(t, lease, one[time.Duration](f, "select expires_at - clock_timestamp() from pgdispatch.replicas"),
		float64(20*time.Second))
}

func TestALeaseWithinItsTimeIsNotShortened(t *testing.T) {
	f, b := openClaimed(t, "PRO", 2)
	f.exec("update pgdispatch.workflow_execution_queue set claimed_at = claimed_at - interval '10 minutes'")
	f.exec(sql.Text("heartbeat"), b.ids(), b.tokens(), time.Hour)
	before := all[string](f, "select q::text from pgdispatch.workflow_execution_queue q")
	require.Zero(t, f.bringBack())
	require.Equal(t, before, all[string](f, "select q::text from pgdispatch.workflow_execution_queue q"))
}

func TestARowThatIsLockedDoesNotHoldTheShorteningUp(t *testing.T) {
	f, b := openClaimed(t, "PRO", 2)
	f.clockMoves(-time.Hour)
	f.lock(b.ids()[0])
	require.Equal(t, 1, f.impatient().bringBack())
}
