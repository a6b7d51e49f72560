package claim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// remedy is in every error about an answer of another shape.
const remedy = "run `pgdispatch migrate up`"

// answersWith replaces a part of a function.
func (b *bench) answersWith(function, part, by string) {
	for _, f := range sql.Functions() {
		if f.Name == function {
			require.Contains(b.t, f.Text, part)
			b.Execute(strings.ReplaceAll(f.Text, part, by))
		}
	}
}

// byProcedure makes every claim of the shop one that claim_plain declines.
func (b *bench) byProcedure() {
	b.Execute("update pgdispatch.workspaces set max_starts_per_second = 1000")
}

func (b *bench) count(condition string) int {
	return sqltest.Scalar[int](b.Shop, "select count(*) from pgdispatch.workflow_execution_queue where "+condition)
}

func TestAnAnswerOfAnotherShapeIsAnErrorAndItsItemsAreReleased(t *testing.T) {
	type given struct{ part, by, problem string }
	must.Each(t, map[string]given{
		"without entries": {"to_json(c);", "(to_jsonb(c) - 'entries')::json;", "the standing of 0 of 1 entries"},
		"without limits": {"to_json(c);", "jsonb_set(to_jsonb(c), '{entries,0}', '{}')::json;",
			"the standing of entry 1 without its limits"},
		"with text for a number": {"to_json(c);", `jsonb_set(to_jsonb(c), '{room}', '"much"')::json;`, "room"},
		"with no standing":       {"to_json(c);", "null::json;", "an item without its"},
		"with an item of nobody": {"i.execution_id::text, i.workspace_id::text,", "i.execution_id::text, '',",
			"read workspace of item"},
		"without the token": {"select i.id, i.lease_token,", "select i.id, 0::bigint,",
			"an item without its"},
		"with no time of an unanswered start": {"else '0'\n           end,", "end,", "unanswered_for"},
	}, func(t *testing.T, c given) {
		b := newBench(t)
		inHand := b.claimed(2)
		b.byProcedure()
		b.answersWith("claim", c.part, c.by)
		b.Insert(b.Shop.Shop, 3)
		batch, err := b.Claim(t.Context(), 10)
		require.ErrorContains(t, err, remedy)
		require.ErrorContains(t, err, c.problem)
		require.Empty(t, batch.Items)
		require.Equal(t, 3, b.count("status = 'PENDING' and attempt_count = 0 and lost_lease_count = 0"),
			"the items of the answer wait again, as if never claimed")
		require.Equal(t, len(inHand), b.count("status = 'CLAIMED'"), "what it holds is not touched")

		b.answersWith("claim", "to_json(c);", "to_json(c);")
		require.Len(t, b.claim(10).Items, 3)
	})
}

func TestALoadWithoutAPriorityOrAPositionIsAnError(t *testing.T) {
	t.Parallel()
	for _, row := range []string{"null::integer, '', run_at, id", "priority, '', null::timestamptz, id",
		"priority, '', run_at, null::bigint"} {
		t.Run(row, func(t *testing.T) {
			b := newBench(t)
			b.Insert(b.Shop.Shop, 1)
			b.Execute(`create or replace function pgdispatch.waiting_queues(after_workspace uuid, after_priority integer,
				after_key text) returns table (workspace_id uuid, priority integer, limit_key text, run_at timestamptz, id bigint)
				language sql stable as $$ select workspace_id, ` + row + ` from pgdispatch.workflow_execution_queue $$`)
			_, err := b.Claim(t.Context(), 1)
			require.ErrorContains(t, err, "a line without its first item")
		})
	}
}

// Such an error comes from a statement inside the function. It is about no item.
func TestAClaimThatFailsByItsStatementParksNoItem(t *testing.T) {
	type given struct{ part, by, problem string }
	must.Each(t, map[string]given{
		"of another type": {"select i.id, i.lease_token,", "select i.id, i.lease_token::text,", "SQLSTATE 42804"},
		"not there":       {"pgdispatch.claim_pick(owner,", "pgdispatch.claim_pick_2(owner,", "SQLSTATE 42883"},
	}, func(t *testing.T, c given) {
		b := newBench(t)
		b.Insert(b.Shop.Shop, 3)
		b.byProcedure()
		b.answersWith("claim", c.part, c.by)
		_, err := b.Claim(t.Context(), 2)
		require.ErrorContains(t, err, c.problem)
		require.ErrorContains(t, err, remedy)
		require.Equal(t, 3, b.count("status = 'PENDING' and attempt_count = 0"))
		require.Zero(t, sqltest.Scalar[int](b.Shop, "select count(*) from pgdispatch.parked_items"))
	})
}

