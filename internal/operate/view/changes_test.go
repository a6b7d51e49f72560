package view

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChangesAreSaidColumnByColumn(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"max_concurrent_workflows: not set → 7", "paused: false → true", "plan: FREE → PRO"},
		Changes([]byte(`{"plan": ["FREE", "PRO"], "paused": [false, true], "max_concurrent_workflows": [null, 7]}`)))
	require.Equal(t, []string{"items: [1,2,3]", "reason: enough"}, Changes([]byte(`{"items": [1,2,3], "reason": "enough"}`)))
	require.Empty(t, Changes([]byte(`[]`)))
}
