package audit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var zero = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return zero.Add(time.Duration(seconds) * time.Second) }

// book writes a history, one transaction after another, by default a second apart.
type book struct {
	changes []Change
	now     int
	items   map[int64]Change
}

func (b *book) add(c Change) *book {
	b.now++
	c.Began, c.At, c.Committed, c.Transaction = at(b.now), at(b.now), at(b.now), int64(b.now)
	b.changes = append(b.changes, c)
	if c.Kind == Item {
		if b.items == nil {
			b.items = map[int64]Change{}
		}
		b.items[c.ID] = c
	}
	return b
}

func (b *book) wait(seconds int) *book { b.now += seconds; return b }

func (b *book) limit(n int) *book {
	return b.add(Change{Kind: Workspace, Workspace: "w", Values: Values{Limit: n}})
}

func settings(v Values) Change { return Change{Kind: Settings, Values: v} }

// to moves an item to a state as the product would; change makes it deviate.
func (b *book) to(id int64, status string, change func(*Change)) *book {
	old := b.items[id]
	c := Change{
		Kind: Item, ID: id, Workspace: "w", Old: old.New, New: status, OldToken: old.NewToken, NewToken: old.NewToken,
		Held: old.Holds, Holds: status == "CLAIMED" || status == "DISPATCHED",
		OldOwner: old.NewOwner, OldLease: old.NewLease,
	}
	switch {
	case status == "CLAIMED":
		c.NewToken, c.NewOwner, c.NewLease = c.OldToken+1, "r", at(b.now+1000)
	case status == "DISPATCHED" || status == "FAILED":
		c.Moved = at(b.now + 1)
	}
	if change != nil {
		change(&c)
	}
	return b.add(c)
}

func (b *book) insert(ids ...int64) *book {
	for _, id := range ids {
		b.to(id, "PENDING", nil)
	}
	return b
}

// expire takes an item from its holder.
func (b *book) expire(id int64) *book {
	return b.to(id, "PENDING", func(c *Change) { c.NewToken, c.Holds = c.OldToken+1, true })
}

func rules(violations []Violation) []string {
	var names []string
	for _, v := range violations {
		names = append(names, v.Rule)
	}
	return names
}

func TestAReplayFindsNothingWhereAllIsWell(t *testing.T) {
	t.Parallel()
	b := (&book{}).limit(2).insert(1, 2, 3).to(1, "CLAIMED", nil).to(2, "CLAIMED", nil)
	b.to(1, "DISPATCHED", nil).to(1, "COMPLETED", nil).to(3, "CLAIMED", nil)
	b.wait(2000).expire(2).expire(3).to(2, "CLAIMED", nil).to(2, "FAILED", nil).to(3, "CLAIMED", nil).to(3, "PENDING", nil)
	got := Replay(b.changes, 3)
	require.Empty(t, got.Violations)
	require.Equal(t, 5, got.Claims)
	require.Equal(t, 2, got.Leased)
	require.Equal(t, 2, got.Expired)
}

// A call of enqueue takes its new row back if another call was faster.
func TestARowMayGoInTheTransactionThatInsertedIt(t *testing.T) {
	t.Parallel()
	b := (&book{}).limit(9).insert(1).to(1, "", nil)
	require.Equal(t, []string{RuleKept}, rules(Replay(b.changes, 3).Violations))
	b.changes[2].Transaction = b.changes[1].Transaction
	require.Empty(t, Replay(b.changes, 3).Violations)
}

func TestAnItemThatLostThreeHoldersInARowMayFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settleAfter int // the item is released after so many lost leases, if not negative
		lost        int
		want        bool
	}{
		"three": {-1, 3, true}, "two": {-1, 2, false}, "three, but not in a row": {2, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := (&book{}).limit(9).insert(1)
			for n := range c.lost {
				if n == c.settleAfter {
					b.to(1, "CLAIMED", nil).to(1, "PENDING", nil)
				}
				b.to(1, "CLAIMED", nil).wait(2000).expire(1)
			}
			b.to(1, "CLAIMED", nil).to(1, "FAILED", func(c *Change) { c.Execution = "e" })
			got := Replay(b.changes, 3)
			require.Empty(t, got.Violations)
			require.Equal(t, c.want, got.Orphans["e"])
		})
	}
}

