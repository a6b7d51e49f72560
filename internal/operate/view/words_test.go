package view

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func TestWaits_NamesWhyAnItemKeepsItsSlot(t *testing.T) {
	t.Parallel()
	for want, item := range map[string]operate.Item{
		"Its start was not answered. It keeps its slot, and is tried again in 2.0 s.": {LastError: "no answer",
			DueIn: 2 * time.Second},
		"Its claim was lost, so its start may have been sent, or not. It keeps its slot, and is tried again now.": {
			LastError: "lease of replica-1 expired", Uncertain: true},
		"Its start failed 3 times while others of its namespace started. It keeps its slot, and is tried again now.": {
			LastError: "no shard", Tries: 3},
		"It was given up by ann: a replica looks it up in Temporal for a minute, and then it ends.": {Tries: 3,
			GivenUpBy: "ann"},
		"It is to fail, and Temporal does not find its workflow. It keeps its slot, and fails once all answers of a minute " +
			"agree.": {Tries: 3, MissingSince: &time.Time{}},
	} {
		item.Status, item.Unanswered = "PENDING", true
		require.Equal(t, want, Waits(item, operate.Workspace{}, nil, 0, operate.Settings{}))
	}
}

func TestAnItemSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	waiting := operate.Item{Status: "PENDING"}
	acme := operate.Workspace{Name: "Acme", Limit: 5, Claimed: 1, Running: 3, Unanswered: 1}
	on := operate.Settings{MaxClaims: 100}
	require.Equal(t, "Acme runs 5 of 5; 12 before it.", Waits(waiting, acme, nil, 12, on))
	require.Equal(t, "Acme runs 5 of 5; it is next.", Waits(waiting, acme, nil, 0, on))
	require.Equal(t, "Acme runs 5 of 5; 1,000+ before it.", Waits(waiting, acme, nil, 1000, on))
	require.Equal(t, "Everything is paused by a setting.", Waits(waiting, acme, nil, 0, operate.Settings{MaxClaims: 1,
		Paused: true}))
	acme.Burst = 8
	require.Equal(t, "Acme runs 5 of 5; up to 8 run while no other workspace needs the workers.",
		Waits(waiting, acme, nil, 3, on))
	acme.Burst = 5
	one, other := 1, 5
	keys := []operate.KeyLimit{{Key: "smtp", MaxConcurrent: &other, Active: 4},
		{Key: "smtp", WorkspaceID: "acme", Workspace: "Acme", MaxConcurrent: &one, Active: 2}}
	require.Equal(t, "The key smtp runs 2 of 1 in Acme.", Waits(waiting, acme, keys, 0, on))
	zero := 0
	keys = []operate.KeyLimit{{Key: "smtp", StartsLeft: &zero, Rates: operate.Rates{{Starts: 10, Per: time.Second}}}}
	require.Equal(t, "The key smtp has used up its rate of 10/1s over all workspaces.", Waits(waiting, acme, keys, 0, on))
	acme.Paused = true
	require.Equal(t, "Acme is paused.", Waits(waiting, acme, nil, 0, on))
	waiting.DueIn = time.Minute
	require.Equal(t, "It is due in 1 min 0 s.", Waits(waiting, acme, nil, 0, on))
	waiting.FailureCount = 1
	require.Equal(t, "It failed, and is tried again in 1 min 0 s.", Waits(waiting, acme, nil, 0, on))
	require.Empty(t, Waits(operate.Item{Status: "DISPATCHED"}, acme, nil, 0, on))
}

func TestAnItemSaysHowLongItWaitedAndRan(t *testing.T) {
	t.Parallel()
	at := func(n int) *time.Time { return new(time.Unix(int64(n), 0)) }
	item := operate.Item{CreatedAt: *at(0), Age: time.Minute}
	require.Equal(t, []Fact{{"Inserted", "1 min 0 s ago"}}, Durations(item))
	item.StartedAt = at(10)
	require.Equal(t, []Fact{{"From insert to start", "10 s"}, {"Has run for", "50 s"}}, Durations(item))
	item.ExecutionFinishedAt = at(30)
	require.Equal(t, []Fact{{"From insert to start", "10 s"}, {"Ran for", "20 s"}}, Durations(item))
	require.Equal(t, []Fact{{"From insert to end", "5.0 s, without a workflow"}},
		Durations(operate.Item{CreatedAt: *at(0), FinishedAt: at(5)}))
}

func TestAnItemsStoryTellsItsSignals(t *testing.T) {
	t.Parallel()
	sent := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	signal := func(state string, waits bool, problem string) operate.Signal {
		return operate.Signal{Name: "approve", SentBy: "app", SentAt: sent, State: state, Waits: waits, Error: problem,
			SettledAt: ptr(sent.Add(12 * time.Millisecond))}
	}
	for _, row := range []struct {
		status string
		signal operate.Signal
		want   string
	}{
		{"PENDING", signal("OPEN", true, ""), "waits for the workflow's start"},
		{"DISPATCHED", signal("OPEN", true, ""), "waits for an earlier signal"},
		{"DISPATCHED", signal("OPEN", false, ""), "not delivered yet"},
		{"DISPATCHED", signal("OPEN", false, "unavailable"), "not delivered yet: unavailable"},
		{"COMPLETED", signal("DELIVERED", false, ""), "accepted by Temporal after 12 ms"},
		{"COMPLETED", signal("GIVEN_UP", false, "workflow had ended"), "given up: workflow had ended"},
	} {
		item := operate.Item{Status: row.status, CreatedAt: sent.Add(-time.Second)}
		story := Story(item, nil, []operate.Signal{row.signal})
		require.Equal(t, `signal "approve" sent by app; `+row.want, story[1].What)
	}
}

