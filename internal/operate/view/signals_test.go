package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

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