func TestALoadOfAnotherShapeIsAnErrorWithARemedy(t *testing.T) {
	b := newBench(t)
	b.Insert(b.Shop.Shop, 1)
	b.answersWith("burst_limit", "else max_concurrent end", "end")
	b.Execute("update pgdispatch.workspaces set max_concurrent_workflows = 0")
	_, err := b.Claim(t.Context(), 1)
	require.ErrorContains(t, err, remedy)
}

// proposed is a proposal of three entries, one with a key, and the schedule that made it.
func proposed() (*schedule.Schedule, schedule.Proposal, time.Time) {
	s, now := &schedule.Schedule{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []schedule.Waiting
	for n := range 3 {
		w := schedule.Waiting{Workspace: schedule.WorkspaceID(uuid.NewSHA1(uuid.Nil, []byte{byte(n)})), Number: int64(n + 1),
			Limit: 5, BurstLimit: 5, From: schedule.Position{Due: now, ID: int64(n + 1)}}
		if n == 2 {
			w.Key = "k"
		}
		all = append(all, w)
	}
	s.Tell(now)
	s.Load(all, schedule.Changed{})
	return s, s.Propose(now, schedule.Want{Free: 10}), now
}

// good is an answer to proposed.
const good = `{"at_time":"2026-01-01T00:00:00Z","took":7,"epoch":null,"paused":false,"room":9,"last_token":30,
	"tokens":[29],"next":[{"entry":3,"run_at":"2026-01-01T00:00:00Z","id":6}],"entries":[
	{"granted":1,"slots":5,"burst_slots":8,"paused":false,"wake_number":11,"rate":null,"allows":null,"holders":null,
		"own":null},
	{"granted":0,"slots":1,"burst_slots":1,"wake_number":null,"rate":2.5,"allows":0.5,"holders":4,"lowest_token":21},
	{"granted":2,"slots":20,"burst_slots":20,"paused":true,"wake_number":13,"own":{"room":1,"starts":2,"again":3},
		"shared":{"room":1,"starts":0,"again":0.5}}]}`

// taken by the answer.
func answered(standing []byte) []claimed {
	_, p, _ := proposed()
	workspace := uuid.UUID(p.Entries[0].Workspace).String()
	return []claimed{{Item: Item{ID: 1, Token: 31, WorkspaceID: workspace}},
		{Item: Item{ID: 2, Token: 32, WorkspaceID: workspace, Unanswered: true}}, {Standing: standing}}
}

func TestAGoodAnswerIsRead(t *testing.T) {
	t.Parallel()
	_, p, _ := proposed()
	require.Len(t, p.Entries, 3)
	var a claimAnswer
	require.NoError(t, a.take(answered([]byte(good)), p))
	require.Len(t, a.items, 2)
	answer := a.schedule(p, nil)
	require.Equal(t, a.standing.At, answer.At, "no clock that is read later")
	require.Equal(t, 1, answer.Unanswered)
	require.Equal(t, 200*time.Millisecond+time.Microsecond, answer.Standings[1].RetryIn, "not slightly too early")
}

func TestAnAnswerThatLacksAPartIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	_, p, _ := proposed()
	for part, wrong := range map[string][]string{
		"at_time": {`null`}, "entries": {`null`, `[]`, `[{}]`, `[{},{},{},{}]`, `[{"slots":1},{},{}]`,
			`[{"slots":1,"burst_slots":1},null,{"slots":1,"burst_slots":1}]`},
		"next": {`[{}]`, `[{"entry":4}]`, `[{"entry":-1}]`, `[null]`},
	} {
		for _, value := range wrong {
			var all map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(good), &all))
			all[part] = json.RawMessage(value)
			text, err := json.Marshal(all)
			require.NoError(t, err)
			var a claimAnswer
			err = a.take(answered(text), p)
			require.ErrorContains(t, err, map[string]string{"at_time": "at_time", "entries": "the standing of",
				"next": "what is left of"}[part], "%s: %s", part, value)
			require.ErrorContains(t, err, remedy)
		}
	}
}

