package audit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// starts writes claims of items with a key, at the given seconds, under the given values since second 0.
func starts(key string, of Change, seconds ...int) []Change {
	b := (&book{now: -1}).add(of)
	for n, second := range seconds {
		with := func(c *Change) { c.Key = key }
		b.now = second - 2
		b.to(int64(n), "PENDING", with).to(int64(n), "CLAIMED", with)
	}
	return b.changes
}

// keyRate is a limit of key "k" in a workspace or, with an empty one, over all.
func keyRate(workspace string, most int, seconds float64) Change {
	return Change{Kind: Key, ID: 9, Key: "k", Workspace: workspace, Values: Values{Limit: -1, Starts: []int{most},
		Periods: []float64{seconds}}}
}

func workspaceRate(perSecond float64) Change {
	return Change{Kind: Workspace, Workspace: "w", Values: Values{Limit: 99, PerSecond: perSecond}}
}

func TestRatesOfKeysAreCheckedInEveryPeriod(t *testing.T) {
	t.Parallel()
	rate, broken := keyRate("", 2, 10), []string{RuleRate}
	require.Empty(t, Rates(starts("k", rate, 2, 5, 12, 15, 22)))
	require.Equal(t, broken, rules(Rates(starts("k", rate, 2, 5, 11))))
	require.Empty(t, Rates(starts("l", rate, 2, 5, 11)), "another key")
	require.Equal(t, broken, rules(Rates(starts("k", keyRate("w", 2, 10), 2, 5, 11))))
	require.Empty(t, Rates(starts("k", keyRate("v", 2, 10), 2, 5, 11)), "another workspace")

	repeated := starts("k", rate, 2, 5, 11)
	repeated[len(repeated)-1].Held = true
	require.Empty(t, Rates(repeated), "a start that is repeated for lack of an answer does not count")

	waited := starts("k", rate, 2, 5, 12)
	waited[3].Began = at(1)
	require.Empty(t, Rates(waited), "a claim that waited for its lock counts from some moment since it began")

	jumped := starts("k", rate, 2, 5, 11)
	jumped[len(jumped)-1].Ahead = time.Hour
	require.Empty(t, Rates(jumped), "the server's clock has jumped between them")
}

func TestAChangedRateBindsLaterStarts(t *testing.T) {
	t.Parallel()
	change := func(second int, of Change) []Change {
		of.Began, of.At, of.Committed, of.Transaction = at(second), at(second), at(second), 100
		return []Change{of}
	}
	deleted := Change{Kind: Key, ID: 9, Key: "k", Values: Values{Limit: -1}}
	again := keyRate("", 2, 10)
	again.ID = 10
	on := func(key string, from, to Change, before []int, after ...int) []Change {
		return slices.Concat(starts(key, from, before...), change(4, to), starts(key, Change{}, after...))
	}
	for name, c := range map[string]struct {
		broken bool
		starts []Change
	}{
		"a key's lowered rate":           {true, on("k", keyRate("", 2, 10), keyRate("", 1, 10), []int{2}, 9)},
		"a key's raised rate":            {false, on("k", keyRate("", 1, 10), keyRate("", 2, 10), []int{2}, 9)},
		"a rate that is 0 now":           {true, on("k", keyRate("", 1, 10), keyRate("", 0, 10), nil, 9)},
		"another period":                 {false, on("k", keyRate("", 1, 10), keyRate("", 1, 9), []int{2}, 9)},
		"a rate that was deleted":        {false, on("k", keyRate("", 1, 10), deleted, []int{2}, 9)},
		"a limit that was made again":    {false, on("k", keyRate("", 1, 10), again, []int{2}, 9)},
		"a workspace's lowered rate":     {true, on("", workspaceRate(9), workspaceRate(0.1), []int{2, 2}, 9, 15)},
		"one start after it was lowered": {false, on("", workspaceRate(9), workspaceRate(0.1), []int{2, 2}, 9)},
		"a workspace's raised rate":      {false, on("", workspaceRate(0.1), workspaceRate(2), []int{2}, 9, 9)},
		"more than a second's worth":     {true, on("", workspaceRate(0.1), workspaceRate(2), []int{2}, 9, 9, 9)},
		"no rate for a while": {false, slices.Concat(on("", workspaceRate(0.1), workspaceRate(0), []int{2}, 6, 6),
			change(7, workspaceRate(0.1)), starts("", Change{}, 9))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.broken, len(Rates(c.starts)) > 0)
		})
	}
}

func TestRatesOfWorkspacesAreCheckedInEveryInterval(t *testing.T) {
	t.Parallel()
	broken := []string{RuleRate}
	require.Empty(t, Rates(starts("", workspaceRate(0.5), 2, 4, 6, 20, 22)))
	require.Equal(t, broken, rules(Rates(starts("", workspaceRate(0.5), 2, 4, 6, 20, 22, 23))))
	require.Equal(t, broken, rules(Rates(starts("", workspaceRate(0.5), 2, 3))), "at least one item, and no more")
	require.Empty(t, Rates(starts("", workspaceRate(3), 2, 2, 2)), "a second's worth at once")
	require.Equal(t, broken, rules(Rates(starts("", workspaceRate(3), 2, 2, 2, 2))))
}

