package schedule

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Choices is a source of random numbers. It remembers what it gave each step: a run can be repeated without some steps.
type Choices struct {
	steps []step
	at    int       // the step
	given int       // to this step
	seeds *rand.PCG // nil: only the list
	rest  *rand.PCG // in place of the steps that a list does not have; nil while it has the step
}

// step is what a step of a part of the run was given. The first step makes the world.
type step struct {
	part    int
	numbers []uint64
}

// SeededChoices are those of a seed.
func SeededChoices(seed uint64) *Choices {
	return &Choices{steps: []step{{}}, seeds: rand.NewPCG(seed, 9)}
}

// Uint64 implements rand.Source. After what a given list has for a step, it returns what makes rand.IntN return 0.
func (c *Choices) Uint64() uint64 {
	const least = 1<<44 - 1 // not zero, which rand.IntN draws again
	now := &c.steps[c.at]
	switch {
	case c.rest != nil:
		return c.rest.Uint64()
	case c.given < len(now.numbers):
	case c.seeds == nil:
		return least
	default:
		now.numbers = append(now.numbers, c.seeds.Uint64())
	}
	c.given++
	return now.numbers[c.given-1]
}

// Next begins a step of a part. It returns false if a given list has no further step of that part.
func (c *Choices) Next(part int) bool {
	if c.seeds != nil {
		c.steps = append(c.steps, step{part: part})
	}
	next := c.at + 1
	for next < len(c.steps) && c.steps[next].part < part {
		next++
	}
	if next == len(c.steps) || c.steps[next].part > part {
		if c.rest == nil {
			c.rest = rand.NewPCG(1, 2)
		}
		return false
	}
	c.at, c.given, c.rest = next, 0, nil
	return true
}

// Steps is how many steps have begun that the choices decided.
func (c *Choices) Steps() int { return c.at }

// Shrink repeats a failing run with chunks of its steps left out, and keeps leaving them out while the run still fails.
// The chunks become ever smaller. Then it leaves out the last choices of each step. It makes at most mostShrinks runs.
func Shrink(c *Choices, fails func(*Choices) bool) {
	const mostShrinks = 3000
	shortest, runs := c.steps[:c.at+1], 0
	try := func(from, to int, instead ...step) bool {
		run := &Choices{steps: slices.Concat(shortest[:from], instead, shortest[min(to, len(shortest)):])}
		if runs++; runs > mostShrinks || !fails(run) {
			return false
		}
		shortest = run.steps[:run.at+1]
		return true
	}
	for before := 0; before != len(shortest); {
		before = len(shortest)
		for size := len(shortest) / 2; size > 0; size /= 2 {
			for from := 1; from < len(shortest); {
				if !try(from, from+size) {
					from += size
				}
			}
		}
	}
	for i := 0; i < len(shortest); i++ {
		n, part := len(shortest[i].numbers), shortest[i].part
		for n > 0 && i < len(shortest) && try(i, i+1, step{part, shortest[i].numbers[:n/2]}) {
			n /= 2
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
	for end := seed + number; seed < end; seed++ {
		property(seed, rand.New(rand.NewPCG(uint64(seed), 7)))
	}
}
