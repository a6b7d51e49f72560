package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// feeds runs `enqueue` with a file.
func (d *desk) feeds(text string, args ...string) (stdout, stderr string, code int) {
	d.t.Helper()
	return d.tries(append([]string{"enqueue", "--from", file(d.t, "items", text)}, args...)...)
}

// rows returns all items, oldest first.
func (d *desk) rows() string {
	d.t.Helper()
	return d.value(`select coalesce(string_agg(concat_ws(' ', w.name, d.name, q.params, q.priority,
		(q.run_at at time zone 'utc')::date, q.idempotency_key,
		q.limit_key, q.traceparent), e'\n' order by q.id), '') from pgdispatch.workflow_execution_queue q
		join pgdispatch.workspaces w on w.id = q.workspace_id
			join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id`)
}

func TestManyItemsAreEnqueuedFromNDJSONAndFromCSV(t *testing.T) {
	t.Parallel()
	want := `shop order {"n": 1} 5 2030-01-02 a smtp ` + parent + "\n" +
		`bank order {"n": "2,\"3\""} 0 2030-01-02 b küche` + "\n" + `shop order {} -100 2030-01-02`
	for name, text := range map[string]string{
		"NDJSON": `{"workspace": "shop", "definition": "order", "params": {"n": 1}, "priority": 5, ` +
			`"run_at": "2030-01-02", "idempotency_key": "a", "limit_key": "smtp", "traceparent": "` + parent + `"}` +
			"\r\n\n" +
			`{"workspace": "BANK", "params": {"n": "2,\"3\""}, "run_at": "2030-01-02T03:04:05+01:00", ` +
			`"idempotency_key": "b", "limit_key": "küche", "traceparent": null}` +
			"\n" + `{"priority": -100, "run_at": "2030-01-02"}`,
		"CSV": "\xef\xbb\xbfworkspace,definition,params,priority,run_at,idempotency_key,limit_key,traceparent\n" +
			`shop,order,"{""n"": 1}",5,2030-01-02,a,smtp,` + parent + "\n" +
			`BANK,,"{""n"":` + "\n" + `""2,\""3\""""}",,2030-01-02T03:04:05+01:00,b,küche,` + "\n,,,-100,2030-01-02,,,\n",
	} {
		d := newDesk(t)
		d.addWorkspace("bank")
		out, errs, code := d.feeds(text, "order", "--workspace", "shop", "--by", "ann", "--dry-run")
		require.Equal(t, "would enqueue 3 items\n", out, errs)
		require.Zero(t, code)
		require.Empty(t, d.rows())
		out, errs, code = d.feeds(text, "order", "--workspace", "shop", "--by", "ann")
		require.Zero(t, code, "%s: %s", name, errs)
		require.Equal(t, "enqueued 3 items\n", out)
		require.Equal(t, want, d.rows(), name)
		require.Equal(t, "ann enqueue {4,5,6}", d.value(`select who || ' ' || action || ' '
			|| array(select jsonb_array_elements_text(details -> 'items'))::text
			from pgdispatch.admin_log`))
		out, _, _ = d.feeds(text, "order", "--workspace", "shop", "--dry-run")
		require.Equal(t, "would enqueue 1 item; 2 had their key already\n", out)
		out, _, _ = d.feeds(text, "order", "--workspace", "shop", "-o", "json")
		require.JSONEq(t, `{"enqueued": 1, "existing": 2, "replaced": 0, "invalid": 0, "dry_run": false, "through_line": `+
			map[string]string{"NDJSON": "4", "CSV": "5"}[name]+`}`, out,
			"keys make repeating safe")
	}
}

