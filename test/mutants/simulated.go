package main

import (
	"regexp"
	"slices"
	"strings"
)

// simulation is the test of the replica simulation, which reads the number of its seeds from PGDISPATCH_SEEDS.
const simulation = "TestReplicas_LoseNothingWhateverFails"

// simulated returns the mutants of Go code that the replica simulation executes, with the simulation as their test.
func simulated(list []mutant) (chosen []mutant) {
	executes := func(e edit) bool {
		pkg, _, _ := strings.Cut(e.place, ".")
		return slices.Contains([]string{"claim", "schedule", "dispatch", "complete", "notify", "request", "sweeper"}, pkg)
	}
	for _, m := range list {
		if !slices.ContainsFunc(m.edits, func(e edit) bool { return !executes(e) }) {
			m.pkg, m.test = "./test/simulation", simulation
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// aSeed matches what the simulation says of a seed that fails.
var aSeed = regexp.MustCompile(`simulation_test.go:\d+: (seed \d+: .*)`)

// seed returns what the simulation said of a seed that failed, or nothing.
func (r result) seed() string {
	if found := aSeed.FindStringSubmatch(r.output); found != nil {
		return found[1]
	}
	return ""
}
