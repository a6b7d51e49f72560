package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestItemsPurgeDeletesWhatIsAskedForAndHasEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	bank := d.addWorkspace("bank")
	left := func() string {
		return d.value("select string_agg(status, ' ' order by id) from pgdispatch.workflow_execution_queue")
	}
	done, failed, runs, waits := d.completed(), d.failed(), d.running(), d.waiting()
	d.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select workspace_id, id from pgdispatch.workflow_definitions, generate_series(1, 501) where workspace_id = $1`, bank)
	d.types("items", "cancel", "--workspace", "bank", "--yes")
	for _, refused := range [][]string{{runs}, {done, waits}} {
		_, errs, code := d.tries(append([]string{"items", "purge", "--yes"}, refused...)...)
		require.NotZero(t, code)
		require.Contains(t, errs, "only items that have ended can be purged; use `pgdispatch items cancel` or")
	}
	_, errs, _ := d.tries("items", "purge", "--all", "--state", "dispatched")
	require.Contains(t, errs, `--state is "dispatched": it must be one or more of completed, failed, cancelled`)
	_, errs, _ = d.tries("items", "purge")
	require.Contains(t, errs, "nothing selected to purge")
	_, errs, _ = d.tries("items", "purge", "--all")
	require.Contains(t, errs, "purge 503 items? [y/N]")
	require.Equal(t, "would purge 501 items\n", d.types("items", "purge", "--workspace", "bank", "--dry-run"))

	require.Equal(t, "purged 501 of 501 items\n", d.types("items", "purge", "--workspace", "bank", "--yes", "--by", "ann"))
	require.Equal(t, "2 ann", d.value(`select count(*) || ' ' || min(who) from pgdispatch.admin_log
		where action = 'items purge' and jsonb_array_length(details -> 'items') in (500, 1)`), "in bounded transactions")
	require.Equal(t, "COMPLETED FAILED DISPATCHED PENDING", left())
	require.Equal(t, "purged 1 of 1 item\n", d.types("items", "purge", "--all", "--state", "completed,cancelled", "--yes"))
	require.Equal(t, "FAILED DISPATCHED PENDING", left())
	require.Equal(t, "purged 1 of 1 item\n", d.types("items", "purge", failed))
	require.Equal(t, "nothing to purge: no item matches\n", d.types("items", "purge", "--all", "--yes"))
	require.Equal(t, "DISPATCHED PENDING", left(), "what runs and waits stays")
}
