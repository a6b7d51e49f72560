package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var kinds = []Kind{
	{"a", "x", time.Second, 2 * time.Second}, {"b", "x", time.Second, 4 * time.Second},
	{"c", "y", 0, time.Second}, {"d", "y", 500 * time.Millisecond, 500 * time.Millisecond},
	{"e", "z", time.Second, 3 * time.Second},
}

func TestOneSeedGivesOneSchedule(t *testing.T) {
	t.Parallel()
	require.Equal(t, Measured(7, kinds), Measured(7, kinds))
	require.NotEqual(t, Measured(7, kinds), Measured(8, kinds))
	require.Equal(t, Safety(7, kinds, time.Minute), Safety(7, kinds, time.Minute))
	require.NotEqual(t, Safety(7, kinds, time.Minute), Safety(8, kinds, time.Minute))
}

func TestEveryFaultIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	var names []string
	for _, e := range Measured(7, kinds) {
		names = append(names, e.Fault)
	}
	slices.Sort(names)
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, names)
}

func TestShardsAreTheWhole(t *testing.T) {
	t.Parallel()
	whole := Measured(7, kinds)
	var parts []Entry
	for shard := 1; shard <= 3; shard++ {
		parts = append(parts, Shard(whole, shard, 3)...)
	}
	require.Equal(t, whole, parts)
}

func TestFaultsOfOneDomainDoNotOverlapAndAllEndInTime(t *testing.T) {
	t.Parallel()
	domain := map[string]string{}
	for _, k := range kinds {
		domain[k.Name] = k.Domain
	}
	for seed := range uint64(200) {
		free := map[string]time.Duration{}
		overlaps := 0
		latest := time.Duration(0)
		for _, e := range Safety(seed, kinds, time.Minute) {
			require.GreaterOrEqual(t, e.At, free[domain[e.Fault]])
			free[domain[e.Fault]] = e.At + e.Hold
			require.LessOrEqual(t, e.At+e.Hold, time.Minute)
			if e.At < latest {
				overlaps++
			}
			latest = max(latest, e.At+e.Hold)
		}
		require.Positive(t, overlaps, "faults of different domains do")
	}
}
