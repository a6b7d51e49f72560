package audit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// scene is two items that name one ID, under reuse: a runs from 4 to 6, and b from 7 to 9.
type scene struct {
	expected [2]Expected
	found    [2]Found
	runs     []Run
	changes  []Change
}

func newScene() *scene {
	s := &scene{}
	for n, execution := range []string{"a", "b"} {
		t := 3 * n
		s.expected[n] = Expected{Execution: execution, Kind: Workflow, ID: "x", Policy: Reuse, Runs: 1}
		s.found[n] = Found{Execution: execution, Status: "COMPLETED", ExecutionStatus: "COMPLETED", RunID: "run-" + execution}
		s.runs = append(s.runs, Run{Kind: Workflow, ID: "x", Execution: execution, RunID: "run-" + execution,
			Status: "COMPLETED", Start: at(4 + t), Close: at(6 + t)})
		for i, status := range []string{"CLAIMED", "DISPATCHED", "COMPLETED"} {
			s.changes = append(s.changes, Change{Kind: Item, Execution: execution, NewToken: int64(n + 1), New: status,
				Old: []string{"PENDING", "CLAIMED", "DISPATCHED"}[i], Began: at(4 + t + i), At: at(4 + t + i)})
		}
	}
	return s
}

// policy gives both items a policy.
func (s *scene) policy(policy string) *scene {
	s.expected[0].Policy, s.expected[1].Policy = policy, policy
	return s
}

// refuse lets b fail without a run.
func (s *scene) refuse() *scene {
	s.found[1].Status, s.found[1].ExecutionStatus, s.found[1].RunID, s.found[1].Failures = "FAILED", "FAILED", "", 1
	s.runs = s.runs[:1]
	return s
}

// follow lets b follow a's run, which runs from 4 to 8.
func (s *scene) follow() *scene {
	s.policy(UseExisting).found[1].RunID = "run-a"
	s.runs = s.runs[:1]
	s.runs[0].Close, s.changes[2].At = at(8), at(8)
	return s
}

func TestNamedItemsAreJudgedByTheirPolicies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, rule string
		scene      *scene
		spoil      func(s *scene)
	}{
		{"one after the other", "", newScene(), func(*scene) {}},
		{"a run beside another", RuleBeside, newScene(), func(s *scene) { s.runs[1].Start = at(4) }},
		{"a run that waited for the other's end", "", newScene(), func(s *scene) { s.runs[1].Start = at(5) }},
		{"a run beside one that is open", RuleBeside, newScene().policy(UseExisting), func(s *scene) {
			s.runs = append(s.runs, Run{Kind: Workflow, ID: "x", RunID: "run-c", Status: "RUNNING", Start: at(3)})
		}},
		{"an activity beside a workflow", "", newScene(), func(s *scene) {
			s.expected[1].Kind, s.runs[1].Kind, s.runs[1].Start = Activity, Activity, at(5)
		}},
		{"a run after another under reject", RuleBeside, newScene().policy(Reject), func(*scene) {}},
		{"a run after another's under reject", RuleBeside, newScene(), func(s *scene) { s.expected[1].Policy = Reject }},
		{"refused under reject", "", newScene().policy(Reject).refuse(), func(*scene) {}},
		{"refused without a run", RuleRefused, newScene().policy(Reject).refuse(), func(s *scene) { s.runs = nil }},
		{"refused before there is a run", RuleRefused, newScene().policy(Reject).refuse(), func(s *scene) {
			s.runs[0].Start = at(20)
		}},
		{"refused twice", RuleRefused, newScene().policy(Reject).refuse(), func(s *scene) { s.found[1].Failures = 2 }},
		{"refused though the run has closed", RuleRefused, newScene().refuse(), func(*scene) {}},
		{"refused while it is open", "", newScene().refuse(), func(s *scene) {
			s.runs[0].Close, s.changes[2].At = at(8), at(8)
		}},
		{"refused under use_existing", RuleRefused, newScene().policy(UseExisting).refuse(), func(*scene) {}},
		{"follows", "", newScene().follow(), func(*scene) {}},
		{"follows under reuse", RuleFollows, newScene().follow().policy(Reuse), func(*scene) {}},
		{"follows one that had closed", RuleFollows, newScene().follow(), func(s *scene) {
			s.runs[0].Close = at(6)
		}},
		{"follows one of another ID", RuleFollows, newScene().follow(), func(s *scene) { s.expected[1].ID = "y" }},
		{"follows one of another kind", RuleFollows, newScene().follow(), func(s *scene) { s.expected[1].Kind = Activity }},
		{"follows one that does not exist", RuleFollows, newScene().follow(), func(s *scene) { s.found[1].RunID = "run-c" }},
		{"ends otherwise", RuleFollows, newScene().follow(), func(s *scene) {
			s.found[1].Status, s.found[1].ExecutionStatus = "FAILED", "FAILED"
		}},
		{"ends too early", RuleFollows, newScene().follow(), func(s *scene) { s.changes[5].At = at(7) }},
		{"runs, and counts a failure", RuleCounted, newScene(), func(s *scene) { s.found[1].Failures = 1 }},
		{"a second run of its own", RuleOneRun, newScene(), func(s *scene) {
			s.runs = append(s.runs, Run{Kind: Workflow, ID: "x", Execution: "b", RunID: "run-c", Status: "COMPLETED",
				Start: at(9), Close: at(10)})
		}},
		{"started before an earlier one is settled", RuleInOrder, newScene(), func(s *scene) {
			s.changes[1].At, s.changes[2].At = at(8), at(8)
		}},
		{"started before an earlier one that was claimed twice", "", newScene(), func(s *scene) {
			s.changes[1].At, s.changes[2].At = at(8), at(8)
			first := Change{Kind: Item, Execution: "a", Old: "PENDING", New: "CLAIMED", Began: at(3)}
			s.changes = append([]Change{first}, s.changes...)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.spoil(c.scene)
			s := c.scene
			got := append(Named(s.expected[:], s.found[:], s.runs, s.changes), Runs(s.expected[:], s.found[:], s.runs)...)
			if c.rule == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, rules(got), c.rule)
		})
	}
}

