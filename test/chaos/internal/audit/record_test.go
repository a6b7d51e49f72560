package audit

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// whole is the record of a run in which one item, which names its ID, does all that an item can.
func whole() *Record {
	of := func(c *Change) {
		c.Execution, c.Key, c.PolicyKey, c.Marker = "e", "k", SkipPrefix+"1", "m"
	}
	b := (&book{now: -1}).limit(9).add(settings(Values{Limit: 9, Keep: 60})).add(keyRate("", 1, 10))
	b.wait(10).to(1, "PENDING", of).to(1, "CLAIMED", of).to(1, "DISPATCHED", of).to(1, "COMPLETED", of)
	b.wait(100).to(1, "", of)
	e, f, run := good()
	e.Kind, e.ID, e.Policy, run.ID, run.Start, run.Close = Workflow, "x", Reuse, "x", at(12), at(13)
	f.Said = "pushed"
	plain, plainFound, plainRun := good()
	plain.Execution, plainFound.Execution, plainRun.Execution, plainRun.RunID, plainFound.RunID = "f", "f", "f", "s", "s"
	return &Record{Cap: 9, Changes: b.changes, Found: []Found{f, plainFound}, Runs: []Run{run, plainRun},
		Expected: []Expected{e, plain}, Limits: map[string]int{"w": 9},
		Calls: []Call{{Marker: "m", Workspace: "w", Key: SkipPrefix + "1", Policy: "debounce", Acknowledged: true,
			Execution: "e", Action: "inserted", Sent: at(9), Answered: at(20)}},
		Ran: map[string]string{"e": "m"}, Pushes: []Push{{Execution: "e", Marker: "pushed", First: true}},
		Signals: map[string]Received{"e": {[]Signal{{Payload: 1, Acknowledged: true}}, []int{1}}}}
}

func TestAPlantedViolationIsSeenInTheRecordOfARun(t *testing.T) {
	t.Parallel()
	r := whole()
	require.Empty(t, r.Judge().Violations)
	blind, seen := r.Blind()
	require.Empty(t, blind)
	// One item is neither refused nor waited for, and its workspace has no rate.
	require.Equal(t, len(plants)-3, seen)
	require.Empty(t, r.Judge().Violations, "the record itself is as before")
}

func TestARuleThatDoesNotSeeItsPlantIsNamed(t *testing.T) {
	t.Parallel()
	r := whole()
	r.Changes = slices.DeleteFunc(r.Changes, func(c Change) bool { return c.Kind == Item })
	r.Changes[0].Committed = r.Changes[0].Committed.Add(time.Second)
	blind, _ := r.Blind()
	require.Contains(t, blind, RuleLimit+": the limits of workspaces were 0", "nothing was claimed")
}
