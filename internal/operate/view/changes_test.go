package view

import (
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

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
