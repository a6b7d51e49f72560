package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patroni did this with a primary that was frozen and thawed.
func TestPrimary_ReturnsToAFormerPrimaryOnceThePromotionIsAbandoned(t *testing.T) {
	t.Parallel()
	former, promoted := timeline{"c", "00000002"}, timeline{"c", "00000003"}
	var p Primary
	var refused *FormerPrimaryError
	now := time.Now()
	require.NoError(t, p.judge(promoted, now))
	require.ErrorAs(t, p.judge(former, now), &refused)
	require.NoError(t, p.judge(promoted, now.Add(abandonedAfter)), "it lives, after all")
	require.ErrorAs(t, p.judge(former, now.Add(abandonedAfter)), &refused)
	require.ErrorAs(t, p.judge(former, now.Add(3*abandonedAfter)), &refused, "nobody has tried meanwhile")

	for after := 3 * abandonedAfter; after < 4*abandonedAfter; after += time.Second {
		require.ErrorAs(t, p.judge(former, now.Add(after)), &refused)
	}
	require.NoError(t, p.judge(former, now.Add(4*abandonedAfter)))
	require.NoError(t, p.judge(former, now.Add(4*abandonedAfter)), "it is the newest now")
}