func TestLinesMayHaveStartOptionsAndKeys(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	text := `{"params": {"n": 1}, "start_options": {"retry_policy": {"maximum_attempts": 3}}, "limit_key": "smtp"}
{"params": {"n": 2}, "key": "a", "priority": 7, "start_options": {"workflow_run_timeout": "2h"}}
{"params": {"n": 3}, "key": "a"}
{"params": {"n": 4}, "key": "a", "on_conflict": "replace"}
{"params": {"n": 5}, "key": "b", "on_conflict": "debounce", "quiet": "1h", "at_most": "1d"}
{"params": {"n": 6}, "key": "b", "on_conflict": "debounce", "quiet": "2h"}
{"params": {"n": 7}}
`
	out, errs, code := d.feeds(text, "order", "--workspace", "shop", "--by", "ann")
	require.Zero(t, code, errs)
	require.Equal(t, "enqueued 4 items; 1 had their key already; 2 replaced a waiting item's values\n", out)
	require.Equal(t, `{"n": 1} 0 {"retry_policy": {"maximum_attempts": 3}} smtp`+"\n"+
		`{"n": 4} 7 {"workflow_run_timeout": "2h"}`+"\n"+`{"n": 6} 0`+"\n"+`{"n": 7} 0`, d.value(`
		select string_agg(concat_ws(' ', params, priority, start_options, limit_key), e'\n' order by id)
		from pgdispatch.workflow_execution_queue`))
	require.Equal(t, "true", d.value(`select (run_at between created_at + interval '110 min' and created_at +
		interval '130 min')::text from pgdispatch.workflow_execution_queue where params @> '{"n": 6}'`))
	require.Equal(t, "debounced, inserted, replaced", d.value(`select details ->> 'answer'
		from pgdispatch.admin_log where details ? 'answer'`))
	out, _, _ = d.feeds(`params,key,on_conflict,start_options`+"\n"+`"{""n"": 8}",a,replace,"{""task_queue"": ""x""}"`,
		"order", "--workspace", "shop", "--skip-invalid")
	require.Equal(t, "enqueued 0 items; 1 bad line\n", out)
}

const good = `{"workspace": "shop", "definition": "order"}`

// requireBadLine feeds a file whose third line is bad, without and with --skip-invalid.
func (d *desk) requireBadLine(bad, want string) {
	t := d.t
	text := good + "\n" + good + "\n" + bad + "\n" + good + "\n"
	d.exec("delete from pgdispatch.workflow_execution_queue")
	out, errs, code := d.feeds(text)
	require.Equal(t, 1, code, bad)
	require.Empty(t, out)
	require.Contains(t, errs, want, bad)
	require.Contains(t, errs,
		"\nenqueued 2 items; 1 bad line, all up to line 2: continue with the next line, or repeat the whole file if each "+
			"line has an idempotency_key\n", bad)
	require.NotContains(t, errs, "secret", "params are not repeated")
	require.Equal(t, 2, strings.Count(d.rows(), "order"), bad)

	out, errs, code = d.feeds(text, "--skip-invalid")
	require.Zero(t, code, errs)
	require.Equal(t, "enqueued 3 items; 1 bad line\n", out, bad)
	require.Contains(t, errs, want)
}

func TestABadKeyOrStartOptionIsNamed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for bad, want := range map[string]string{
		`{"workspace": "shop", "definition": "order", "start_options": []}`: "line 3: enqueue items: ERROR: " +
			"start_options",
		`{"workspace": "shop", "definition": "order", "start_options": {"retry": 1}}`: "line 3: enqueue items: ERROR: " +
			"start_options has no field retry (SQLSTATE PGD11)\ndocs/enqueue.md lists the fields.\n",
		`{"workspace": "shop", "definition": "order", "on_conflict": "skip"}`: "line 3: enqueue items: ERROR: " +
			"on_conflict, quiet and at_most need a key (SQLSTATE PGD50)\nPass a key, such as 'order-17'.\n",
		`{"workspace": "shop", "definition": "order", "key": "a", "on_conflict": "drop"}`: "line 3: enqueue items: " +
			"ERROR: on_conflict is drop: it must be skip, replace or debounce",
		`{"workspace": "shop", "definition": "order", "key": "a", "on_conflict": "debounce"}`: "line 3: enqueue items: " +
			"ERROR: quiet is null: it must be from 1 ms to 1 year",
		`{"workspace": "shop", "definition": "order", "key": "a", "on_conflict": "debounce", "quiet": "5"}`: "line 3: " +
			`quiet is "5": it must be a duration such as 500ms`,
		`{"workspace": "shop", "definition": "order", "key": "a", "quiet": "5s"}`: "line 3: enqueue items: ERROR: " +
			"quiet and at_most are for debounce, and on_conflict is skip",
		`{"workspace": "shop", "definition": "order", "key": "a", "idempotency_key": "b"}`: "line 3: key and " +
			"idempotency_key are both given",
		`{"workspace": "shop", "definition": "order", "key": "a", "on_conflict": "debounce", "quiet": "5s", ` +
			`"run_at": "1d"}`: "line 3: enqueue items: ERROR: run_at must not be given with debounce",
	} {
		d.requireBadLine(bad, want)
	}
}

