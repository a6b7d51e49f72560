package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// impatient returns a connection that fails rather than wait for a lock.
func (f fixture) impatient() fixture {
	f.t.Helper()
	c := f.conn()
	c.exec("set lock_timeout = '500ms'")
	return c
}

func TestAnOpenEnqueueBlocksNobody(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	waiting := f.item(w)
	enqueuer, _ := f.begin()
	enqueuer.items(w, 3)

	other := f.impatient()
	other.item(w)
	other.exec("update pgdispatch.workspaces set plan = 'PRO', max_concurrent_workflows = 2, paused = false where id = $1",
		w.workspace)
	other.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 3 where plan = 'PRO'")
	other.exec("update pgdispatch.workflow_definitions set max_attempts = 5 where id = $1", w.definition)
	b := other.claim(10)
	require.Len(t, b.items, 2)
	require.Contains(t, b.ids(), waiting)
	other.dispatched(b)
	require.True(t, other.finish(waiting, "COMPLETED"))
	other.exec("delete from pgdispatch.workspaces where id = $1", w.workspace)
}

func TestAnOpenEnqueueLocksNoRowThatOthersHave(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.item(w)
	f.claim(1)
	enqueuer, _ := f.begin()
	enqueuer.item(w)
	for _, table := range []string{
		"workspaces", "workspace_tiers", "workflow_definitions", "workflow_definition_versions", "settings", "rates",
		"mark_trim", "epoch",
		"workflow_execution_queue", "workflow_executions",
	} {
		in, tx := f.begin()
		in.exec("select from pgdispatch." + table + " for update nowait")
		require.NoError(t, tx.Rollback(t.Context()), table)
	}
}

func TestAnEnqueueWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.items(w, 3)
	f.claim(1)
	holder, _ := f.begin()
	for _, statement := range []string{
		"lock table pgdispatch.claim_lock in access exclusive mode",
		"lock table pgdispatch.rates, pgdispatch.mark_trim, pgdispatch.settings, pgdispatch.workspace_tiers, " +
			"pgdispatch.replicas, pgdispatch.workflow_executions in access exclusive mode",
		"select from pgdispatch.workspaces for update",
		"select from pgdispatch.workflow_definitions for update",
		"select from pgdispatch.workflow_definition_versions for update",
		"select from pgdispatch.workflow_execution_queue for update",
		"insert into pgdispatch.marks (workspaces) select array[id] from pgdispatch.workspaces",
		"delete from pgdispatch.marks",
	} {
		holder.exec(statement)
	}
	enqueuer := f.impatient()
	enqueuer.items(w, 2)
	enqueuer.exec(withKey, w.workspace, w.definition, "invoice-17")
}

func TestAnOpenClaimBlocksNoApplication(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.items(w, 3)
	running := f.claim(1)
	f.dispatched(running)
	claimer, _ := f.begin()
	require.Len(t, claimer.claimBy("another", 1).items, 1)

	application := f.impatient()
	id := application.item(w)
	require.True(t, one[bool](application, "select pgdispatch.cancel($1)", application.execution(id)))
	application.exec("update pgdispatch.workspaces set plan = 'ENTERPRISE' where id = $1", w.workspace)
	application.exec("update pgdispatch.workspace_tiers set max_concurrent_workflows = 30 where plan = 'ENTERPRISE'")
	application.exec("update pgdispatch.settings set max_claims = 10")
	require.True(t, application.finish(running.ids()[0], "COMPLETED"), "a workflow's end does not wait")

	// Claims are serialized.
	refusal := application.refused(
		"do $$ begin lock table pgdispatch.claim_lock in share row exclusive mode nowait; end $$")
	require.Equal(t, "55P03", refusal.Code)
}

func TestOneClaimAtATimeDecides(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.items(f.tenant("PRO"), 3)
	claimer, tx := f.begin()
	claimer.claimBy("another", 1)
	locks := all[string](f, `select mode from pg_locks where relation = 'pgdispatch.claim_lock'::regclass and granted
		and database = (select oid from pg_database where datname = current_database())`)
	require.Equal(t, []string{"ShareRowExclusiveLock"}, locks)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Len(t, f.claim(10).items, 3, "a rolled-back claim has taken nothing")
}
