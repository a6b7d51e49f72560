// Package stat holds the few numbers that the benchmarks are made of: percentiles, medians, and ratios with their spread.
package stat

import (
	"math"
	"slices"
	"time"
)

// Percentile returns the value below or at which a share p (0 to 1) of the samples lies, by the nearest rank. It needs no
// order, changes nothing, and is NaN without samples.
func Percentile(samples []float64, p float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// Median returns the middle sample, or the mean of the two in the middle. It is NaN without samples.
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

// MedianWithin returns the interval that has the true median in at least 95 of 100 cases, whatever the samples' distribution, or the
// least and the greatest where they are too few for that. It is NaN without samples.
func MedianWithin(samples []float64) (least, most float64) {
	n := len(samples)
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	outside := max(int(float64(n)/2-1.96*math.Sqrt(float64(n))/2)-1, 0) // on each side, by the normal approximation of the binomial
	return sorted[outside], sorted[n-1-outside]
}

// Spread is what one figure came to over the rounds of a run.
type Spread struct{ Median, Min, Max float64 }

// Of returns the spread of one value a round. Without values, all of it is NaN.
func Of(values []float64) Spread {
	if len(values) == 0 {
		return Spread{math.NaN(), math.NaN(), math.NaN()}
	}
	return Spread{Median(values), slices.Min(values), slices.Max(values)}
}

// Known says whether there was any value.
func (s Spread) Known() bool { return !math.IsNaN(s.Median) }

// Ratios divides round by round, because the two values of one round were measured side by side. Rounds that only one
// of them has are left out, and so is a division by zero.
func Ratios(numerators, denominators []float64) []float64 {
	var ratios []float64
	for n := range min(len(numerators), len(denominators)) {
		if r := numerators[n] / denominators[n]; !math.IsNaN(r) && !math.IsInf(r, 0) {
			ratios = append(ratios, r)
		}
	}
	return ratios
}

// Milliseconds turns durations into numbers that read well.
func Milliseconds(durations []time.Duration) []float64 {
	values := make([]float64, len(durations))
	for n, d := range durations {
		values[n] = float64(d.Nanoseconds()) / 1e6
	}
	return values
}
