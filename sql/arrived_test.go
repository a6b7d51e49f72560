package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// quiet is a database in which two workspaces on PRO have one item each running, and nothing waits.
func quiet(t *testing.T) (f fixture, a, b tenant) {
	f = open(t)
	a, b = f.tenant("PRO"), f.tenant("PRO")
	f.item(a)
	f.item(b)
	f.dispatched(f.claim(10))
	f.claim(10)
	f.exec("update pgdispatch.lanes set tokens_at = '2000-01-01'")
	return f, a, b
}

// simply says whether the claims since quiet gave what arrived without looking whose turn it is, which leaves the lanes' buckets alone.
func (f fixture) simply() bool {
	return one[bool](f, "select bool_and(tokens_at = '2000-01-01') from pgdispatch.lanes")
}

func TestWhatArrivedIsGivenWithoutATurnWhereAllOfItFits(t *testing.T) {
	t.Parallel()
	f, a, b := quiet(t)
	items := append(f.items(a, 4), f.at(b, 0, -time.Second))
	require.True(t, f.finish(one[int64](f, "select id from pgdispatch.workflow_execution_queue where workspace_id = $1 and status = 'DISPATCHED'", b.workspace), "COMPLETED"))
	given := f.claim(10)
	require.ElementsMatch(t, items, given.ids())
	require.False(t, given.more)
	require.True(t, f.simply())
	require.Zero(t, recount(f), "the lanes count what was given, and what has ended")
	require.Empty(t, f.claim(10).items)

	f.items(a, 2)
	require.Empty(t, f.claim(10).items, "its five slots are taken")
	require.False(t, f.simply())
}

// Whatever else has changed, or waits, it is for the claim that looks whose turn it is.
func TestWhatArrivedWaitsForItsTurnWhereNotAllOfItFits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change     func(f fixture, a, b tenant)
		atMost     int
		given      int
		namespaces map[string]int
	}{
		"more than the plan's limit": {change: func(f fixture, a, _ tenant) { f.items(a, 7) }, atMost: 10, given: 4},
		"more than was asked for":    {change: func(f fixture, a, b tenant) { f.item(a); f.item(b) }, atMost: 1, given: 1},
		"more than W":                {change: func(f fixture, a, _ tenant) { f.maxClaims(2); f.items(a, 3) }, atMost: 10, given: 2},
		"a limit that was lowered":   {change: func(f fixture, a, _ tenant) { f.item(a); f.exec("update pgdispatch.workspaces set plan = 'FREE'") }, atMost: 10, given: 0},
		"a limit of one's own": {change: func(f fixture, a, _ tenant) {
			f.items(a, 3)
			f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 2")
		}, atMost: 10, given: 1},
		"a pause":               {change: func(f fixture, a, _ tenant) { f.item(a); f.exec("update pgdispatch.workspaces set paused = true") }, atMost: 10, given: 0},
		"a pause of everything": {change: func(f fixture, a, _ tenant) { f.item(a); f.exec("update pgdispatch.settings set paused = true") }, atMost: 10, given: 0},
		"a rate": {change: func(f fixture, a, _ tenant) {
			f.items(a, 3)
			f.exec("update pgdispatch.workspaces set max_starts_per_second = 1")
		}, atMost: 10, given: 1},
		"an item for later":                {change: func(f fixture, a, _ tenant) { f.item(a); f.at(a, 0, time.Hour) }, atMost: 10, given: 1},
		"a priority that was never used":   {change: func(f fixture, a, b tenant) { f.at(a, 7, 0); f.at(b, 5, 0) }, atMost: 10, given: 2},
		"an item that has waited too long": {change: func(f fixture, a, _ tenant) { f.at(a, 0, -time.Hour) }, atMost: 10, given: 1},
		"a workspace that is new":          {change: func(f fixture, a, _ tenant) { f.item(a); f.item(f.tenant("FREE")) }, atMost: 10, given: 2},
		"an item that came back": {change: func(f fixture, a, b tenant) {
			f.item(a)
			held := f.claim(1)
			f.item(b)
			f.release(held, false)
		}, atMost: 10, given: 2},
		"a namespace that takes nothing": {change: func(f fixture, a, b tenant) {
			f.exec("update pgdispatch.workflow_definitions set namespace = 'shut' where workspace_id = $1", a.workspace)
			f.item(a)
			f.item(b)
		}, atMost: 10, given: 1, namespaces: map[string]int{"shut": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a, b := quiet(t)
			c.change(f, a, b)
			given, err := f.tryClaimAround("replica-1", c.atMost, c.namespaces)
			require.NoError(t, err)
			require.Len(t, given.items, c.given)
			require.False(t, f.simply())
			require.Zero(t, recount(f))
		})
	}
}

// An urgent item that waits elsewhere goes before what has just arrived, though both would not fit.
func TestWhatArrivedDoesNotOvertakeWhatIsReady(t *testing.T) {
	t.Parallel()
	f, a, b := quiet(t)
	first, second := f.item(a), f.item(a)
	require.Equal(t, []int64{first}, f.claim(1).ids())
	arrived := f.item(b)
	require.ElementsMatch(t, []int64{second, arrived}, f.claim(2).ids())
	require.False(t, f.simply())
}

func TestWhatArrivedAndIsLockedIsGivenWhenItIsNot(t *testing.T) {
	t.Parallel()
	f, a, b := quiet(t)
	locked, free, other := f.item(a), f.item(a), f.item(b)
	holder, tx := f.begin()
	holder.exec("select from pgdispatch.workflow_execution_queue where id = $1 for update", locked)
	require.ElementsMatch(t, []int64{free, other}, f.claim(10).ids())
	require.False(t, f.simply())
	require.Empty(t, f.claim(10).items)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, []int64{locked}, f.claim(10).ids())
	require.Zero(t, recount(f))
}
