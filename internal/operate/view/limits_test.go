package view

import (
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

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
