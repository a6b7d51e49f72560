package simulation

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"testing/synctest"
)

// scenario is all that decides a run.
type scenario struct {
	Seed uint64
	// Steps, if there are any, take the place of the seed's choices: a shortened run.
	Steps []step
	// Quiet means that nothing is polled or lost, so that wake-ups and timers must suffice.
	Quiet bool
	// Lies is the planted mistake; empty if there is none: see plantedMistakes.
	Lies string
	// Lasting is the fault that lasts; empty if everything may fail instead: see lastingFaults.
	Lasting string
}

// ofSeed is the scenario of a seed in which nothing may go wrong. A quarter of them are quiet.
func ofSeed(seed int) scenario { return scenario{Seed: uint64(seed), Quiet: seed%4 == 1} }

// command is what repeats a run that has not been shortened.
func (s scenario) command() string {
	command := fmt.Sprintf("make simulation FIRST=%d SEEDS=1", s.Seed)
	if s.Lasting != "" {
		command += fmt.Sprintf(" LASTING='%s'", s.Lasting)
	}
	return command
}

// result is what became of a run.
type result struct {
	// Said is what was wrong; empty if nothing was.
	Said string
	// Steps counts all steps, and Chosen those that the choices decided; the rest only lets time pass.
	Steps, Chosen int
	// Digest is a hash of everything that happened in the run.
	Digest digest
	// Counts says how often each fault came.
	Counts map[string]int
	// Made are the choices, and Log and Items what happened and what was left. Only a run that failed has them.
	Made       []step
	Log, Items string
}

// digest is a hash of runs. Those of several runs are combined by exclusive or, so that their order does not matter.
type digest [16]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// with combines the hashes of two sets of runs.
func (d digest) with(other digest) digest {
	for n := range d {
		d[n] ^= other[n]
	}
	return d
}

// play makes the run of a scenario, in this process.
func play(t *testing.T, s scenario) (r result) {
	t.Helper()
	choices := seededChoices(s.Seed)
	if s.Steps != nil {
		choices = givenChoices(s.Steps)
	}

	synctest.Test(t, func(*testing.T) {
		seedRuntime(s.Seed)
		w := newWorld(choices, s)
		r.Said = w.run()

		w.mu.Lock()
		defer w.mu.Unlock()
		r.Steps, r.Chosen, r.Counts = w.steps, choices.at, w.counts
		r.Counts["items"] = w.tables.Rows()
		r.Counts["forgotten items"] = w.tables.ForgottenItems()
		r.Counts["beyond limits"] = w.tables.Beyond
		fmt.Fprintf(&w.history, "%s\n%v\n", r.Said, r.Counts)
		sum := sha256.Sum256(w.history.Bytes())
		r.Digest = digest(sum[:len(r.Digest)])
		if r.Said != "" {
			r.Made, r.Log, r.Items = choices.made(), w.log.String(), w.tables.Describe()
		}
	})
	return r
}

// reason is what was wrong without its numbers, to compare failures.
func (r result) reason() string {
	return digits.ReplaceAllString(cmp.Or(firstLine(r.Said), "nothing"), "N")
}
