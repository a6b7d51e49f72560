// Package stat holds the statistics of the benchmarks: percentiles, medians, and ratios with their spread.
package stat

import (
	"math"
	"slices"
	"time"
)

// Percentile returns the p-quantile (p from 0 to 1) of the samples by the nearest-rank method. The samples need not be
// sorted and are not modified. It returns NaN without samples.
func Percentile(samples []float64, p float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// Median returns the middle sample, or the mean of the two middle samples. It returns NaN without samples.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// MedianWithin returns an interval that contains the true median with a probability of at least 95 %, for any
// distribution. With too few samples it returns the minimum and maximum, and without samples NaN.
func MedianWithin(samples []float64) (least, most float64) {
	n := len(samples)
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	// on each side, by the normal approximation of the binomial
	outside := max(int(float64(n)/2-1.96*math.Sqrt(float64(n))/2)-1, 0)
	return sorted[outside], sorted[n-1-outside]
}

// Spread is the spread of one figure over the rounds of a run.
type Spread struct{ Median, Min, Max float64 }

// Of returns the spread of values, one per round. All fields are NaN without values.
func Of(values []float64) Spread {
	if len(values) == 0 {
		return Spread{math.NaN(), math.NaN(), math.NaN()}
	}
	return Spread{Median(values), slices.Min(values), slices.Max(values)}
}

// Known reports whether there was any value.
func (s Spread) Known() bool { return !math.IsNaN(s.Median) }

// Ratios divides round by round, because the two values of one round were measured side by side. It omits rounds that
// only one side has, and divisions by zero.
func Ratios(numerators, denominators []float64) []float64 {
	var ratios []float64
	for n := range min(len(numerators), len(denominators)) {
		if r := numerators[n] / denominators[n]; !math.IsNaN(r) && !math.IsInf(r, 0) {
			ratios = append(ratios, r)
		}
	}
	return ratios
}

// Milliseconds converts durations to milliseconds.
func Milliseconds(durations []time.Duration) []float64 {
	values := make([]float64, len(durations))
	for n, d := range durations {
		values[n] = float64(d.Nanoseconds()) / 1e6
	}
	return values
}
