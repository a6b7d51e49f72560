package run

import (
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/fault"
)

// Outcome is the result of a run.
type Outcome struct {
	// Seed and Length are those of the run.
	Seed   uint64
	Length time.Duration
	// Results are the results of the measured faults.
	Results []fault.Result `json:"-"`
	// Random is the number of random faults. Failed is how many of them could not be injected or lifted because of
	// others.
	Random, Failed int
	// Liveness is how long the healthy core took for its work, and LivenessLimit the limit. Zero means that it was not
	// measured.
	Liveness, LivenessLimit time.Duration
	// Check is the result of the check.
	Check Check
}

// OK reports whether there are no violations and every figure is within its limit.
func (o *Outcome) OK() bool {
	for _, r := range o.Results {
		if !r.OK() {
			return false
		}
	}
	return len(o.Check.Violations) == 0 && o.Liveness <= o.LivenessLimit
}

// Add adds another shard of the same run.
func (o *Outcome) Add(other *Outcome) {
	o.Length += other.Length
	o.Results = append(o.Results, other.Results...)
	o.Random += other.Random
	o.Failed += other.Failed
	o.Liveness, o.LivenessLimit = max(o.Liveness, other.Liveness), max(o.LivenessLimit, other.LivenessLimit)
	c, d := &o.Check, other.Check
	c.Acknowledged += d.Acknowledged
	c.Unknown += d.Unknown
	c.Resolved += d.Resolved
	c.RolledBack += d.RolledBack
	c.Lost += d.Lost
	c.Excused += d.Excused
	c.Runs += d.Runs
	c.Signals += d.Signals
	c.Calls += d.Calls
	c.Pushes += d.Pushes
	c.Kinds.add(d.Kinds)
	c.Quiet = max(c.Quiet, d.Quiet)
	c.Repeated += d.Repeated
	c.Replay.Changes += d.Replay.Changes
	c.Replay.Claims += d.Replay.Claims
	c.Replay.Expired += d.Replay.Expired
	c.Replay.Deleted += d.Replay.Deleted
	c.Planted += d.Planted
	c.Replay.Leased = max(c.Replay.Leased, d.Replay.Leased)
	for name, theirs := range d.Running {
		c.Running[name] = [2]int{max(c.Running[name][0], theirs[0]), theirs[1]}
	}
	c.Resources = append(c.Resources, d.Resources...)
	c.Violations = append(c.Violations, d.Violations...)
}
