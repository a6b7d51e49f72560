package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func TestDeadListShowsWhatFailedWhereAndWhy(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Equal(t, "no dead letters match\n", d.types("dead", "list"))
	d.dead(d.workspace, 1, "card refused")
	d.dead(d.addWorkspace("bank"), 1, strings.Repeat("long ", 100))
	lines := strings.Split(d.types("dead", "list"), "\n")
	require.Regexp(t, `^ID +STATE +WORKSPACE +DEFINITION +FAILED AGO +ATTEMPTS +WORKFLOW +ERROR$`, lines[0])
	require.Regexp(t, `^2 +OPEN +bank +order +\d+s +2 +not started +(long ){15}long…$`, lines[1])
	require.Regexp(t, `^1 +OPEN +shop +order +\d+s +2 +not started +card refused$`, lines[2])
	require.Regexp(t, `(?s)^ID.*\n2 [^\n]*\nthere may be more; showing the latest 1 failures: see --limit\n$`,
		d.types("dead", "list", "--limit", "1"))
	require.NotContains(t, d.types("dead", "list", "--workspace", "shop"), "long")
}

func TestDeadListAndShowAreJSONToo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Equal(t, "[]\n", d.types("dead", "list", "-o", "json"), "an empty list is printed as []")
	d.dead(d.workspace, 1, `say "no" <b>`)
	var letters []operate.Item
	require.NoError(t, json.Unmarshal([]byte(d.types("dead", "list", "--output", "json")), &letters))
	require.Len(t, letters, 1)
	require.Equal(t, `say "no" <b>`, letters[0].LastError)
	require.JSONEq(t, `{"order": 17}`, string(letters[0].Params))
	require.Equal(t, d.workspace, letters[0].WorkspaceID)
	var shown struct {
		operate.Item
		Failures []operate.Failure
	}
	require.NoError(t, json.Unmarshal([]byte(d.types("dead", "show", "1", "-o", "json")), &shown))
	shown.Params, letters[0].Params = nil, nil // formatted differently
	require.Equal(t, letters[0], shown.Item)
	require.Equal(t, "OPEN", shown.State)
	require.Len(t, shown.Failures, 2)
	require.Equal(t, "replica-1", shown.Failures[1].Replica)
}

func TestDeadShowTellsTheWholeStory(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 1, "card refused")
	d.types("dead", "replay", "1", "--by", "ann")
	execution := d.value("select execution_id::text from pgdispatch.workflow_execution_queue where id = 1")
	replay := d.value("select execution_id::text from pgdispatch.workflow_execution_queue where id = 2")
	shown := d.types("dead", "show", "execution-"+strings.ToUpper(execution))
	require.Equal(t, shown, d.types("dead", "show", execution))
	require.Equal(t, shown, d.types("items", "show", execution), "a dead letter is an item")
	for _, line := range []string{
		`item +1`, `workflow +execution-` + execution, `run +-`, `state +FAILED`, `dead letter +REPLAYED`,
		`replayed as +2, execution ` + replay + `, PENDING`, `workspace +shop \(` + d.workspace + `\)`,
		`definition +order \(\S+\), version 1`,
		`params +\{"order": 17\}`, `attempts +2, of which 2 failed; at most 3 failures`, `error +card refused`,
		`\S+Z  failure 1, attempt 1, on replica-1: card refused`, `\S+Z  failure 2, attempt 2, on replica-1: card refused`,
		`\S+Z  failed permanently: card refused`, `\S+Z  replayed by ann as item 2`,
	} {
		require.Regexp(t, `(?m)^`+line+`$`, shown)
	}
	require.Equal(t, "1 was already replayed as 2\nreplayed 0 of 1 dead letter\n", d.types("dead", "replay", "1"))
}

func TestDeadReplayOfManyAsksOrTakesYes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 3, "card refused")
	d.dead(d.addWorkspace("bank"), 1, "vault shut")
	require.Equal(t, "would replay 3 dead letters\n", d.types("dead", "replay", "--error", "CARD", "--dry-run", "--yes"))
	for _, answer := range []string{"", "n\n", "\n", "yess\n", "no"} {
		out, err := d.answers(answer, "dead", "replay", "--error", "card")
		require.EqualError(t, err, "nothing was changed: answer y, or repeat the command with --yes", "%q", answer)
		require.Equal(t, "replay 3 dead letters? [y/N] ", out)
	}
	require.Equal(t, "4", d.value("select count(*)::text from pgdispatch.workflow_execution_queue"),
		"nothing was changed yet")

	out, err := d.answers("y\n", "dead", "replay", "--error", "card")
	require.NoError(t, err)
	require.Regexp(t, `1 replayed as 5, execution [0-9a-f-]{36}\n`, out)
	require.Contains(t, out, "replayed 3 of 3 dead letters\n")
	require.Equal(t, "nothing to replay: no open dead letter matches\n",
		d.types("dead", "replay", "--error", "card", "--yes"))
	require.Contains(t, d.types("dead", "replay", "--all", "--yes"), "replayed 1 of 1 dead letter\n")
}