func TestABadLineStopsWithItsNumberAndFieldAndThoseBeforeItStay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for bad, want := range map[string]string{
		`{"workspace": "shop", "definition": "order", "priorty": 1}`: `line 3: "priorty" is no field: ` +
			`there are workspace, definition, params, priority, run_at, start_before, idempotency_key, limit_key, ` +
			`workflow_id, traceparent, start_options, key, on_conflict, quiet, at_most; ` +
			`did you mean "priority"?`,
		`{"workspace": "shop", "definition": "order", "priority": 101}`: "line 3: enqueue items: ERROR: " +
			"priority 101 is out of range: it must be between -100 and 100 (SQLSTATE PGD06)",
		`{"workspace": "shop", "definition": "order", "priority": 1.5}`: `line 3: priority is "1.5"`,
		`{"workspace": "shop", "definition": "order", "params": [1]}`: "line 3: enqueue items: ERROR: " +
			"params must be a JSON object, not array (SQLSTATE PGD04)",
		`{"workspace": "shop", "definition": "order", "params": {"a": "\u0000"}}`:      "line 3: params: ",
		`{"workspace": "shop", "definition": "order", "params": {"secret": 1e999999}}`: "line 3: ",
		`{"workspace": "shop", "definition": "order", "run_at": "soon"}`: `line 3: ` +
			`run_at is "soon": it must be a time`,
		`{"workspace": "shop", "definition": "order", "run_at": "1999-01-01"}`: "line 3: enqueue items: ERROR: " +
			"run_at 1999-01-01 00:00:00+00 is out of range: it must be between the years 2000 and 2200",
		`{"workspace": "shop", "definition": "order", "idempotency_key": ""}`: "line 3: idempotency_key is empty",
		`{"workspace": "shop", "definition": "order", "idempotency_key": 7}`:  "line 3: idempotency_key must be a string",
		`{"workspace": "shop", "definition": "order", "limit_key": ""}`:       "line 3: limit_key is empty: leave it out, or",
		`{"workspace": "shop", "definition": "order", "limit_key": 7}`:        "line 3: limit_key must be a string",
		`{"workspace": "shop", "definition": "order", "limit_key": "` + strings.Repeat("ü", 201) + `"}`: "line 3: " +
			"enqueue items: ERROR: limit_key has 201 characters: a limit key must have 1 to 200",
		`{"workspace": "shop", "definition": "order", "limit_key": "a\u0000b"}`: "line 3: limit_key must be text in UTF-8",
		`{"workspace": "shop", "definition": "order", "traceparent": "00-x"}`: "line 3: enqueue items: ERROR: " +
			"traceparent is not a valid W3C trace context",
		`{"workspace": "shoop", "definition": "order"}`: `line 3: ` +
			`workspace: no workspace has the ID or name "shoop": `,
		`{"workspace": "shop", "definition": "oder"}`: `line 3: definition: workspace "shop" ` +
			`has no workflow definition "oder"; its definitions are order; did you mean "order"?`,
		`{"definition": "order"}`: "line 3: workspace is missing: give it in " +
			"the line, or by --workspace for all",
		`{"workspace": "shop"}`: "line 3: definition is missing",
		`{"workspace": `:        "line 3: it is not JSON",
		`[1]`:                   "line 3: it must be a JSON object",
	} {
		d.requireBadLine(bad, want)
	}
	_, errs, code := d.feeds(good+"\nx\n"+good+"\ny\n", "--dry-run")
	require.Equal(t, 1, code)
	require.Equal(t,
		"line 2: it must be a JSON object\nline 4: it must be a JSON object\npgdispatch: the file has bad lines\nwould "+
			"enqueue 2 items; 2 bad lines\n", errs)
}

