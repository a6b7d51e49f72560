package claim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// hidden inserts an item as logical replication does: triggers do not fire, and its transaction belongs to another
// cluster.
func (b *bench) hidden(workspace string, priority int, due time.Duration, xid string) int64 {
	tx := b.open("set local session_replication_role = replica")
	var id int64
	require.NoError(b.t, tx.QueryRow(b.t.Context(), `insert into pgdispatch.workflow_execution_queue (workspace_id,
		workflow_definition_id, priority, run_at, enqueue_xid)
		select d.workspace_id, d.id, $2, now() + $3::interval, $4::text::xid8 from pgdispatch.workflow_definitions d
			where d.workspace_id = $1::uuid
		returning id`, workspace, priority, due, xid).Scan(&id))
	require.NoError(b.t, tx.Commit(b.t.Context()))
	return id
}

// aMinuteLater claims as if the full check of each minute were due.
func (b *bench) aMinuteLater(wanted Wanted) Batch {
	b.memory.comparedAt, b.memory.oldest = time.Time{}, "" // a transaction of another database must not hold it up
	wanted.Look, wanted.Quiet = true, true
	batch := b.want(wanted)
	require.NotZero(b.t, b.memory.comparedAt, "the next is due in a minute")
	return batch
}

// compares reads what waits and then what has changed, and returns how many lines the memory had missed.
func (b *bench) compares(meanwhile func()) (missed int) {
	b.memory.unread = []unread{{}}
	found, all, err := b.readWaiting(b.t.Context(), unread{}, pageQueues)
	require.NoError(b.t, err)
	meanwhile()
	missed = must.Get(b.learnPage(b.t.Context(), unread{}, found, all)).In(b.t)
	return missed
}

func TestACompareWaitsForATransactionThatHasBeenOpenForLongButNotForEver(t *testing.T) {
	b := newBench(t)
	b.claimed(1)
	long := b.open("select")
	var running string
	require.NoError(t, long.QueryRow(t.Context(), "select pg_current_xact_id()::text").Scan(&running))
	look := func() Batch { return b.want(Wanted{Look: true, Quiet: true}) }
	b.hidden(b.NewWorkspace("first", 5), 0, 0, "3")
	require.Eventually(t, func() bool { return look().Unannounced == 0 && b.memory.oldest == running },
		10*time.Second, time.Millisecond, "those of other databases end")
	b.memory.oldestAt = b.memory.lookedAt.Add(-openFor)
	b.memory.comparedAt = time.Now().Add(-compareLimit / 2)
	for range 3 {
		batch := look()
		require.Zero(t, batch.Unannounced, "the transaction may have enqueued much")
		require.Negative(t, batch.LookAgainIn, "the next wake-up or poll is early enough")
	}
	b.memory.unread = append(b.memory.unread, unread{xid: &running})
	require.Zero(t, look().Unannounced)
	require.Len(t, b.memory.unread, 1, "another page does not wait with it")
	b.memory.comparedAt = b.memory.lookedAt.Add(-compareLimit)
	require.Equal(t, 1, look().Unannounced, "it has waited long enough")

	b.hidden(b.NewWorkspace("second", 5), 0, 0, "3")
	b.memory.comparedAt = time.Now().Add(-compareLimit / 2)
	require.Zero(t, look().Unannounced)
	require.NoError(t, long.Rollback(t.Context()))
	require.Zero(t, look().Unannounced, "the transaction may still run")
	require.Equal(t, 1, look().Unannounced)
}

func TestRowsThatNoTriggerSawAreFoundWithinAMinuteAndCountedOnce(t *testing.T) {
	b := newBench(t)
	unknown, later := b.NewWorkspace("unknown", 5), b.NewWorkspace("later", 5)
	b.claimed(1)
	want := []int64{b.hidden(b.Shop.Shop, 0, 0, "3"), b.hidden(unknown, 0, 0, "9223372036854775807"),
		b.hidden(unknown, 3, 0, "3")}
	b.hidden(later, 0, time.Hour, "3")
	batch := b.claim(10)
	require.Empty(t, batch.Items, "the items are not announced")
	found := b.aMinuteLater(Wanted{AtMost: 0})
	require.Equal(t, 2, found.Unannounced, "two workspaces have due items")
	require.Zero(t, b.aMinuteLater(Wanted{AtMost: 0}).Unannounced, "the items are known")
	var given []int64
	for batch.More = true; batch.More; {
		batch = b.claim(10)
		for _, item := range batch.Items {
			given = append(given, item.ID)
		}
	}
	require.ElementsMatch(t, want, given)
	require.Zero(t, b.aMinuteLater(Wanted{AtMost: 10}).Unannounced)
}