func TestAReplayFindsAKeyThatExceedsItsLimit(t *testing.T) {
	t.Parallel()
	key := func(c *Change) { c.Key = "k" }
	for _, workspace := range []string{"", "w"} {
		limit := func(n int) Change {
			return Change{Kind: Key, ID: 9, Key: "k", Workspace: workspace, Values: Values{Limit: n}}
		}
		begin := func(n int) *book {
			b := (&book{}).limit(5).add(limit(n))
			for id := range int64(3) {
				b.to(id, "PENDING", key)
			}
			return b.to(0, "CLAIMED", key)
		}
		other := limit(0)
		other.Key = "l"
		paused := limit(9)
		paused.Paused = true
		for name, c := range map[string]struct {
			rule    string
			history *book
		}{
			"within it":          {"", begin(2).to(1, "CLAIMED", key)},
			"beyond it":          {RuleKey, begin(1).to(1, "CLAIMED", key)},
			"one after another":  {"", begin(1).to(0, "DISPATCHED", key).to(0, "COMPLETED", key).to(1, "CLAIMED", key)},
			"it is lowered":      {RuleKey, begin(2).add(limit(1)).to(1, "CLAIMED", key)},
			"it is raised":       {"", begin(1).add(limit(2)).to(1, "CLAIMED", key)},
			"it is deleted":      {"", begin(1).add(limit(-1)).to(1, "CLAIMED", key)},
			"it is made again":   {RuleKey, begin(1).add(limit(-1)).add(limit(1)).to(1, "CLAIMED", key)},
			"another key's is 0": {"", begin(2).add(other).to(1, "CLAIMED", key)},
			"it is paused":       {RulePause, begin(2).add(paused).to(1, "CLAIMED", key)},
		} {
			t.Run(name+" in "+workspace, func(t *testing.T) {
				t.Parallel()
				var want []string
				if c.rule != "" {
					want = []string{c.rule}
				}
				require.Equal(t, want, rules(Replay(c.history.changes, 5).Violations))
			})
		}
	}
}

func TestNothingIsDeletedBeforeItsRetentionIsOver(t *testing.T) {
	t.Parallel()
	keep, off := settings(Values{Limit: 9, Keep: 60, KeepFailed: 90}), settings(Values{Limit: 9})
	longer := settings(Values{Limit: 9, Keep: 600, KeepFailed: 600})
	ended := func() *book { return (&book{}).limit(9).add(keep).insert(1).to(1, "CLAIMED", nil) }
	completed := func() *book { return ended().to(1, "DISPATCHED", nil).to(1, "COMPLETED", nil) }
	ahead := func(by time.Duration) func(*Change) { return func(c *Change) { c.Ahead = by } }
	setBack := func() *book {
		return ended().to(1, "DISPATCHED", nil).to(1, "COMPLETED", ahead(time.Hour)).to(1, "COMPLETED", nil)
	}
	for name, c := range map[string]struct {
		broken  bool
		history *book
	}{
		"completed long ago":               {false, completed().wait(60).to(1, "", nil)},
		"completed recently":               {true, completed().wait(50).to(1, "", nil)},
		"failed long ago":                  {false, ended().to(1, "FAILED", nil).wait(90).to(1, "", nil)},
		"failed recently":                  {true, ended().to(1, "FAILED", nil).wait(60).to(1, "", nil)},
		"changed after its end":            {false, completed().wait(50).to(1, "COMPLETED", nil).wait(10).to(1, "", nil)},
		"kept longer since":                {true, completed().add(longer).wait(60).to(1, "", nil)},
		"kept forever":                     {true, completed().add(off).wait(60).to(1, "", nil)},
		"waiting":                          {true, (&book{}).limit(9).add(keep).insert(1).wait(600).to(1, "", nil)},
		"running":                          {true, ended().to(1, "DISPATCHED", nil).wait(600).to(1, "", nil)},
		"the clock jumped":                 {false, completed().to(1, "", ahead(time.Hour))},
		"the clock was set back":           {false, setBack().wait(60).to(1, "", nil)},
		"the clock was set back recently":  {true, setBack().wait(50).to(1, "", nil)},
		"it was set back and jumped again": {false, setBack().wait(10).to(1, "", ahead(90*time.Second))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if c.broken {
				want = []string{RuleKept}
			}
			require.Equal(t, want, rules(Replay(c.history.changes, 9).Violations))
		})
	}
}