func TestBadFilesAndFlagsOfManyItemsAreRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for text, want := range map[string]string{
		"workspace,prio\nshop,1\n":             `line 1: "prio" is no field: there are workspace`,
		"workspace,workspace\n":                "line 1: the column workspace is there twice",
		"workspace,definition\nshop\n":         "line 2: wrong number of fields",
		"workspace,definition\nshop,\"or\"d\n": "line 2: extraneous or missing",
	} {
		_, errs, code := d.feeds(text)
		require.Equal(t, 1, code, text)
		require.Contains(t, errs, want, text)
	}
	for args, want := range map[string]string{
		"enqueue --from /nowhere":                  "--from: open /nowhere",
		"enqueue --from x --params {}":             "--params is for one item, and --from is for many",
		"enqueue --from x --limit-key k":           "--limit-key is for one item, and --from is for many",
		"enqueue order --workspace shop --dry-run": "--skip-invalid and --dry-run need --from",
		"enqueue":              "accepts 1 arg(s), received 0",
		"enqueue --from x a b": "accepts at most 1 arg(s), received 2",
	} {
		_, errs, code := d.tries(strings.Fields(args)...)
		require.Equal(t, 1, code, args)
		require.Contains(t, errs, want, args)
	}
	out, errs, code := d.feeds("")
	require.Equal(t, "enqueued 0 items\n", out, errs)
	require.Zero(t, code)
}

func TestManyItemsGoInBatchesAndABadOneInTheMiddleIsFound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`alter table pgdispatch.workflow_execution_queue add constraint no_thirteen check (params ->> 'n' <> '777')`)
	var text strings.Builder
	for n := range 1201 {
		fmt.Fprintf(&text, "{\"workspace\": \"shop\", \"definition\": \"order\", \"params\": {\"n\": \"%d\"}}\n", n+1)
	}
	_, errs, code := d.feeds(text.String())
	require.Equal(t, 1, code)
	require.Contains(t, errs, "line 777: ")
	require.Contains(t, errs, "no_thirteen")
	require.Equal(t, "776", d.value("select max((params ->> 'n')::int)::text from pgdispatch.workflow_execution_queue"),
		"none after it")
	require.Equal(t, "776", d.value("select count(*)::text from pgdispatch.workflow_execution_queue"), "all before it")
	d.exec("delete from pgdispatch.workflow_execution_queue")
	_, errs, code = d.feeds(text.String(), "--dry-run")
	require.Equal(t, 1, code, "a dry run finds what the database refuses")
	require.Contains(t, errs, "line 777: ")
	require.Contains(t, errs, "the file has bad lines\nwould enqueue 1,200 items; 1 bad line\n")
	require.Equal(t, "0", d.value("select count(*)::text from pgdispatch.workflow_execution_queue"))
	d.exec("delete from pgdispatch.workflow_execution_queue")
	out, errs, code := d.feeds(text.String(), "--skip-invalid")
	require.Zero(t, code, errs)
	require.Equal(t, "enqueued 1,200 items; 1 bad line\n", out)
	require.Equal(t, "true",
		d.value("select (count(distinct xmin::text) < 20)::text from pgdispatch.workflow_execution_queue"))
}

func TestCtrlCStopsAfterABatchAndSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := exec.Command(binary(t), "enqueue", "order", "--workspace", "shop", "--from", "-")
	p.Env = process.Environment("DATABASE_URL=" + d.url)
	var errs bytes.Buffer
	p.Stderr = &errs
	in, err := p.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	_, err = in.Write([]byte(strings.Repeat("{}\n", 700)))
	require.NoError(t, err)
	await(t, 20*time.Second, func() bool {
		return d.value("select count(*)::text from pgdispatch.workflow_execution_queue") == "500"
	}, "the first batch is enqueued")
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	require.Error(t, p.Wait())
	require.Equal(t,
		"pgdispatch: it was interrupted\nenqueued 500 items, all up to line 500: continue with the next line, or repeat "+
			"the whole file if each line has an idempotency_key\n",
		errs.String())
	require.Equal(t, "500", d.value("select count(*)::text from pgdispatch.workflow_execution_queue"))
}
