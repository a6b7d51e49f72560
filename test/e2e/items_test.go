package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// enqueues enqueues an item in the workspace and returns its ID.
func (d *desk) enqueues(flags ...string) string {
	d.t.Helper()
	var made operate.Enqueued
	out := d.types(append([]string{"enqueue", "order", "--workspace", "shop", "--output", "json"}, flags...)...)
	require.NoError(d.t, json.Unmarshal([]byte(out), &made))
	return d.value("select $1::bigint::text", made.ID)
}

// replica is a store that claims and settles for replica-1.
func (d *desk) replica() *claim.Store {
	return &claim.Store{Pool: d.db, Owner: "replica-1", Lease: time.Minute}
}

// claims claims all due items for replica-1.
func (d *desk) claims() []claim.Item {
	d.t.Helper()
	batch, err := d.replica().Claim(d.t.Context(), 100)
	require.NoError(d.t, err)
	return batch.Items
}

func (d *desk) settles(verb claim.Verb, s claim.Settlement) {
	d.t.Helper()
	settled, err := d.replica().Settle(d.t.Context(), verb, []claim.Settlement{s})
	require.NoError(d.t, err)
	require.Len(d.t, settled, 1)
}

// story returns an item's timeline without times.
func (d *desk) story(item string) []string {
	d.t.Helper()
	var shown struct{ Story []view.Event }
	require.NoError(d.t, json.Unmarshal([]byte(d.types("items", "show", item, "-o", "json")), &shown))
	lines := []string{}
	for _, e := range shown.Story {
		lines = append(lines, e.What)
	}
	return lines
}

func TestItemsListSaysOfEachWhatAnOperatorWouldAsk(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Equal(t, "no items match\n", d.types("items", "list"))
	d.dead(d.workspace, 1, "card refused")
	d.enqueues("--priority", "5")
	d.enqueues()
	for _, item := range d.claims() {
		switch item.ID {
		case 2:
			d.settles(claim.Dispatched, claim.Settlement{ID: 2, Token: item.Token, RunID: "run-2"})
		case 3:
			d.settles(claim.Retry, claim.Settlement{ID: 3, Token: item.Token, Error: "oven cold", Delay: time.Hour})
		}
	}
	d.enqueues("--run-at", "1d")
	d.enqueues()
	d.claims()
	d.enqueues()
	lines := strings.Split(d.types("items", "list"), "\n")
	require.Regexp(t, `^ID +STATE +WORKSPACE +DEFINITION +PRIORITY +AGE +ATTEMPTS +NOTE$`, lines[0])
	for n, want := range []string{
		`6 +PENDING +shop +order +0 +\d+s +0 +-`,
		`5 +CLAIMED +shop +order +0 +\d+s +1 +held by replica-1`,
		`4 +PENDING +shop +order +0 +\d+s +0 +due in (24h0m0s|23h59m\d+s)`,
		`3 +PENDING +shop +order +0 +\d+s +1 +retry in (1h0m0s|59m\d+s): oven cold`,
		`2 +DISPATCHED +shop +order +5 +\d+s +1 +run run-2`,
		`1 +FAILED +shop +order +0 +\d+s +2 +card refused`,
	} {
		require.Regexp(t, "^"+want+"$", lines[n+1])
	}
}

