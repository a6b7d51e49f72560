package schedule

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Choices is a source of random numbers that remembers what it gave, so that a run can be repeated with some of its
// choices left out. After a given list it gives what makes rand.IntN return 0.
type Choices struct {
	list  []uint64
	at    int
	seeds *rand.PCG // nil: only the list
}

// SeededChoices are those of a seed.
func SeededChoices(seed uint64) *Choices { return &Choices{seeds: rand.NewPCG(seed, 9)} }

// Uint64 implements rand.Source.
func (c *Choices) Uint64() uint64 {
	const least = 1<<44 - 1 // not zero, which rand.IntN draws again
	switch {
	case c.at < len(c.list):
	case c.seeds == nil:
		return least
	default:
		c.list = append(c.list, c.seeds.Uint64())
	}
	c.at++
	return c.list[c.at-1]
}

// Over reports whether all choices of a given list were made.
func (c *Choices) Over() bool { return c.seeds == nil && c.at >= len(c.list) }

// Shrink repeats a failing run with chunks of its choices left out, and keeps leaving them out while the run still
// fails. The chunks become ever smaller. It makes at most mostShrinks runs.
func Shrink(c *Choices, fails func(*Choices) bool) {
	const mostShrinks = 3000
	shortest, runs := slices.Clone(c.list[:c.at]), 0
	for size := len(shortest) / 2; runs < mostShrinks && size > 0; size /= 2 {
		before := len(shortest)
		for from := 0; from < len(shortest) && runs < mostShrinks; runs++ {
			without := slices.Concat(shortest[:from], shortest[min(from+size, len(shortest)):])
			if run := (&Choices{list: without}); fails(run) {
				shortest = without[:min(run.at, len(without))]
			} else {
				from += size
			}
		}
		if len(shortest) < before {
			size = min(2*size, len(shortest)) * 2 // larger chunks may go now
		}
	}
}

// Seeds are how many seeds to run and the first of them. PGDISPATCH_SEEDS and PGDISPATCH_FIRST_SEED set them.
func Seeds(usual int) (first, number int) {
	if more, err := strconv.Atoi(os.Getenv("PGDISPATCH_SEEDS")); err == nil {
		usual = more
	}
	first, _ = strconv.Atoi(os.Getenv("PGDISPATCH_FIRST_SEED"))
	return first, usual
}

// eachSeed tests a property with each seed, and says with which one it failed.
func eachSeed(t *testing.T, usual int, property func(seed int, r *rand.Rand)) {
	t.Helper()
	seed, number := Seeds(usual)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for ; number > 0; number-- {
		property(seed, rand.New(rand.NewPCG(uint64(seed), 7)))
		seed++
	}
}