func TestTheListIsCompleteWhenAFollowedRunHasClosed(t *testing.T) {
	t.Parallel()
	s := newScene().follow()
	require.True(t, Complete(s.expected[:], s.found[:], s.runs))
	s.runs[0].Status = "RUNNING"
	require.False(t, Complete(s.expected[:], s.found[:], s.runs))
	require.False(t, Complete(s.expected[:], s.found[1:], nil))
}

func TestALateItemIsNotClaimedAndAnotherNotCancelled(t *testing.T) {
	t.Parallel()
	before := func(second int) func(*Change) { return func(c *Change) { c.StartBefore = at(second) } }
	held := func(c *Change) { c.Held, c.Holds, c.StartBefore = true, true, at(2) }
	for name, c := range map[string]struct {
		history *book
		broken  bool
	}{
		"claimed in time":   {(&book{}).limit(9).to(1, "PENDING", before(9)).to(1, "CLAIMED", before(9)), false},
		"claimed too late":  {(&book{}).limit(9).to(1, "PENDING", before(3)).to(1, "CLAIMED", before(3)), true},
		"cancelled late":    {(&book{}).limit(9).to(1, "PENDING", before(3)).to(1, "CANCELLED", before(3)), false},
		"cancelled in time": {(&book{}).limit(9).to(1, "PENDING", before(9)).to(1, "CANCELLED", before(9)), true},
		"a start that may have been sent is repeated": {(&book{}).limit(9).to(1, "PENDING", before(9)).
			to(1, "CLAIMED", before(9)).wait(2000).to(1, "PENDING", func(c *Change) { held(c); c.NewToken++ }).
			to(1, "CLAIMED", held), false},
		"a start that may have been sent is cancelled": {(&book{}).limit(9).to(1, "PENDING", before(9)).
			to(1, "CLAIMED", before(9)).wait(2000).to(1, "PENDING", func(c *Change) { held(c); c.NewToken++ }).
			to(1, "CANCELLED", func(c *Change) { held(c); c.Holds = false }), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if c.broken {
				want = []string{RuleLate}
			}
			require.Equal(t, want, rules(Replay(c.history.changes, 9).Violations))
		})
	}
}
