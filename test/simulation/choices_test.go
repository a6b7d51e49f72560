package simulation

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
)

// chooser is a source of random numbers. It remembers what it gave each step: a run can be repeated without some steps.
type chooser struct {
	steps []step
	at    int       // the step
	given int       // to this step
	seeds *rand.PCG // nil: only the list
	rest  *rand.PCG // in place of the steps that a list does not have; nil while it has the step
}

// step is what a step of a part of the run was given. The first step makes the world.
type step struct {
	Part    int
	Numbers []uint64
}

// seededChoices are those of a seed.
func seededChoices(seed uint64) *chooser {
	return &chooser{steps: []step{{}}, seeds: rand.NewPCG(seed, 9)}
}

// givenChoices are those of a list of steps.
func givenChoices(steps []step) *chooser { return &chooser{steps: steps} }

// Uint64 implements rand.Source. After what a given list has for a step, it returns what makes rand.IntN return 0.
func (c *chooser) Uint64() uint64 {
	const least = 1<<44 - 1 // not zero, which rand.IntN draws again
	now := &c.steps[c.at]
	switch {
	case c.rest != nil:
		return c.rest.Uint64()
	case c.given < len(now.Numbers):
	case c.seeds == nil:
		return least
	default:
		now.Numbers = append(now.Numbers, c.seeds.Uint64())
	}
	c.given++
	return now.Numbers[c.given-1]
}

// Next begins a step of a part. It returns false if a given list has no further step of that part.
func (c *chooser) Next(part int) bool {
	if c.seeds != nil {
		c.steps = append(c.steps, step{Part: part})
	}
	next := c.at + 1
	for next < len(c.steps) && c.steps[next].Part < part {
		next++
	}
	if next == len(c.steps) || c.steps[next].Part > part {
		if c.rest == nil {
			c.rest = rand.NewPCG(1, 2)
		}
		return false
	}
	c.at, c.given, c.rest = next, 0, nil
	return true
}

// made are the steps that have begun.
func (c *chooser) made() []step { return c.steps[:c.at+1] }

// shrink repeats a failing run with chunks of its steps left out, and keeps leaving them out while the run still fails.
// The chunks become ever smaller. Then it leaves out the last choices of each step. fails returns the steps that a run
// made if it failed as the first one did. shrink makes at most mostShrinks runs.
func shrink(shortest []step, fails func([]step) (made []step, failed bool)) {
	const mostShrinks = 3000
	runs := 0
	try := func(from, to int, instead ...step) bool {
		if runs++; runs > mostShrinks {
			return false
		}
		made, failed := fails(slices.Concat(shortest[:from], instead, shortest[min(to, len(shortest)):]))
		if failed {
			shortest = made
		}
		return failed
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
		n, part := len(shortest[i].Numbers), shortest[i].Part
		for n > 0 && i < len(shortest) && try(i, i+1, step{part, shortest[i].Numbers[:n/2]}) {
			n /= 2
		}
	}
}

// seeds are how many seeds to run and the first of them. PGDISPATCH_SEEDS and PGDISPATCH_FIRST_SEED set them.
func seeds(usual int) (first, number int) {
	if more, err := strconv.Atoi(os.Getenv("PGDISPATCH_SEEDS")); err == nil {
		usual = more
	}
	first, _ = strconv.Atoi(os.Getenv("PGDISPATCH_FIRST_SEED"))
	return first, usual
}
