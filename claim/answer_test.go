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
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// remedy is in every error about an answer of another shape.
const remedy = "run `pgdispatch migrate up`"

// answersWith replaces a part of a function.
func (b *bench) answersWith(function, part, by string) {
	b.t.Helper()
	for _, f := range sql.Functions() {
		if f.Name == function {
			require.Contains(b.t, f.Text, part)
			b.Execute(strings.ReplaceAll(f.Text, part, by))
		}
	}
}

// byProcedure makes every claim of the shop one that claim_line declines.
func (b *bench) byProcedure() {
	b.t.Helper()
	b.Execute("update pgdispatch.workspaces set max_starts_per_second = 1000")
}

func (b *bench) count(condition string) int {
	b.t.Helper()
	return sqltest.Scalar[int](b.Shop, "select count(*) from pgdispatch.workflow_execution_queue where "+condition)
}

func TestAnAnswerOfAnotherShapeIsAnErrorAndItsItemsAreReleased(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ part, by, problem string }{
		"without facts": {"standing := to_json(c);", "standing := to_jsonb(c) - 'facts';",
			"facts of 0 of 1 entries"},
		"with shorter facts": {"standing := to_json(c);", "standing := jsonb_set(to_jsonb(c), '{facts,0}', '[5]');",
			"facts of entry 1"},
		"with text for a number": {"standing := to_json(c);", `standing := jsonb_set(to_jsonb(c), '{room}', '"much"');`,
			"room"},
		"with no last row": {"    return next;\n", "", "0 standings"},
		"with an item of nobody": {"select i.id, i.lease_token, i.execution_id, i.workspace_id,",
			"select i.id, i.lease_token, i.execution_id, null::uuid,",
			"an item without its ID, token or workspace"},
		"without the token": {"select i.id, i.lease_token,", "select i.id, null::bigint,", "an item without its"},
		"with no time of an unanswered start": {"i.max_attempts, i.outcome_unknown, c.at_time - i.first_sent_at,",
			"i.max_attempts, true, null::interval,", "unanswered_for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			inHand := b.claimed(b.Store, 2)
			b.byProcedure()
			b.answersWith("claim_items", c.part, c.by)
			b.Insert(b.Shop.Shop, 3)
			batch, err := b.Claim(t.Context(), 10)
			require.ErrorContains(t, err, remedy)
			require.ErrorContains(t, err, c.problem)
			require.Empty(t, batch.Items)
			require.Equal(t, 3, b.count("status = 'PENDING' and attempt_count = 0 and lost_lease_count = 0"),
				"the items of the answer wait again, as if never claimed")
			require.Equal(t, len(inHand), b.count("status = 'CLAIMED'"), "what it holds is not touched")

			b.answersWith("claim_items", "standing := to_json(c);", "standing := to_json(c);")
			batch, err = b.Claim(t.Context(), 10)
			require.NoError(t, err)
			require.Len(t, batch.Items, 3)
		})
	}
}

// Such an error comes from a statement inside the function. It is about no item.
func TestAClaimThatFailsByItsStatementParksNoItem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ part, by, problem string }{
		"of another type": {"select i.id, i.lease_token,", "select i.id, i.lease_token::text,", "SQLSTATE 42804"},
		"not there":       {"pgdispatch.claim_choose(owner,", "pgdispatch.claim_choose_2(owner,", "SQLSTATE 42883"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Insert(b.Shop.Shop, 3)
			b.byProcedure()
			b.answersWith("claim_items", c.part, c.by)
			_, err := b.Claim(t.Context(), 2)
			require.ErrorContains(t, err, c.problem)
			require.ErrorContains(t, err, remedy)
			require.Equal(t, 3, b.count("status = 'PENDING' and attempt_count = 0"))
			require.Zero(t, sqltest.Scalar[int](b.Shop, "select count(*) from pgdispatch.parked_items"))
		})
	}
}

func TestALoadOfAnotherShapeIsAnErrorWithARemedy(t *testing.T) {
	t.Parallel()
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
		w := schedule.Waiting{Lane: schedule.Lane(uuid.NewSHA1(uuid.Nil, []byte{byte(n)})), Number: int64(n + 1), Limit: 5,
			Most: 5,
			From: schedule.Position{Due: now, ID: int64(n + 1)}}
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
	"tokens":[29],"grants":[1,0,2],"rates":[null,2.5,null],"allows":[null,0.5,null],
	"facts":[[5,0,11,8],[1,null,null,1],[20,1,13,20]],"counts":[[null,null],[4,21],[null,null]],
	"next_place":[3],"next_due":["2026-01-01T00:00:00Z"],"next_id":[6],
	"own":[[null,null,null],[null,null,null],[1,2,3]],"shared":[[null,null,null],[null,null,null],[1,0,0.5]]}`

// taken by the answer.
func answered(standing []byte) []claimed {
	_, p, _ := proposed()
	lane := p.Entries[0].Lane
	return []claimed{{Item: Item{ID: 1, Token: 31}, Lane: &lane}, {Standing: standing}}
}

func TestAGoodAnswerIsRead(t *testing.T) {
	t.Parallel()
	_, p, _ := proposed()
	require.Len(t, p.Entries, 3)
	var a claimAnswer
	require.NoError(t, a.take(answered([]byte(good)), p))
	require.Len(t, a.items, 1)
	require.False(t, a.standing.At.IsZero())
	require.Equal(t, a.standing.At, a.schedule(p, nil).At, "no clock that is read later")
}

func TestAnAnswerThatLacksAPartIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	_, p, _ := proposed()
	for part, wrong := range map[string][]string{
		"at_time": {`null`}, "grants": {`null`, `[1]`, `[1,2,3,4]`}, "facts": {`[]`, `[[1,2,3,4]]`,
			`[[1,0,1,1],null,[1,0,1,1]]`},
		"rates": {`null`, `[1]`}, "allows": {`null`, `[1]`}, "counts": {`[[1,2]]`}, "own": {`null`, `[]`}, "shared": {`null`,
			`[[1,2,3]]`},
		"next_place": {`[0]`, `[4]`, `[-1]`, `[1,2]`}, "next_due": {`null`}, "next_id": {`[]`},
	} {
		for _, value := range wrong {
			var all map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(good), &all))
			all[part] = json.RawMessage(value)
			text, err := json.Marshal(all)
			require.NoError(t, err)
			var a claimAnswer
			err = a.take(answered(text), p)
			require.ErrorContains(t, err, part, "%s: %s", part, value)
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
	for _, part := range []string{"facts", "counts", "rates", "allows", "grants", "next_place", "next_due", "next_id",
		"own", "shared"} {
		for _, value := range []string{"null", "[]", "[null]", "[[]]", "[1]", `"text"`, "{}", "[-1,0,9223372036854775807]"} {
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
