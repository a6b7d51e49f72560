package audit

import (
	"math"
	"time"
)

// RuleRate forbids more starts than a rate allows.
const RuleRate = "no period has more starts than its limit"

// Rate is a rate of a workspace, or of a limit key in a workspace or over all. It does not change.
type Rate struct {
	// Workspace is the workspace, empty for all together. Key is the limit key, empty for a workspace's own rate.
	Workspace, Key string
	// At most Starts items start in any period of length Per.
	Starts int
	Per    time.Duration
	// PerSecond is a workspace's own rate: in any interval, a second's worth, at least one, plus the rate times the
	// interval.
	PerSecond float64
}

// Rates checks every start against the rates. A start is a claim of an item that held no slot: one that is repeated for
// lack of an answer does not count. A claim counts it at some moment between its transaction's beginning and the change
// of the row, so only what no such moments would allow is a violation.
func Rates(changes []Change, rates ...Rate) []Violation {
	var all []Violation
	for _, rate := range rates {
		var starts []Change
		check := func() {
			if rate.Key == "" {
				all = append(all, rate.bucket(starts)...)
			} else {
				all = append(all, rate.periods(starts)...)
			}
			starts = nil
		}
		ahead := time.Duration(0)
		for _, c := range changes {
			if c.Kind != Item || c.Old != "PENDING" || c.New != "CLAIMED" || c.Held ||
				c.Key != rate.Key && rate.Key != "" || c.Workspace != rate.Workspace && rate.Workspace != "" {
				continue
			}
			if c.Ahead != ahead { // periods are measured by the server's clock, which has jumped
				check()
				ahead = c.Ahead
			}
			starts = append(starts, c)
		}
		check()
	}
	return all
}

// periods compares each start with the one that must be a period later.
func (r Rate) periods(starts []Change) (violations []Violation) {
	for n := r.Starts; n < len(starts); n++ {
		first, last := starts[n-r.Starts], starts[n]
		if took := last.At.Sub(first.Began); took < r.Per {
			violations = append(violations, violation(RuleRate,
				"key %q of workspace %q started %d items within %s, the last at %s; the limit is %d in %s", r.Key, r.Workspace,
				r.Starts+1, took, clock(last.At), r.Starts, r.Per))
		}
	}
	return violations
}

// bucket requires that no interval has more starts than a second's worth and the rate times its length.
func (r Rate) bucket(starts []Change) (violations []Violation) {
	const rounding = 1e-6
	if len(starts) == 0 {
		return nil
	}
	burst, origin := math.Max(1, r.PerSecond), starts[0].Began
	least := math.Inf(1) // of starts before n, less what the rate has allowed until then
	for n, c := range starts {
		least = min(least, float64(n)-r.PerSecond*c.Began.Sub(origin).Seconds())
		if over := float64(n+1) - r.PerSecond*c.At.Sub(origin).Seconds() - least - burst; over > rounding {
			violations = append(violations, violation(RuleRate,
				"workspace %q is %.2f starts ahead of its rate of %g per second at %s", r.Workspace, over, r.PerSecond,
				clock(c.At)))
		}
	}
	return violations
}