func TestAReplayFindsEachKindOfViolation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, rule string
		history    *book
	}{
		{"an illegal transition", RuleMoves, (&book{}).limit(9).insert(1).to(1, "DISPATCHED", nil)},
		{"an end that is undone", RuleMoves, (&book{}).limit(9).insert(1).to(1, "CANCELLED", nil).to(1, "PENDING", nil)},
		{"an unrecorded change", RuleMoves,
			(&book{}).limit(9).insert(1).to(1, "CLAIMED", func(c *Change) { c.OldToken, c.NewToken = 7, 8 })},
		{"over W", RuleCap, (&book{}).limit(9).insert(1, 2, 3, 4).
			to(1, "CLAIMED", nil).to(2, "CLAIMED", nil).to(3, "CLAIMED", nil).to(4, "CLAIMED", nil)},
		{"over a lowered W", RuleCap,
			(&book{}).limit(9).insert(1, 2).to(1, "CLAIMED", nil).add(settings(Values{Limit: 1})).to(2, "CLAIMED", nil)},
		{"over a workspace's limit", RuleLimit,
			(&book{}).limit(1).insert(1, 2).to(1, "CLAIMED", nil).to(1, "DISPATCHED", nil).to(2, "CLAIMED", nil)},
		{"over a limit, with a lost lease", RuleLimit,
			(&book{}).limit(1).insert(1, 2).to(1, "CLAIMED", nil).wait(2000).expire(1).to(2, "CLAIMED", nil)},
		{"a claim without a new token", RuleTokens,
			(&book{}).limit(9).insert(1).to(1, "CLAIMED", func(c *Change) { c.NewToken = c.OldToken })},
		{"a lost lease frees its slot", RuleTokens,
			(&book{}).limit(9).insert(1).to(1, "CLAIMED", nil).wait(2000).to(1, "PENDING", func(c *Change) { c.NewToken++ })},
		{"a new holder without a claim", RuleTokens, (&book{}).limit(9).insert(1).to(1, "CLAIMED", nil).
			to(1, "CLAIMED", func(c *Change) { c.NewToken, c.NewOwner = c.OldToken, "s" })},
		{"a new token without a claim", RuleTokens,
			(&book{}).limit(9).insert(1).to(1, "PENDING", func(c *Change) { c.NewToken++ })},
		{"a lease taken too early", RuleExpiry, (&book{}).limit(9).insert(1).to(1, "CLAIMED", nil).expire(1)},
		{"a settle after the lease", RuleExpiry,
			(&book{}).limit(9).insert(1).to(1, "CLAIMED", nil).wait(2000).to(1, "DISPATCHED", nil)},
		{"a claim while everything is paused", RulePause,
			(&book{}).limit(9).insert(1).add(settings(Values{Limit: 9, Paused: true})).to(1, "CLAIMED", nil)},
		{"a claim while the workspace is paused", RulePause,
			(&book{}).add(Change{Kind: Workspace, Workspace: "w", Values: Values{Limit: 9, Paused: true}}).insert(1).
				to(1, "CLAIMED", nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []string{c.rule}, rules(Replay(c.history.changes, 3).Violations))
		})
	}
}

func TestAClaimMayGoByTheLimitsThatHeldWhenItBegan(t *testing.T) {
	t.Parallel()
	b := (&book{}).limit(2).insert(1, 2).to(1, "CLAIMED", nil).limit(1).to(2, "CLAIMED", nil)
	b.changes[len(b.changes)-1].Began = b.changes[len(b.changes)-2].Began.Add(-time.Microsecond)
	require.Empty(t, Replay(b.changes, 3).Violations)
}

func TestAClaimMayMissAPauseThatIsStillBeingFlushed(t *testing.T) {
	t.Parallel()
	b := (&book{}).limit(2).insert(1).add(settings(Values{Limit: 9, Paused: true})).to(1, "CLAIMED", nil)
	claim, paused := &b.changes[len(b.changes)-1], b.changes[len(b.changes)-2].Committed
	claim.Began = paused.Add(flush - time.Microsecond)
	require.Empty(t, Replay(b.changes, 3).Violations)
	claim.Began = paused.Add(flush)
	require.Len(t, Replay(b.changes, 3).Violations, 1)
}

// good is a completed row in all three books.
func good() (Expected, Found, Run) {
	return Expected{Execution: "e", Workspace: "w", Want: "COMPLETED", Runs: 1, Acknowledged: true},
		Found{Execution: "e", Workspace: "w", Status: "COMPLETED", ExecutionStatus: "COMPLETED", RunID: "r"},
		Run{Kind: Workflow, Execution: "e", RunID: "r", Status: "COMPLETED", Start: at(0), Close: at(10)}
}

