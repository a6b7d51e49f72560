package audit

import (
	"math"
	"slices"
	"time"
)

// RuleRate forbids more starts than a rate allows.
const RuleRate = "no period has more starts than its limit"

// Rates checks every start against the rates that held. A start is a claim of an item that held no slot: one that is
// repeated for lack of an answer does not count. A claim counts it, and reads the rates, at some moment between its
// transaction's beginning and its commit, so only what no such moments would allow is a violation.
func Rates(changes []Change) []Violation {
	h := values(changes, 0)
	ofWorkspaces, ofKeys := map[string][]Change{}, map[limitKey][]Change{}
	for _, c := range changes {
		if c.Kind != Item || c.Old != "PENDING" || c.New != "CLAIMED" || c.Held {
			continue
		}
		ofWorkspaces[c.Workspace] = append(ofWorkspaces[c.Workspace], c)
		for _, of := range limitsOf(c) {
			if c.Key != "" {
				ofKeys[of] = append(ofKeys[of], c)
			}
		}
	}
	var all []Violation
	for workspace, starts := range ofWorkspaces {
		for starts := range oneClock(starts) {
			all = append(all, bucket(workspace, starts, h.workspaces[workspace])...)
		}
	}
	for of, starts := range ofKeys {
		rates := h.keys[of].rates()
		for starts := range oneClock(starts) {
			for _, r := range rates {
				all = append(all, r.check(of, starts)...)
			}
		}
	}
	return all
}

// oneClock splits starts where the server's clock, which measures periods, has jumped.
func oneClock(starts []Change) func(yield func([]Change) bool) {
	return func(yield func([]Change) bool) {
		for begin, end := 0, 1; begin < len(starts); end++ {
			if end == len(starts) || starts[end].Ahead != starts[begin].Ahead {
				if !yield(starts[begin:end]) {
					return
				}
				begin = end
			}
		}
	}
}

// rate is a rate of a key while it measures the same period.
type rate struct {
	id       int64
	per      float64
	from, to time.Time
	most     periods // Limit is how many items
}

// rates returns a key's rates. Starts before a rate began, or after it ended, are not counted for it: a limit that is
// made again begins anew.
func (p periods) rates() (all []*rate) {
	var open []*rate
	for _, one := range p {
		var still []*rate
		for n, per := range one.Periods {
			at := slices.IndexFunc(open, func(r *rate) bool { return r.id == one.id && r.per == per })
			r := &rate{id: one.id, per: per, from: one.from, to: never}
			if at >= 0 {
				r = open[at]
			} else {
				all = append(all, r)
			}
			r.most = append(r.most, period{from: one.from, Values: Values{Limit: one.Starts[n]}})
			still = append(still, r)
		}
		for _, r := range open {
			if !slices.Contains(still, r) {
				r.to = one.from
			}
		}
		open = still
	}
	return all
}

// check compares each start with the one that must be a period earlier.
func (r *rate) check(of limitKey, starts []Change) (violations []Violation) {
	counted := slices.DeleteFunc(slices.Clone(starts), func(c Change) bool {
		return c.Began.Before(r.from.Add(flush)) || !c.Committed.Before(r.to)
	})
	for n, last := range counted {
		most, _ := r.most.greatest(last.Began, last.Committed)
		if n < most {
			continue
		}
		if took := last.At.Sub(counted[n-most].Began); took.Seconds() < r.per {
			violations = append(violations, violation(RuleRate,
				"key %q of workspace %q started %d items within %s, the last at %s; the limit is %d in %g s", of.key, of.workspace,
				most+1, took, clock(last.At), most, r.per))
		}
	}
	return violations
}

// bucket requires that no interval has more starts than a second's worth and the rate times its length. A rate applies
// until the next claim after its change.
func bucket(workspace string, starts []Change, rates periods) (violations []Violation) {
	const rounding = 1e-6
	allowed := 0.0       // by the rate, until the last start began
	least := math.Inf(1) // of the starts before n and a second's worth, less what was allowed until then
	before, n := Change{}, 0
	for _, c := range starts {
		now, limited := rates.fastest(c.Began, c.Committed)
		since, limitedSince := now, limited
		if n > 0 {
			since, limitedSince = rates.fastest(before.Began, c.Committed)
		}
		if !limitedSince { // it starts anew
			allowed, least, n = 0, math.Inf(1), 0
		}
		if !limited {
			continue
		}
		if n == 0 {
			before, since = c, now
		}
		until := allowed + since*c.At.Sub(before.Began).Seconds()
		allowed += since * c.Began.Sub(before.Began).Seconds()
		least = min(least, float64(n)+math.Max(1, now)-allowed)
		n, before = n+1, c
		if over := float64(n) - until - least; over > rounding {
			violations = append(violations, violation(RuleRate,
				"workspace %q is %.2f starts ahead of its rate of %g per second at %s", workspace, over, now, clock(c.At)))
		}
	}
	return violations
}

// fastest returns the greatest rate of a workspace between two moments. It is not limited if it had none at one.
func (p periods) fastest(from, to time.Time) (fastest float64, limited bool) {
	for one := range p.within(from, to) {
		if one.PerSecond == 0 {
			return 0, false
		}
		fastest, limited = max(fastest, one.PerSecond), true
	}
	return fastest, limited
}