func TestSignalsTakeEffectOnceAndInOrder(t *testing.T) {
	t.Parallel()
	known := func(n int) Signal { return Signal{Payload: n, Acknowledged: true} }
	sent := []Signal{known(1), {Payload: 2, Unknown: true}, known(3), {Payload: 4}}
	for _, received := range [][]int{{1, 3}, {1, 2, 3}} {
		require.Empty(t, Signals("e", sent, received), "%v", received)
	}
	for name, received := range map[string][]int{
		"one is lost": {1, 2}, "all are lost": nil, "one is received twice": {1, 2, 3, 3},
		"the first is received twice":      {1, 1, 3},
		"an unknown one is received twice": {1, 2, 2, 3}, "two are swapped": {3, 1}, "an unknown one is late": {1, 3, 2},
		"one was rolled back": {1, 3, 4}, "one was never sent": {1, 3, 5},
	} {
		require.Equal(t, []string{RuleSignalOnce}, rules(Signals("e", sent, received)), name)
	}
}

func TestOnlyTheFirstReportOfAnEndCounts(t *testing.T) {
	t.Parallel()
	first, late, unknown := Push{Execution: "e", Marker: "a", First: true}, Push{Execution: "e", Marker: "b", Late: true},
		Push{Execution: "e", Marker: "c"}
	judge := func(said string, pushes ...Push) []string {
		return rules(Pushes(pushes, []Found{{Execution: "e", Said: said}}))
	}
	require.Empty(t, judge("a", first, late, unknown))
	require.Empty(t, judge("c", late, unknown))
	require.Empty(t, judge("", late, unknown))
	require.Equal(t, []string{RulePushed}, judge("", first), "the first report is lost")
	require.Equal(t, []string{RulePushed}, judge("b", late), "a late report is recorded")
	second := Push{Execution: "e", Marker: "aa", First: true}
	require.Equal(t, []string{RulePushed}, judge("aa", first, second), "two are the first")
	require.Empty(t, Pushes([]Push{first}, nil), "a row that is missing is found elsewhere")
}

// keyedBook writes the history of items of one key.
type keyedBook struct {
	book
	key string
}

// keyed moves an item of the key, with the params of a call.
func (b *keyedBook) keyed(id int64, status, marker string) *keyedBook {
	b.to(id, status, func(c *Change) {
		c.PolicyKey, c.Marker, c.Execution = b.key, marker, string(rune('a'+id))
	})
	return b
}

// made is a call that was answered a second before and after a moment.
func made(marker, policy, action, execution string, second int) Call {
	return Call{Marker: marker, Workspace: "w", Key: "k", Policy: policy, Quiet: time.Second, AtMost: 10 * time.Second,
		Acknowledged: true, Action: action, Execution: execution, Sent: at(second - 1), Answered: at(second + 1)}
}

// story is what happened to a key, and what the calls of enqueue answered.
type story struct {
	key   string
	write func(b *keyedBook)
	calls []Call
	ran   map[string]string
}

func runsKey(b *keyedBook) {
	b.keyed(0, "PENDING", "1").keyed(0, "PENDING", "2").keyed(0, "CLAIMED", "2")
	b.keyed(0, "DISPATCHED", "2").keyed(0, "COMPLETED", "2")
}

// goodStory returns a story without a violation.
func goodStory() story {
	return story{write: runsKey, calls: []Call{made("1", "replace", "inserted", "a", 1), made("2", "replace", "replaced",
		"a", 2),
		made("3", "skip", "skipped", "a", 4),
		{Marker: "4", Workspace: "w", Key: "k", Policy: "replace", Unknown: true}}, ran: map[string]string{"a": "2"}}
}