func TestDeadReplayOfManyGoesBatchByBatchAndIsNotEndless(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 1001, "card refused")
	// Each replay fails at once, while others are still being replayed.
	d.exec(`create function public.fail_at_once() returns trigger language plpgsql security definer as $$ begin
		set local session_replication_role = replica;
		update pgdispatch.workflow_execution_queue q
		set status = 'FAILED', last_error = 'card refused', claimed_at = clock_timestamp(), finished_at = clock_timestamp()
		from made where q.id = made.id;
		set local session_replication_role = origin;
		return null; end $$`)
	d.exec(`create trigger fail_at_once after insert on pgdispatch.workflow_execution_queue referencing new table as made
		for each statement execute function public.fail_at_once()`)
	require.Equal(t, "replayed 1,001 of 1,001 dead letters\n", d.types("dead", "replay", "--all", "--yes"))
	require.Equal(t, fmt.Sprint(1001), d.value("select count(*)::text from pgdispatch.dead_letters"))
	require.Equal(t, "3", d.value("select count(distinct xmin::text)::text from pgdispatch.dead_letter_marks"),
		"the replay uses three transactions")
	require.Equal(t, "true",
		d.value("select bool_and(item_id = replay_id - $1)::text from pgdispatch.dead_letter_marks", 1001),
		"the first failure is replayed first")
}

func TestDeadDiscardMarksAndDeletesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 3, "card refused")
	require.Equal(t, "discarded 2 of 2 dead letters\n", d.types("dead", "discard", "1", "2", "02", "--by", "ann"))
	require.Equal(t, "discarded 0 of 1 dead letter\nskipped 1: already handled, or the definition was deleted\n",
		d.types("dead", "discard", "2"))
	require.Equal(t, "would discard 1 dead letter\n", d.types("dead", "discard", "--all", "--dry-run"))
	require.Equal(t, "{\n  \"matched\": 1,\n  \"dry_run\": false,\n  \"discarded\": [\n    3\n  ]\n}\n",
		d.types("dead", "discard", "--all", "--yes", "-o", "json"))
	require.Equal(t, "no dead letters match\n", d.types("dead", "list"))
	require.Contains(t, d.types("dead", "list", "--state", "discarded"), "DISCARDED")
	require.Equal(t, "ann", d.value("select marked_by from pgdispatch.failed_items where id = 1"))
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Regexp(t, `^\S+@`+regexp.QuoteMeta(host)+`$`,
		d.value("select marked_by from pgdispatch.failed_items where id = 3"))
	require.Equal(t, "3", d.value("select count(*)::text from pgdispatch.workflow_execution_queue"))
}

func TestDeadFiltersByTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 2, "card refused")
	d.exec("set session_replication_role = replica; update pgdispatch.workflow_execution_queue " +
		"set finished_at = '2026-01-02 03:04:05Z' where id = 1")
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--since", "1h"}, "[2]"}, {[]string{"--until", "7d"}, "[1]"},
		{[]string{"--since", "2026-01-02", "--until", "2026-01-03"}, "[1]"},
		{[]string{"--since", "2026-01-02T04:04:05+01:00", "--until", "2026-01-02T03:04:05Z"}, "[1]"},
		{[]string{"--since", "2026-01-02T03:04:06Z"}, "[2]"},
	} {
		var letters []operate.Item
		require.NoError(t,
			json.Unmarshal([]byte(d.types(append([]string{"dead", "list", "-o", "json"}, row.args...)...)), &letters))
		ids := []int64{}
		for _, letter := range letters {
			ids = append(ids, letter.ID)
		}
		require.Equal(t, row.want, fmt.Sprint(ids), "%v", row.args)
	}
}

