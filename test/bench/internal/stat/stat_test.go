package stat_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	t.Parallel()
	samples := make([]float64, 100)
	for n := range samples {
		samples[n] = float64(100 - n) // in descending order
	}
	require.Equal(t, 50.0, stat.Percentile(samples, 0.5))
	require.Equal(t, 99.0, stat.Percentile(samples, 0.99))
	require.Equal(t, 100.0, stat.Percentile(samples, 1))
	require.Equal(t, 1.0, stat.Percentile(samples, 0))
	require.Equal(t, 100.0, samples[0], "the samples are left in their order")
	require.Equal(t, 7.0, stat.Percentile([]float64{7}, 0.99))
	require.True(t, math.IsNaN(stat.Percentile(nil, 0.5)))
}

func TestMedianOfAnEvenNumberLiesBetween(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2.0, stat.Median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, stat.Median([]float64{4, 3, 1, 2}))
	require.True(t, math.IsNaN(stat.Median(nil)))
}

func TestTheMediansIntervalHasItAtLeastAsOftenAsItSays(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 60, 200} {
		hits := 0
		source := rand.New(rand.NewPCG(1, uint64(n)))
		for range 2000 {
			samples := make([]float64, n)
			for at := range samples {
				samples[at] = source.ExpFloat64() // the median of this distribution is ln 2
			}
			least, most := stat.MedianWithin(samples)
			if least <= math.Ln2 && math.Ln2 <= most {
				hits++
			}
		}
		require.GreaterOrEqual(t, hits, 1900, "of 2,000 with %d samples", n)
	}
	least, most := stat.MedianWithin([]float64{3, 1, 2})
	require.Equal(t, []float64{1, 3}, []float64{least, most}, "few samples say little")
	least, _ = stat.MedianWithin(nil)
	require.True(t, math.IsNaN(least))
}

func TestSpreadOfNothingIsUnknown(t *testing.T) {
	t.Parallel()
	require.Equal(t, stat.Spread{Median: 2, Min: 1, Max: 9}, stat.Of([]float64{9, 1, 2}))
	require.False(t, stat.Of(nil).Known())
	require.True(t, stat.Of([]float64{0}).Known())
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	t.Parallel()
	require.Equal(t, []float64{0.5, 2}, stat.Ratios([]float64{1, 4}, []float64{2, 2, 8}))
	require.Equal(t, []float64{1}, stat.Ratios([]float64{3, 1, math.NaN()}, []float64{0, 1, 1}),
		"pairs without a ratio are left out")
	require.Empty(t, stat.Ratios(nil, []float64{1}))
}

func TestMilliseconds(t *testing.T) {
	t.Parallel()
	require.Equal(t, []float64{1.5, 2000}, stat.Milliseconds([]time.Duration{1500 * time.Microsecond, 2 * time.Second}))
}