func TestItems_NamesThoseThatFailWhileOthersStart(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for range 3 {
		d.enqueues()
	}
	for _, item := range d.claims() {
		failed := claim.Settlement{ID: item.ID, Token: item.Token, Error: "no shard", Delay: 20 * time.Second, Alone: true}
		switch item.ID {
		case 1, 2:
			d.settles(claim.Release, failed)
		case 3:
			d.settles(claim.Dispatched, claim.Settlement{ID: 3, Token: item.Token, RunID: "run-3"})
		}
	}
	require.NotContains(t, d.types("status"), "keep", "once is no concern")
	d.exec("update pgdispatch.start_tries set tries = 4, since = now() - interval '1 minute' where item_id = 1")

	require.Regexp(t, `\n1 +PENDING .* failed 4 times while others started: no shard\n`, d.types("items", "list"))
	require.Regexp(t, "\nwaits +Its start failed 4 times while others of its namespace started. It keeps its slot, "+
		"and is tried again in (20|1\\d) s.\n", d.types("items", "show", "1"))
	require.Contains(t, d.types("status"), "Starts of 1 item keep failing while others start. Item 1: no shard")
	findings, _, _ := d.tries("doctor", "--temporal-address", "127.0.0.1:1")
	require.Contains(t, findings, "starts of 1 item keep failing while others start. Item 1: no shard")

	_, errs, _ := d.tries("items", "give-up", "3")
	require.Contains(t, errs, "item 3 is DISPATCHED: only items that wait for another try can be given up")
	waiting := d.enqueues()
	_, errs, _ = d.tries("items", "give-up", waiting)
	require.Contains(t, errs, "item "+waiting+" waits and holds no slot: use `pgdispatch items cancel "+waiting+"`")
	require.Equal(t, "would give-up 2 items\n", d.types("items", "give-up", "--all", "--dry-run"))
	require.Equal(t, "gave up 1 of 1 item\n", d.types("items", "give-up", "1", "--by", "ann"))
	require.Regexp(t, "\nwaits +It was given up by ann: a replica looks it up in Temporal for a minute, and then it "+
		"ends.\n", d.types("items", "show", "1"))
	for _, item := range d.claims() {
		if item.ID == 1 {
			require.Equal(t, "ann", item.GivenUpBy)
			require.Equal(t, "no shard", item.LastError)
		}
	}
}

func TestItemsListFiltersAndGoesPageByPage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 1, "card refused")
	for range 4 {
		d.enqueues()
	}
	d.addWorkspace("bank")
	d.types("enqueue", "order", "--workspace", "bank")
	ids := func(args ...string) []int64 {
		var items []operate.Item
		require.NoError(t,
			json.Unmarshal([]byte(d.types(append([]string{"items", "list", "-o", "json"}, args...)...)), &items))
		found := []int64{}
		for _, item := range items {
			found = append(found, item.ID)
		}
		return found
	}
	require.Equal(t, []int64{6, 5, 4}, ids("--limit", "3"))
	require.Equal(t, []int64{3, 2, 1}, ids("--limit", "3", "--before", "4"), "pages do not overlap")
	require.Contains(t, d.types("items", "list", "--limit", "3"), "there may be more; continue with --before 4\n")
	require.Equal(t, []int64{6}, ids("--workspace", "bank"))
	require.Equal(t, []int64{5, 4, 3, 2, 1}, ids("--workspace", strings.ToUpper(d.workspace), "--definition", "order"))
	require.Equal(t, []int64{1}, ids("--state", "failed,Completed"))
	require.Equal(t, []int64{1}, ids("--error", "CARD"))
	require.Empty(t, ids("--until", "1h"))
	require.Len(t, ids("--since", "1h"), 6)
}

func TestItemsShowTellsAnItemsStory(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueues("--params", `{"order": 17}`, "--idempotency-key", "invoice-17")
	execution := d.value("select execution_id::text from pgdispatch.workflow_execution_queue")
	require.Equal(t, []string{"inserted"}, d.story(id))

	item := d.claims()[0]
	require.Equal(t, []string{"inserted", "claimed by replica-1, attempt 1"}, d.story(id))
	d.settles(claim.Retry, claim.Settlement{ID: item.ID, Token: item.Token, Error: "oven cold"})
	item = d.claims()[0]
	d.settles(claim.Dispatched, claim.Settlement{ID: item.ID, Token: item.Token, RunID: "run-1"})
	_, err := (&complete.Postgres{DB: d.db}).Finish(t.Context(), execution, "TIMED_OUT", "too slow", "")
	require.NoError(t, err)
	d.types("dead", "replay", id, "--by", "ann")
	require.Equal(t, []string{
		"inserted", "claimed for the first time, execution created", "failure 1, attempt 1, on replica-1: oven cold",
		"claimed for the last time, attempt 2", "started: workflow execution-" + execution + ", run run-1",
		"workflow ended as TIMED_OUT: too slow", "replayed by ann as item 2",
	}, d.story("execution-"+strings.ToUpper(execution)))
	require.Equal(t, []string{"inserted as a replay of item 1"}, d.story("2"))
	require.Regexp(t, `(?m)^waits +shop runs 0 of 5,000; it is next\.$`, d.types("items", "show", "2"))
	require.Contains(t, d.types("items", "show", "2", "-o", "json"), `"waits": "shop runs 0 of 5,000; it is next."`)
	require.NotContains(t, d.types("items", "show", "1"), "waits")

	shown := d.types("items", "show", execution)
	for _, line := range []string{
		`item +1`, `state +FAILED`, `workflow +execution-` + execution, `run +run-1`, `workspace +shop \(` + d.workspace +
			`\)`,
		`definition +order \(\S+\), version 1`, `priority +0`, `idempotency key +invoice-17`, `params +\{"order": 17\}`,
		`attempts +2, of which 1 failed; at most 3 failures`, `error +too slow`, `\S+Z  inserted`,
		`\S+Z  replayed by ann as item 2`,
	} {
		require.Regexp(t, `(?m)^`+line+`$`, shown)
	}
}

