package view

import (
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

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