func TestTheEndsAreComparedInAllThreeBooks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, rule string
		spoil      func(*Expected, *Found, *[]Run)
	}{
		{"no violation", "", func(*Expected, *Found, *[]Run) {}},
		{"an unknown commit that happened", "", func(e *Expected, _ *Found, _ *[]Run) { e.Acknowledged = false }},
		{"the other allowed end", "", func(e *Expected, _ *Found, _ *[]Run) { e.Want, e.Or = "CANCELLED", "COMPLETED" }},
		{"a row that must fail", "", func(e *Expected, f *Found, _ *[]Run) { e.Counted, f.Failures = true, 1 }},
		{"an unrelated workflow", "", func(e *Expected, f *Found, _ *[]Run) { e.Foreign, f.RunID = true, "" }},
		{"an unrelated workflow taken for ours", RuleOneRun,
			func(e *Expected, f *Found, _ *[]Run) { e.Foreign, f.RunID = true, "s" }},
		{"a row lost with its server", "",
			func(e *Expected, f *Found, _ *[]Run) { e.Acknowledged, e.Lost, f.Execution = false, true, "" }},
		{"two expected runs", "", func(e *Expected, _ *Found, r *[]Run) {
			e.Runs = 2
			*r = append(*r, Run{Execution: "e", RunID: "s", Status: "COMPLETED", Start: at(10), Close: at(20)})
		}},
		{"a missing row", RuleLost, func(_ *Expected, f *Found, r *[]Run) { f.Execution = ""; *r = nil }},
		{"another end", RuleEnd, func(_ *Expected, f *Found, r *[]Run) {
			f.Status, f.ExecutionStatus, (*r)[0].Status = "FAILED", "FAILED", "FAILED"
		}},
		{"an activity in place of a workflow", RuleOneRun, func(e *Expected, _ *Found, r *[]Run) {
			e.Kind, (*r)[0].Kind = Workflow, Activity
		}},
		{"a withdrawn row that runs", RuleOneRun, func(e *Expected, f *Found, _ *[]Run) {
			e.Want, f.Status = "CANCELLED", "CANCELLED"
		}},
		{"another end in Temporal", RuleEnd, func(_ *Expected, _ *Found, r *[]Run) { (*r)[0].Status = "TIMED_OUT" }},
		{"a counted failure", RuleCounted, func(_ *Expected, f *Found, _ *[]Run) { f.Failures = 1 }},
		{"a rolled-back row", RulePhantom,
			func(e *Expected, _ *Found, _ *[]Run) { e.Acknowledged, e.RolledBack = false, true }},
		{"a run without a row", RulePhantom,
			func(_ *Expected, _ *Found, r *[]Run) { *r = append(*r, Run{Execution: "x"}) }},
		{"two runs", RuleOneRun,
			func(_ *Expected, _ *Found, r *[]Run) { *r = append(*r, Run{Execution: "e", RunID: "s"}) }},
		{"no run", RuleOneRun, func(_ *Expected, _ *Found, r *[]Run) { *r = nil }},
		{"another run", RuleOneRun, func(_ *Expected, f *Found, _ *[]Run) { f.RunID = "s" }},
		{"a run missing in its row", RuleOneRun, func(_ *Expected, f *Found, _ *[]Run) { f.RunID = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, f, r := good()
			runs := []Run{r}
			c.spoil(&e, &f, &runs)
			found := []Found{f}
			if f.Execution == "" {
				found = nil
			}
			violations, _ := Rows([]Expected{e}, found)
			violations = append(violations, Runs([]Expected{e}, found, runs)...)
			if c.rule == "" {
				require.Empty(t, violations)
				return
			}
			require.Equal(t, []string{c.rule}, rules(violations))
		})
	}
}

func TestTemporalsOwnTimesAreHeldAgainstTheLimit(t *testing.T) {
	t.Parallel()
	found := []Found{{Execution: "a", Workspace: "w"}, {Execution: "b", Workspace: "w"}}
	runs := []Run{
		{Execution: "a", Start: at(0), Close: at(10)},
		{Execution: "b", Start: at(10), Close: at(20)},
	}
	violations, greatest := Running(nil, found, runs, map[string]int{"w": 1})
	require.Empty(t, violations)
	require.Equal(t, 1, greatest["w"])

	runs[1].Start, runs[1].Kind = at(9), Activity
	violations, _ = Running(nil, found, runs, map[string]int{"w": 1})
	require.Equal(t, []string{RuleRunning}, rules(violations))

	runs[1].Execution, runs[1].Start = "a", at(9) // the second run of one workflow
	violations, _ = Running(nil, found, runs, map[string]int{"w": 1})
	require.Empty(t, violations)
}

func TestTheListIsCompleteWhenEveryRunHasClosed(t *testing.T) {
	t.Parallel()
	e, f, r := good()
	require.True(t, Complete([]Expected{e}, []Found{f}, []Run{r}))
	require.False(t, Complete([]Expected{e}, []Found{f}, nil))
	r.Status = "RUNNING"
	require.False(t, Complete([]Expected{e}, []Found{f}, []Run{r}))
}

func TestALeaseEndsByTheClockThatTheServerHas(t *testing.T) {
	t.Parallel()
	claimAfter := func(ahead time.Duration) []string {
		b := &book{}
		b.limit(5).insert(1, 2).to(1, "CLAIMED", nil).to(2, "CLAIMED", func(c *Change) { c.Ahead = ahead })
		return rules(Replay(b.changes, 1).Violations)
	}
	require.Equal(t, []string{RuleCap}, claimAfter(0))
	require.Empty(t, claimAfter(time.Hour), "all leases expired when the clock jumped")
}