func TestShowSaysWhatAWorkflowReturned(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, returned := range []struct{ note, result, shown string }{
		{"", `{"total": "\u001b[2J"}`, `\{"total": "\\u001b\[2J"\}`},
		{`encoding "binary/encrypted", 9 bytes: not stored`, "", `encoding "binary/encrypted", 9 bytes: not stored`},
	} {
		id := d.enqueues()
		item := d.claims()[0]
		d.settles(claim.Dispatched, claim.Settlement{ID: item.ID, Token: item.Token, RunID: "run"})
		_, err := (&complete.Postgres{DB: d.db}).Finish(t.Context(), item.ExecutionID, "COMPLETED", returned.note,
			returned.result)
		require.NoError(t, err)
		require.Regexp(t, `(?m)^result +`+returned.shown+`$`, d.types("items", "show", id))
		require.Regexp(t, `(?m)^result +`+returned.shown+`$`, d.types("executions", "show", id))
	}
	require.Contains(t, d.types("items", "show", "1", "-o", "json"), `"total"`)
	require.Contains(t, d.types("executions", "show", "2", "-o", "json"), `"result_note": "encoding`)
}

func TestItemsCancelWithdrawsWhatWaits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for range 4 {
		d.enqueues("--run-at", "1h")
	}
	require.Equal(t, "would cancel 2 items\n", d.types("items", "cancel", "1", "2", "--dry-run"))
	require.Equal(t, "cancelled 2 of 2 items\n", d.types("items", "cancel", "1", "02", "2", "--by", "ann"))
	_, errs, code := d.tries("items", "cancel", "3", "1")
	require.Equal(t, 1, code)
	require.Equal(t, "pgdispatch: item 1 is already CANCELLED: only PENDING items can be cancelled\n", errs)
	out, err := d.answers("n\n", "items", "cancel", "--workspace", "shop")
	require.EqualError(t, err, "nothing was changed: answer y, or repeat the command with --yes")
	require.Equal(t, "cancel 2 items? [y/N] ", out)
	require.Equal(t, "2",
		d.value("select count(*)::text from pgdispatch.workflow_execution_queue where status = 'PENDING'"),
		"nothing was changed yet")
	require.Equal(t, "cancelled 2 of 2 items\n", d.types("items", "cancel", "--all", "--yes"))
	require.Equal(t, "nothing to cancel: no item matches\n", d.types("items", "cancel", "--all"))
	require.Equal(t, []string{"inserted", "CANCELLED"}, d.story("4"))
}

func TestItemsCancelSaysHowToEndWhatRunsAlready(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enqueues()
	item := d.claims()[0]
	_, errs, _ := d.tries("items", "cancel", "1")
	require.Contains(t, errs,
		"item 1 is CLAIMED, only PENDING items can be cancelled; use `pgdispatch executions cancel 1`")
	d.settles(claim.Release, claim.Settlement{ID: 1, Token: item.Token, Unanswered: true})
	_, errs, _ = d.tries("items", "cancel", "1")
	require.Contains(t, errs, "Temporal has not answered a start")
	require.Equal(t, "cancelled 0 of 1 item\nskipped 1: claimed or ended in the meantime, or a start is unanswered\n",
		d.types("items", "cancel", "--all", "--yes"))
}

