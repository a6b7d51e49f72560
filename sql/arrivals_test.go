package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFreedSlotIsUsedOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.items(w, 3)
	for range 3 {
		b := f.claim(10)
		require.Len(t, b.items, 1)
		f.dispatched(b)
		require.Empty(t, f.claim(10).items)
		f.finish(*b.items[0].ID, "COMPLETED")
	}
	require.Empty(t, f.claim(10).items)
}

// quiet is a database with two PRO workspaces that have one running item each and no waiting items.
func quiet(t *testing.T) (f fixture, a, b tenant) {
	t.Helper()
	f = open(t)
	a, b = f.tenant("PRO"), f.tenant("PRO")
	f.item(a)
	f.item(b)
	f.dispatched(f.claim(10))
	require.Empty(t, f.claim(10).items)
	return f, a, b
}

// itemThen inserts an item of the first tenant, then executes the statement.
func itemThen(statement string) func(f fixture, a, b tenant) {
	return func(f fixture, a, _ tenant) {
		f.item(a)
		f.exec(statement)
	}
}

func TestWhatArrivesIsGivenAsFarAsItFits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change        func(f fixture, a, b tenant)
		atMost, given int
		namespaces    map[string]int
	}{
		"everything": {change: func(f fixture, a, b tenant) {
			f.items(a, 4)
			f.items(b, 2)
		}, atMost: 10, given: 6},
		"more than the plan's limit": {change: func(f fixture, a, _ tenant) { f.items(a, 7) }, atMost: 10, given: 4},
		"more than requested":        {change: func(f fixture, a, b tenant) { f.item(a); f.item(b) }, atMost: 1, given: 1},
		"more than W": {change: func(f fixture, a, _ tenant) {
			f.maxClaims(2)
			f.items(a, 3)
		}, atMost: 10, given: 2},
		"a lowered limit": {change: itemThen("update pgdispatch.workspaces set plan = 'FREE'"), atMost: 10,
			given: 0},
		"a workspace's own limit": {change: func(f fixture, a, _ tenant) {
			f.items(a, 3)
			f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 2")
		}, atMost: 10, given: 1},
		"a pause":      {change: itemThen("update pgdispatch.workspaces set paused = true"), atMost: 10, given: 0},
		"a full pause": {change: itemThen("update pgdispatch.settings set paused = true"), atMost: 10, given: 0},
		"a rate": {change: func(f fixture, a, _ tenant) {
			f.items(a, 3)
			f.exec("update pgdispatch.workspaces set max_starts_per_second = 1")
		}, atMost: 10, given: 1},
		"an item scheduled for later": {change: func(f fixture, a, _ tenant) {
			f.item(a)
			f.at(a, 0, time.Hour)
		}, atMost: 10, given: 1},
		"a new priority": {change: func(f fixture, a, b tenant) {
			f.at(a, 7, 0)
			f.at(b, 5, 0)
		}, atMost: 10, given: 2},
		"an aged item": {change: func(f fixture, a, _ tenant) {
			f.at(a, 0, -time.Hour)
		}, atMost: 10, given: 1},
		"a new workspace": {change: func(f fixture, a, _ tenant) {
			f.item(a)
			f.item(f.tenant("FREE"))
		}, atMost: 10, given: 2},
		"a released item": {change: func(f fixture, a, b tenant) {
			f.item(a)
			held := f.claim(1)
			f.item(b)
			f.release(held, false)
		}, atMost: 10, given: 2},
		"a closed namespace": {change: func(f fixture, a, b tenant) {
			f.exec("update pgdispatch.workflow_definitions set namespace = 'shut' where workspace_id = $1", a.workspace)
			f.item(a)
			f.item(b)
		}, atMost: 10, given: 1, namespaces: map[string]int{"shut": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a, b := quiet(t)
			c.change(f, a, b)
			require.Len(t, f.claimAllAround(c.atMost, c.namespaces).items, c.given)
			require.Empty(t, f.claimAllAround(c.atMost-c.given, c.namespaces).items)
		})
	}
}

func TestWhatArrivesDoesNotOvertakeWhatWaits(t *testing.T) {
	t.Parallel()
	f, a, b := quiet(t)
	first, second := f.item(a), f.item(a)
	require.Equal(t, []int64{first}, f.claim(1).ids())
	arrived := f.at(b, -1, 0)
	require.Equal(t, []int64{second}, f.claim(1).ids())
	require.Equal(t, []int64{arrived}, f.claim(1).ids())
}
