package e2e

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/sql"
)

// run enqueues n items and starts them.
func (d *desk) run(n int) []claim.Item {
	d.t.Helper()
	for range n {
		d.enqueues()
	}
	items := d.claims()
	require.Len(d.t, items, n)
	for _, item := range items {
		d.settles(claim.Dispatched, claim.Settlement{ID: item.ID, Token: item.Token, RunID: "run"})
	}
	return items
}

func (d *desk) finishes(execution, outcome string, reason, result any) {
	d.t.Helper()
	d.exec(sql.Text("finish"), execution, outcome, reason, result)
}

func TestItemsWaitTellsByItsExitCodeHowItemsEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	items := d.run(3)
	withdrawn := d.enqueues()
	d.types("items", "cancel", withdrawn, "--yes")
	d.finishes(items[0].ExecutionID, "COMPLETED", nil, `{"total": 3}`)
	d.finishes(items[1].ExecutionID, "FAILED", "card refused", nil)
	done, failed, open := "execution-"+items[0].ExecutionID, items[1].ExecutionID, items[2].ExecutionID
	for _, c := range []struct {
		refs string
		code int
		says string
	}{
		{done, 0, ""},
		{done + " " + failed + " " + withdrawn, 2, "1 of 3 items failed"},
		{done + " " + withdrawn, 3, "1 of 2 items cancelled"},
		{done + " " + failed + " " + open + " --timeout 10ms", 4, "1 of 3 items had not ended after 10ms"},
		{"4711", 1, "4711 is not an item"},
		{"x", 1, ""},
		{done + " --timeout -1s", 1, "--timeout is -1s: it must be positive"},
	} {
		out, errs, code := d.tries(append([]string{"items", "wait"}, strings.Fields(c.refs)...)...)
		require.Equal(t, c.code, code, "%s: %s", c.refs, errs)
		require.Contains(t, errs, c.says)
		if c.code != 1 {
			require.Regexp(t, `(?m)^ID +STATE +RESULT\n1 +COMPLETED +\{"total": 3\}$`, out)
		}
	}
	out, _, _ := d.tries("items", "wait", failed)
	require.Regexp(t, `(?m)^2 +FAILED +card refused$`, out)
	require.Contains(t, d.types("items", "wait", done, "-o", "json"), `"result": {`)
}

func TestItemsWaitSeesAnEndWhetherItIsNotifiedOrNot(t *testing.T) {
	t.Parallel()
	for _, notified := range []string{"false", "true"} {
		t.Run("notify-ended "+notified, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.types("settings", "set", "notify-ended", notified)
			execution := d.run(1)[0].ExecutionID
			var waiting sync.WaitGroup
			var out string
			waiting.Go(func() { out, _, _ = d.tries("items", "wait", execution, "--timeout", "1m") })
			require.Eventually(t, func() bool { // its first looks are over
				return d.value(`select exists (select from pg_stat_activity where datname = current_database()
					and (query like '%finished_at is null%' and query not like '%pg_stat_activity%'))::text`) == "true"
			}, 30*time.Second, time.Millisecond)
			d.finishes(execution, "COMPLETED", nil, `"done"`)
			waiting.Wait()
			require.Regexp(t, `(?m)^1 +COMPLETED +"done"$`, out)
		})
	}
}

func TestItemsWaitGoesOnWithoutItsListener(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.types("settings", "set", "notify-ended", "true")
	execution := d.run(1)[0].ExecutionID
	var waiting sync.WaitGroup
	var code int
	waiting.Go(func() { _, _, code = d.tries("items", "wait", execution, "--timeout", "1m") })
	require.Eventually(t, func() bool {
		return d.value(`select count(pg_terminate_backend(pid))::text from pg_stat_activity
			where datname = current_database() and application_name = 'pgdispatch listener' and state = 'idle'`) == "1"
	}, 30*time.Second, time.Millisecond)
	d.exec("update pgdispatch.settings set notify_ended = false")
	d.finishes(execution, "COMPLETED", nil, nil)
	waiting.Wait()
	require.Zero(t, code)
}

func TestEnqueueUnderAKeyFollowsItsPolicy(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	enqueue := func(flags string) (string, string, int) {
		return d.tries(append([]string{"enqueue", "order", "--workspace", "shop"}, strings.Fields(flags)...)...)
	}
	out, _, _ := enqueue("--key a --priority 3")
	require.Regexp(t, `^inserted item 1: execution \S+\. Follow it with`, out)
	require.Regexp(t, `(?m)^enqueue key +a$`, d.types("items", "show", "1"))
	out, _, _ = enqueue("--key a")
	require.Contains(t, out, "skipped item 1: ")
	out, _, _ = enqueue(`--key a --on-conflict replace --params {"a":2}`)
	require.Contains(t, out, "replaced item 1: ")
	require.Equal(t, `{"a": 2} 3`,
		d.value("select params::text || ' ' || priority from pgdispatch.workflow_execution_queue where id = 1"))
	out, _, _ = enqueue("--key a --on-conflict debounce --quiet 10m --at-most 1h -o json")
	require.Contains(t, out, `"action": "debounced"`)
	require.Equal(t, "inserted replaced debounced",
		d.value("select string_agg(details ->> 'answer', ' ' order by id) from pgdispatch.admin_log"))
	for flags, says := range map[string]string{
		"--on-conflict skip": "on_conflict, quiet and at_most need a key", "--quiet 5s": "at_most need a key",
		"--key a --idempotency-key b":                "--key and --idempotency-key are both given: give one of them",
		"--key a --on-conflict once":                 "on_conflict is once: it must be skip, replace or debounce",
		"--key a --on-conflict debounce":             "quiet is null: it must be from 1 ms to 1 year",
		"--key a --on-conflict debounce --quiet -1s": "quiet is -00:00:01",
		"--key a --from x":                           "--key is for one item",
	} {
		_, errs, code := enqueue(flags)
		require.Equal(t, 1, code, flags)
		require.Contains(t, errs, says)
	}
}