// Whatever the answer is, it is an error or it can be applied.
func FuzzClaimAnswer(f *testing.F) {
	f.Add([]byte(good), int64(1), true)
	for n := range good { // truncated, and with a character cut out
		if n%7 == 0 {
			f.Add([]byte(good[:n]), int64(n), false)
			f.Add([]byte(good[:n]+good[n+1:]), int64(n), true)
		}
	}
	for _, part := range []string{"entries", "next", "tokens", "room", "epoch"} {
		for _, value := range []string{"null", "[]", "[null]", "[[]]", "[1]", `"text"`, "{}", "[-1,0,9223372036854775807]",
			`[{"slots":-1,"burst_slots":9223372036854775807,"holders":-5,"rate":0,"own":{"room":-1}},{},{}]`} {
			f.Add(fmt.Appendf(nil, `%s,%q:%s}`, strings.TrimSuffix(good, "}"), part, value), int64(0), true)
		}
	}
	f.Fuzz(func(_ *testing.T, standing []byte, id int64, some bool) {
		s, p, now := proposed()
		rows := answered(standing)
		if rows[0].ID = id; !some {
			rows = rows[1:]
		}
		var a claimAnswer
		if a.take(rows, p) != nil {
			return
		}
		a.startable(p)
		s.Apply(now, p, a.schedule(p, map[string]int{"n": 1}))
		s.Propose(now.Add(time.Second), schedule.Want{Free: 10})
	})
}

// The claim's own items drew later tokens. The next claim counts them, because the receipt ends before them.
func TestAReceiptEndsWhereItsCountDid(t *testing.T) {
	t.Parallel()
	slots, holders, lowest, workspace := 20, 3, int64(95), schedule.WorkspaceID(uuid.New())
	st := standing{LastToken: 100, Entries: []entryStanding{
		{Granted: 4, Slots: &slots, BurstSlots: &slots, Holders: &holders, LowestToken: &lowest}}}
	e := schedule.Entry{Workspace: workspace, Items: 4}
	stands := st.of(0, e, taken{ofEntry: map[entry]int{{workspace: workspace}: 4},
		ofWorkspace: map[schedule.WorkspaceID]int{workspace: 4}})
	require.Equal(t, schedule.Receipt{Floor: 95, Held: 3, To: 100}, stands.Receipt)
	require.Equal(t, 7, stands.Held)
}

// Everything else that leaves an item that is due says so by other fields.
func TestALevelIsPassedOverOnlyIfItCouldHaveTakenAnItemOfANamespaceThatIsClosed(t *testing.T) {
	t.Parallel()
	type given struct {
		closed, granted, due, cut bool
		took                      int
	}
	for passed, cases := range map[bool][]given{
		true: {{closed: true, granted: true, due: true}},
		false: {
			{granted: true, due: true},
			{closed: true, due: true},
			{closed: true, granted: true},
			{closed: true, granted: true, due: true, cut: true},
			{closed: true, granted: true, due: true, took: 1},
		},
	} {
		for _, c := range cases {
			slots, w := 9, schedule.WorkspaceID{1}
			a := claimAnswer{standing: standing{At: time.Now(), Room: 5}}
			found := entryStanding{Slots: &slots, BurstSlots: &slots}
			if c.granted {
				found.Granted = 5
			}
			a.standing.Entries = []entryStanding{found, found}
			left := `{"next": [{"entry": 1, "id": 7, "run_at": "2000-01-01T00:00:00Z"}]}`
			if !c.due {
				left = strings.Replace(left, "2000", "2199", 1)
			}
			require.NoError(t, json.Unmarshal([]byte(left), &a.standing))
			for range c.took {
				a.items, a.workspaces = append(a.items, Item{}), append(a.workspaces, w)
			}
			if c.cut {
				a.standing.Room = 0
			}
			allowed := map[string]int{"default": 1}
			if c.closed {
				allowed["default"] = 0
			}
			entries := []schedule.Entry{{Workspace: w}, {Workspace: schedule.WorkspaceID{2}}}
			answer := a.schedule(schedule.Proposal{AtMost: 5, Entries: entries}, allowed)
			require.Equal(t, passed, answer.Standings[0].PassedOver, "%+v", c)
		}
	}
}