// spoiled are stories that are changed, and the rule that each then violates.
var spoiled = []struct {
	name, rule string
	spoil      func(s *story)
}{
	{"no violation", "", func(*story) {}},
	{"a debounced item that was quiet", "", func(s *story) {
		s.calls[1].Policy, s.calls[1].Action, s.calls[1].Quiet = "debounce", "debounced", 2*time.Second
	}},
	{"an unanswered call that took effect", "", func(s *story) {
		s.calls[1].Acknowledged, s.calls[1].Unknown = false, true
	}},
	{"a call that lost a race and deleted its row", "", func(s *story) {
		s.write = func(b *keyedBook) {
			b.keyed(0, "PENDING", "1").keyed(1, "PENDING", "2").keyed(1, "", "2").keyed(0, "PENDING", "2")
			for n := range 3 {
				b.changes[n+1].Transaction = 7
			}
			b.keyed(0, "CLAIMED", "2")
		}
		s.calls = s.calls[:2]
	}},
	{"a replaced call that changed nothing", RuleCalls, func(s *story) {
		s.calls = append(s.calls, made("9", "replace", "replaced", "a", 2))
	}},
	{"an inserted call that inserted nothing", RuleCalls, func(s *story) {
		s.calls = append(s.calls, made("9", "replace", "inserted", "a", 2))
	}},
	{"a skipped call that replaced", RuleCalls, func(s *story) { s.calls[1].Action = "skipped" }},
	{"a skipped call that names a stranger", RuleCalls, func(s *story) { s.calls[2].Execution = "z" }},
	{"a skipped call after the end", RuleCalls, func(s *story) {
		s.calls[2].Sent, s.calls[2].Answered = at(20), at(21)
	}},
	{"a call that was rolled back", RuleCalls, func(s *story) { s.calls[1].Acknowledged = false }},
	{"a call that nobody made", RuleCalls, func(s *story) { s.calls = s.calls[:1] }},
	{"a call that changed two items", RuleCalls, func(s *story) {
		s.write = func(b *keyedBook) { runsKey(b); b.keyed(1, "PENDING", "2") }
	}},
	{"a claimed item that is changed", RuleParams, func(s *story) {
		s.write = func(b *keyedBook) {
			b.keyed(0, "PENDING", "1").keyed(0, "CLAIMED", "1").keyed(0, "CLAIMED", "2")
		}
		s.calls, s.ran = s.calls[:2], nil
	}},
	{"an item that is handed back and changed", "", func(s *story) {
		s.write = func(b *keyedBook) {
			b.keyed(0, "PENDING", "1").keyed(0, "CLAIMED", "1").keyed(0, "PENDING", "1").keyed(0, "PENDING", "2")
			b.keyed(0, "CLAIMED", "2")
		}
		s.calls[1].Sent, s.calls[1].Answered, s.calls = at(3), at(5), s.calls[:2]
	}},
	{"an item that may have been started and is changed", RuleParams, func(s *story) {
		s.write = func(b *keyedBook) {
			b.keyed(0, "PENDING", "1").keyed(0, "CLAIMED", "1").keyed(0, "PENDING", "1").keyed(0, "PENDING", "2")
			b.changes[2].Holds, b.changes[3].Held, b.changes[3].Holds = true, true, true
		}
		s.calls[1].Sent, s.calls[1].Answered, s.calls, s.ran = at(3), at(5), s.calls[:2], nil
	}},
	{"params that are lost", RuleParams, func(s *story) { s.ran["a"] = "1" }},
	{"two items that wait", RuleWaiting, func(s *story) {
		s.write = func(b *keyedBook) { b.keyed(0, "PENDING", "1").keyed(1, "PENDING", "2") }
		s.calls[1].Execution, s.calls[1].Action, s.calls, s.ran = "b", "inserted", s.calls[:2], nil
	}},
	{"a skip beside a running item", RuleSkip, func(s *story) {
		s.key = SkipPrefix + "1"
		s.write = func(b *keyedBook) { b.keyed(0, "PENDING", "1").keyed(0, "CLAIMED", "1").keyed(1, "PENDING", "2") }
		s.calls[1].Execution, s.calls[1].Action, s.calls, s.ran = "b", "inserted", s.calls[:2], nil
	}},
	{"a debounced item that is claimed too early", RuleQuiet, func(s *story) {
		s.calls[1].Policy, s.calls[1].Action, s.calls[1].Quiet = "debounce", "debounced", 3*time.Second
	}},
}

func TestCallsOfEnqueueDoWhatTheyAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range spoiled {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := goodStory()
			s.key = "k"
			c.spoil(&s)
			b := &keyedBook{key: s.key}
			s.write(b)
			for n := range s.calls {
				s.calls[n].Key = s.key
			}
			violations := Policies(s.calls, b.changes, s.ran)
			if c.rule == "" {
				require.Empty(t, violations)
				return
			}
			require.Equal(t, []string{c.rule}, rules(violations)[:min(1, len(violations))])
		})
	}
}

func TestATrialFindsEachKindOfViolation(t *testing.T) {
	t.Parallel()
	e, f, r := good()
	e.Counted, f.Failures = true, 1
	well := Trial{Name: "a trial", Item: e, Signals: []int{1, 2}, Received: []int{1, 2}, FewestFailures: 1,
		MostFailures: 1, Recorded: 1, Over: true, Freed: true, Found: []Found{f}, Runs: []Run{r}}
	require.Empty(t, well.Judge())
	require.Empty(t, well.Blind())
	for _, c := range trialPlants {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			trial := well
			require.True(t, c.plant(&trial))
			violations := trial.Judge()
			require.Contains(t, rules(violations), c.rule)
			require.True(t, strings.HasPrefix(violations[0].Detail, "a trial: "))
		})
	}
	require.Empty(t, well.Judge(), "the trial itself is as before")
	well.Undelivered = 1
	require.NotEmpty(t, well.Judge())
}