func TestChangesAreSaidColumnByColumn(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"limit: not set → 7", "paused: no → yes", "plan: FREE → PRO"},
		Changes([]byte(`{"plan": ["FREE", "PRO"], "paused": [false, true], "max_concurrent_workflows": [null, 7]}`)))
	require.Equal(t, []string{"items: 1, 2, 3", "reason: enough"},
		Changes([]byte(`{"items": [1,2,3], "reason": "enough"}`)))
	require.Equal(t, []string{"items: 7, 8", "new items: 9, 10"}, Changes([]byte(`{"items": [7, 8], "replays": [9, 10]}`)))
	require.Equal(t, "items: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more",
		ChangeWords([]byte(`{"items": [1,2,3,4,5,6,7,8,9,10,11,12]}`)))
	require.Equal(t, []string{"items: 1", "workspaces: a, b"}, Changes([]byte(`{"items": [1], "workspaces": ["a", "b"]}`)))
	require.Empty(t, Changes([]byte(`[]`)))
	require.Equal(t, "[]", ChangeWords([]byte(`[]`)))
}

func TestAStopWithoutAReasonSaysSo(t *testing.T) {
	t.Parallel()
	require.Equal(t, "no reason given; requested", ChangeWords([]byte(`{"answer": "REQUESTED", "reason": ""}`)))
	require.Equal(t, "already requested; reason: it loops",
		ChangeWords([]byte(`{"answer": "ALREADY_REQUESTED", "reason": "it loops"}`)))
	item := operate.Item{Stop: "TERMINATE", StopRequestedBy: "anna", StopState: "SENT"}
	require.Equal(t, "termination requested by anna, no reason given; accepted by Temporal", StopOf(item))
	item.StopReason = "it loops"
	require.Equal(t, "termination requested by anna: it loops; accepted by Temporal", StopOf(item))
}

// full is a full limit for which items wait. An empty workspace means over all workspaces.
func full(key, workspace string, waiting int64) operate.KeyLimit {
	return operate.KeyLimit{Key: key, WorkspaceID: workspace, Workspace: workspace, MaxConcurrent: ptr(2), Active: 2,
		Waiting: waiting, WaitingExact: waiting < operate.CountLimit}
}

func TestFullLimitsAreCountedAndTheWorstAreNamed(t *testing.T) {
	t.Parallel()
	room := full("room", "", 7)
	room.Active = 1
	rate := operate.KeyLimit{Key: "rate", StartsLeft: ptr(0), WaitingExact: true}
	many := make([]operate.KeyLimit, operate.MostLimits)
	for n := range many {
		many[n] = full("k", "", 1)
	}
	for want, use := range map[string]operate.LimitUse{
		"": {Limits: []operate.KeyLimit{room}, OthersActive: 3},
		"1, 0 items wait for it: rate over all workspaces (0)": {BehindExact: true, Limits: []operate.KeyLimit{room, rate}},
		"1, 1 item waits for it: smtp\ufffd[2J in A\ufffdcme (1)": {Behind: 1, BehindExact: true, Limits: []operate.KeyLimit{
			full("smtp\x1b[2J", "A\x1bcme", 1)}},
		"2, 1,003+ items wait for them: b in Acme (1,000+), a over all workspaces (3)": {Behind: 1003,
			Limits: []operate.KeyLimit{full("a", "", 3), full("b", "Acme", 1000)}},
		"20+, 20 items wait for them: k over all workspaces (1), k over all workspaces (1), k over all workspaces (1) " +
			"and 17 more": {Behind: 20, BehindExact: true, Limits: many},
	} {
		require.Equal(t, want, FullLimits(use))
	}
}

func TestAnOutageHasItsCauseAndSinceWhen(t *testing.T) {
	t.Parallel()
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	o := operate.Overview{Depth: operate.Depth{MaxClaims: 100, DeadLettersExact: true}, Replicas: []operate.Replica{{},
		{}}}
	require.Nil(t, OutageOf(o))
	o.Replicas[0].State = operate.ReplicaState{BreakerOpen: true, BreakerSince: &second}
	require.Nil(t, OutageOf(o), "the other replica starts workflows")
	o.Replicas[1].State = operate.ReplicaState{BreakerOpen: true, BreakerSince: &first}
	outage := OutageOf(o)
	require.Contains(t, outage.What, "no workflows from any replica")
	require.Equal(t, first, *outage.Since)
	o.Depth.Paused = true
	require.Contains(t, OutageOf(o).What, "paused by the settings")
	require.Nil(t, OutageOf(o).Since)
	require.Empty(t, OutageOf(o).Begun())
	o.Depth.PausedSince, o.Depth.PausedBy = &second, "anna (web)"
	require.Equal(t, "Since 1970-01-01 00:00:02 UTC, by anna (web).", OutageOf(o).Begun())
	screen := strings.Join(Screen{Overview: o}.Lines(Style{}), "\n")
	require.Contains(t, screen, "so no items are claimed. Since 1970-01-01 00:00:02 UTC, by anna (web). →")
	require.Contains(t, screen, "the replicas probe. Since 1970-01-01 00:00:01 UTC. →")
	o.Depth.Paused, o.Depth.MaxClaims = false, 0
	require.Contains(t, OutageOf(o).What, "max-claims is 0")
	require.Equal(t, &second, OutageOf(o).Since)
}