func TestAnUrgentRowThatNobodyAnnouncedGoesFirstOnceItIsFound(t *testing.T) {
	b := newBench(t)
	b.Insert(b.Shop.Shop, 3)
	b.claim(1)
	urgent := b.hidden(b.Shop.Shop, 5, 0, "3")
	found := b.aMinuteLater(Wanted{AtMost: 1})
	require.Len(t, found.Items, 1)
	require.Equal(t, urgent, found.Items[0].ID)
	require.Equal(t, 1, found.Unannounced)
}

func TestWhatCouldNotBeClaimedAnywayIsNotUnannounced(t *testing.T) {
	type given struct {
		shut       string
		namespaces map[string]int
	}
	must.Each(t, map[string]given{
		"its workspace is full":           {shut: "update pgdispatch.workspaces set max_concurrent_workflows = 1"},
		"its workspace is paused":         {shut: "update pgdispatch.workspaces set paused = true"},
		"everything is paused":            {shut: "update pgdispatch.settings set paused = true"},
		"its workspace's rate is used up": {shut: "update pgdispatch.workspaces set max_starts_per_second = 0.001"},
		"its namespace takes no workflows": {shut: "update pgdispatch.workflow_definitions set namespace = 'shut'",
			namespaces: map[string]int{"shut": 0}},
	}, func(t *testing.T, c given) {
		b := newBench(t)
		b.claimed(1)
		b.Execute(c.shut)
		b.Insert(b.Shop.Shop, 2)
		for range 3 {
			b.aMinuteLater(Wanted{AtMost: 5, Namespaces: c.namespaces})
		}
		b.hidden(b.Shop.Shop, 7, 0, "3")
		batch := b.aMinuteLater(Wanted{AtMost: 5, Namespaces: c.namespaces})
		require.Empty(t, batch.Items)
		require.Zero(t, batch.Unannounced)
	})
}

func TestSettingsWithoutTheirRowAreNamedWithTheRemedy(t *testing.T) {
	b := newBench(t)
	b.Execute("delete from pgdispatch.settings")
	_, err := b.Claim(t.Context(), 1)
	require.ErrorContains(t, err, "pgdispatch.settings has no row: run `insert into pgdispatch.settings default values`")
	b.Execute("insert into pgdispatch.settings default values")
	b.claimed(1)
	b.Execute("alter table pgdispatch.mark_trim rename to gone")
	_, err = b.Claim(t.Context(), 1)
	require.ErrorContains(t, err, "read changes: ")
}

func TestALimitThatIsRaisedDuringACompareAppliesAtOnce(t *testing.T) {
	b := newBench(t)
	b.claimed(1)
	b.Execute("update pgdispatch.workspaces set max_concurrent_workflows = null")
	b.Execute("update pgdispatch.workspace_tiers set max_concurrent_workflows = 1")
	b.Insert(b.Shop.Shop, 1)
	require.Empty(t, b.claim(10).Items, "the workspace is full")
	require.Zero(t, b.compares(func() {
		b.Execute("update pgdispatch.workspace_tiers set max_concurrent_workflows = 5")
	}))
	require.Len(t, b.claim(10).Items, 1)
}

// A crash of Postgres may lose commits that a replica has seen. Their transaction IDs are used again.
func TestAnItemIsFoundWhoseTransactionHasTheIDOfALostOne(t *testing.T) {
	b := newBench(t)
	b.claimed(1)
	last := sqltest.Scalar[int64](b.Shop, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
	b.memory.seen = fmt.Sprintf("%d:%d:", last+20, last+20)
	b.Execute("delete from pgdispatch.epoch") // as the crash does
	b.Insert(b.Shop.Shop, 1)
	for range 30 {
		b.Execute("select pg_current_xact_id()")
	}
	require.Len(t, b.claim(1).Items, 1)
}
