package view

import (
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

// full is a full limit for which items wait. An empty workspace means over all workspaces.
func full(key, workspace string, waiting int64) operate.UsedLimit {
	return operate.UsedLimit{Waiting: waiting,
		KeyLimit: operate.KeyLimit{Key: key, WorkspaceID: workspace, Workspace: workspace, MaxConcurrent: ptr(2), Active: 2}}
}

func TestFullLimitsAreCountedAndTheWorstAreNamed(t *testing.T) {
	t.Parallel()
	room := full("room", "", 7)
	room.Active = 1
	rate := operate.UsedLimit{KeyLimit: operate.KeyLimit{Key: "rate", StartsLeft: ptr(0)}}
	many := make([]operate.UsedLimit, operate.MostLimits)
	for n := range many {
		many[n] = full("k", "", 1)
	}
	for want, use := range map[string]operate.LimitUse{
		"": {Limits: []operate.UsedLimit{room}, OthersActive: 3},
		"1, 0 items wait for it: rate over all workspaces (0)": {Limits: []operate.UsedLimit{room, rate}},
		"1, 1 item waits for it: smtp\ufffd[2J in A\ufffdcme (1)": {Behind: 1, Limits: []operate.UsedLimit{
			full("smtp\x1b[2J", "A\x1bcme", 1)}},
		"2, 10,000+ items wait for them: b in Acme (10,000+), a over all workspaces (3)": {Behind: 10_000,
			Limits: []operate.UsedLimit{full("a", "", 3), full("b", "Acme", 10_000)}},
		"20+, 20 items wait for them: k over all workspaces (1), k over all workspaces (1), k over all workspaces (1) " +
			"and 17 more": {Behind: 20, Limits: many},
	} {
		require.Equal(t, want, FullLimits(use))
	}
}