func TestItemsRetryRunsAtOnceWhatWaits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enqueues()
	item := d.claims()[0]
	d.settles(claim.Retry, claim.Settlement{ID: 1, Token: item.Token, Error: "oven cold", Delay: time.Hour})
	d.enqueues("--run-at", "1h")
	require.Empty(t, d.claims())
	require.Equal(t, "would retry 1 item\n", d.types("items", "retry", "--all", "--dry-run"),
		"an item scheduled for later has not failed")
	require.Equal(t, "retried 1 of 1 item\n", d.types("items", "retry", "--error", "oven", "--yes"))
	require.Len(t, d.claims(), 1)
	require.Equal(t, "retried 1 of 1 item\n", d.types("items", "retry", "2"))
	require.Len(t, d.claims(), 1)
	_, errs, _ := d.tries("items", "retry", "2")
	require.Equal(t,
		"pgdispatch: item 2 is CLAIMED: only PENDING or FAILED items can be retried; enqueue a new item to run it again\n",
		errs)
}

func TestItemsRetryOfAFailedOneReplaysIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 1, "card refused")
	require.Equal(t, "would retry 1 item\n", d.types("items", "retry", "1", "--dry-run"))
	require.Equal(t, "no changes match\n", d.types("audit", "list"))
	require.Regexp(t, `^1 replayed as 2, execution \S{36}\nretried 1 of 1 item\n$`,
		d.types("items", "retry", "1", "--by", "ann"))
	require.Equal(t, "ann", d.value("select marked_by from pgdispatch.dead_letter_marks"))
}

func TestItemsRefuseBadInputByName(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"list", "--state", "dead"},
			`--state is "dead": it must be one or more of pending, claimed, dispatched, completed, failed, cancelled`},
		{[]string{"list", "--limit", "0"}, "--limit is 0: it must be a whole number from 1 to 10000"},
		{[]string{"list", "--before", "-1"}, "--before is -1: it must be an ID"},
		{[]string{"list", "--before", "x"}, `invalid argument "x" for "--before"`},
		{[]string{"list", "--output", "xml"}, `--output is "xml": it must be table or json`},
		{[]string{"list", "--workspace", "shoop"}, `--workspace is "shoop": no workspace has this name or ID; see ` +
			"`pgdispatch workspaces list`"},
		{[]string{"list", "--since", "1h", "--until", "2h"}, "--since 1h is later than --until 2h"},
		{[]string{"show", "17"},
			"17 is not an item: it was never committed, or retention deleted it; see `pgdispatch items list`"},
		{[]string{"show", "00000000-0000-4000-8000-00000000000"},
			"is not an item ID (a number), execution ID (a UUID) or workflow ID (execution-...)"},
		{[]string{"cancel"},
			"nothing selected to cancel: give REFs, filters (--workspace, --definition, --error, --since, --until), or --all"},
		{[]string{"retry", "1", "--all"}, "give either REFs or filters, not both"},
		{[]string{"cancel", "--all", "--by", ""}, `--by is "": it must have 1 to 200 characters and no control characters`},
		{[]string{"cancel", "--all", "--by", "a\nb"}, `--by is "a\nb"`},
	} {
		out, errs, code := d.tries(append([]string{"items"}, row.args...)...)
		require.Equal(t, 1, code, "%v", row.args)
		require.Contains(t, errs, row.want, "%v", row.args)
		require.Empty(t, out, "%v", row.args)
	}
}

func TestExecutionsShowSaysWhatTheDatabaseAndTemporalKnow(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	d := &desk{t: t, url: s.url, db: s.db}
	execution := s.enqueue("PRO", "Hold", 1)[0]
	ask := []string{"executions", "show", execution, "--ask-temporal", "--temporal-address", s.temporal,
		"--temporal-namespace", "default"}
	require.Regexp(t, `(?m)^in Temporal +not found: never started, or deleted by retention$`, d.types(ask...))
	s.replica().ready()
	s.eventually(func() bool { return s.statusOf(execution) == "DISPATCHED" }, "the execution starts")
	shown := d.types(ask...)
	for _, line := range []string{
		`execution +` + execution + `, RUNNING`, `workflow +execution-` + execution, `run +\S{36}`,
		`in Temporal +RUNNING`, `item +1`, `state +DISPATCHED`,
		`workspace +PRO \(\S+\)`, `definition +Hold \(\S+\), version 1`, `watched by +\S+_\S+`,
		`\S+Z  claimed, attempt 1`, `\S+Z  started: workflow execution-` + execution + `, run \S{36}`,
	} {
		require.Regexp(t, `(?m)^`+line+`$`, shown)
	}
	ask[5] = nowhere
	_, errs, code := d.tries(ask...)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "omit --ask-temporal to show only the database's state")
}