func TestDeadRefusesBadInputByName(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 1, "card refused")
	huge := strings.Repeat("x", 100000)
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"replay"},
			"nothing selected to replay: give REFs, filters (--workspace, --definition, --error, --since, --until), or --all"},
		{[]string{"discard"}, "nothing selected to discard: give REFs"},
		{[]string{"replay", "1", "--all"}, "give either REFs or filters, not both"},
		{[]string{"replay", "1", "--workspace", "shop"}, "not both"},
		{[]string{"replay", "17"},
			"17 is not a dead letter: the item does not exist or has not failed; see `pgdispatch dead list --state any`"},
		{[]string{"show", "00000000-0000-4000-8000-000000000000"}, "is not a dead letter"},
		{[]string{"show", "-1"}, "unknown shorthand flag"},
		{[]string{"show", "x'; drop table y; --"},
			`"x'; drop table y; --" is not an item ID (a number), execution ID (a UUID) or workflow ID (execution-...)`},
		{[]string{"show", "\x1b[2J"}, `"\x1b[2J" is not an item ID`},
		{[]string{"show", "99999999999999999999"}, `"99999999999999999999" is not an item ID`},
		{[]string{"show", huge}, `xxx" is not an item ID`},
		{[]string{"show"}, "accepts 1 arg(s)"},
		{[]string{"list", "--limit", "0"}, "--limit is 0: it must be a whole number from 1 to 10000"},
		{[]string{"list", "--limit", "10001"}, "--limit is 10001: it must be"},
		{[]string{"list", "--state", "dead"}, `--state is "dead": it must be open, replayed, discarded or any`},
		{[]string{"list", "--output", "xml"}, `--output is "xml": it must be table or json`},
		{[]string{"replay", "--all", "--output", "xml"}, `--output is "xml"`},
		{[]string{"list", "--since", "yesterday"}, `--since is "yesterday": it must be a time such as`},
		{[]string{"list", "--until", "2026-02-30"}, `--until is "2026-02-30": it must be a time such as`},
		{[]string{"list", "--since", "-1h"}, `--since is "-1h"`},
		{[]string{"list", "--since", "99999999999d"}, `--since is "99999999999d"`},
		{[]string{"list", "--since", "1h", "--until", "2h"}, "--since 1h is later than --until 2h"},
		{[]string{"list", "--since", "2026-02-02", "--until", "2026-02-01"},
			"--since 2026-02-02 is later than --until 2026-02-01"},
		{[]string{"list", "--workspace", "shoop"}, `--workspace is "shoop": no workspace has this name or ID`},
		{[]string{"replay", "--definition", "oder", "--yes"},
			`--definition is "oder": no workflow definition has this name or ID`},
		{[]string{"list", "--error", "a\x00b"},
			`--error is "a\x00b": it must have at most 2000 characters and no control characters`},
		{[]string{"list", "--error", "\xff"}, `--error is "\xff"`},
		{[]string{"list", "--workspace", "a\nb"}, `--workspace is "a\nb"`},
		{[]string{"list", "--error", huge}, `xxx": it must have at most 2000 characters`},
		{[]string{"replay", "--error", " ", "--yes"}, "--error is blank: omit it instead"},
		{[]string{"replay", "1", "--by", ""},
			`--by is "": it must have 1 to 200 characters and no control characters`},
		{[]string{"discard", "--all", "--yes", "--by", "a\nb"}, `--by is "a\nb": it must have`},
	} {
		out, errs, code := d.tries(append([]string{"dead"}, row.args...)...)
		require.Equal(t, 1, code, "%.200v", row.args)
		require.Contains(t, errs, row.want, "%.200v", row.args)
		require.Less(t, len(errs), 1000, "an error repeats only a part of the input")
		require.Empty(t, out, "%.200v", row.args)
	}
	require.Equal(t, "1", d.value("select count(*)::text from pgdispatch.workflow_execution_queue"))
}

func TestAReplayThatCannotBeSaysWhatToDo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 2, "card refused")
	d.exec("delete from pgdispatch.workflow_definitions")
	_, errs, code := d.tries("dead", "replay", "1")
	require.Equal(t, 1, code)
	require.Regexp(t,
		`workflow definition \S+ of item 1 was deleted \(SQLSTATE PGD02\)\n`+
			`Insert it again with this id, or discard the item\.\n$`, errs)
	require.Equal(t, "replayed 0 of 2 dead letters\nskipped 2: already handled, or the definition was deleted\n",
		d.types("dead", "replay", "--all", "--yes"))
	require.Regexp(t, `(?m)^definition +deleted \(\S+\), version`, d.types("dead", "show", "1"))
}

func TestAReplayRunsAsAWorkflowOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	refused := s.define(s.workspace["PRO"], "refused", "Echo", s.queue)
	s.exec("update pgdispatch.workflow_definitions set start_options = $1 where id = $2", neverAccepted, refused)
	dead := s.enqueue("PRO", "refused", 1)[0]
	s.eventually(func() bool { return s.statusOf(dead) == "FAILED" }, "Temporal rejects the start")
	s.exec("update pgdispatch.workflow_definitions set start_options = null where id = $1", refused)
	replay := one[string](s, "select r.execution_id::text from pgdispatch.replay($1) r where r.replayed", dead)
	s.eventually(func() bool { return s.statusOf(replay) == "COMPLETED" }, "the replay completes")
	run, err := s.client.DescribeWorkflowExecution(t.Context(), "execution-"+replay, "")
	require.NoError(t, err)
	require.Equal(t, one[string](s, "select run_id from pgdispatch.workflow_executions where id = $1", replay),
		run.WorkflowExecutionInfo.Execution.RunId)
	require.Equal(t, "FAILED", s.statusOf(dead), "the dead letter is unchanged")
	require.Equal(t, 1, one[int](s, `select count(replica)::int from pgdispatch.item_failures
		join pgdispatch.workflow_execution_queue q on q.id = item_id
			where q.execution_id = $1`, dead), "the failure is recorded")
}
