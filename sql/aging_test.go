package sql_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// flood creates more urgent work than the replicas can do: n items of the highest priority before each claim.
func (f fixture) flood(w tenant, n int) {
	f.t.Helper()
	f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, priority)
		select $1, $2, 100 from generate_series(1, $3::int)`, w.workspace, w.definition, n)
}

// overloaded has two workspaces without limits: the first is flooded, and the items of the second must not starve.
func overloaded(t *testing.T) (f fixture, urgent, patient tenant) {
	t.Helper()
	f = open(t)
	urgent, patient = f.tenant("ENTERPRISE"), f.tenant("ENTERPRISE")
	f.exec("update pgdispatch.workspaces set max_concurrent_workflows = 100000")
	f.maxClaims(100000)
	f.flood(urgent, 200)
	return f, urgent, patient
}

// Aged items get one claim in ten, however many have waited too long.
func TestWhatHasWaitedTooLongTakesATenthAndNoMore(t *testing.T) {
	t.Parallel()
	f, urgent, patient := overloaded(t)
	for range 100 {
		f.at(patient, 0, -time.Hour)
	}
	old := 0
	for n := range 60 {
		size := 1 + n%9
		f.flood(urgent, size)
		for _, item := range f.claim(size).items {
			if *item.WorkspaceID == patient.workspace {
				old++
			}
		}
	}
	total := one[int](f, "select count(*) from pgdispatch.workflow_execution_queue where status = 'CLAIMED'")
	require.InDelta(t, total/10, old, 2, "of %d claimed items", total)
}

// In a workspace with one slot each claim returns one item, however many it requests.
func TestAFullWorkspaceKeepsItsPrioritiesToo(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	old := []int64{}
	for range 10 {
		old = append(old, f.at(w, 0, -time.Hour))
	}
	f.flood(w, 60)
	served := 0
	for range 41 {
		b := f.claim(50)
		require.Len(t, b.items, 1)
		if slices.Contains(old, b.ids()[0]) {
			served++
		}
		f.dispatched(b)
		f.finish(b.ids()[0], "COMPLETED")
	}
	require.Equal(t, 4, served)
}

func TestALockedOldItemTakesNobodysTurn(t *testing.T) {
	t.Parallel()
	f, urgent, patient := overloaded(t)
	locked := f.at(f.tenant("PRO"), 0, -2*time.Hour)
	next := f.at(patient, 0, -time.Hour)
	holder, _ := f.begin()
	holder.exec("select from pgdispatch.workflow_execution_queue where id = $1 for update", locked)
	given := []int64{}
	for range 12 {
		f.flood(urgent, 1)
		given = append(given, f.claim(1).ids()...)
	}
	require.Contains(t, given, next)
}

func TestAgingIsASetting(t *testing.T) {
	t.Parallel()
	f, urgent, patient := overloaded(t)
	f.exec("update pgdispatch.settings set priority_aging = '1 day'")
	id := f.at(patient, 0, -time.Hour)
	for range 25 {
		f.flood(urgent, 1)
		require.NotContains(t, f.claim(1).ids(), id)
	}
	f.exec("update pgdispatch.settings set priority_aging = '1 second'")
	given := []int64{}
	for range 11 {
		f.flood(urgent, 1)
		given = append(given, f.claim(1).ids()...)
	}
	require.Contains(t, given, id)
}
