package audit

import (
	"iter"
	"math"
	"time"
)

// period is values that hold from a commit on.
type period struct {
	from time.Time
	id   int64 // of a key's limit
	Values
}

// periods is the history of values, oldest first.
type periods []period

// within returns the values that held at any time between two moments.
func (p periods) within(from, to time.Time) iter.Seq[period] {
	return func(yield func(period) bool) {
		for i, one := range p {
			over := i+1 < len(p) && !p[i+1].from.Add(flush).After(from) // ended before the interval began
			if !over && !one.from.After(to) && !yield(one) {
				return
			}
		}
	}
}

// greatest returns the greatest limit that held at any time between two moments.
func (p periods) greatest(from, to time.Time) (greatest int, known bool) {
	for one := range p.within(from, to) {
		limit := one.Limit
		if limit < 0 {
			limit = math.MaxInt
		}
		greatest, known = max(greatest, limit), true
	}
	return greatest, known
}

// pausedThroughout reports whether the value was paused at every moment between two.
func (p periods) pausedThroughout(from, to time.Time) bool {
	throughout := false
	for one := range p.within(from, to) {
		if !one.Paused {
			return false
		}
		throughout = throughout || !one.from.After(from)
	}
	return throughout
}

// limitKey is a limit key in a workspace or, with an empty one, over all.
type limitKey struct{ key, workspace string }

// history is when which values held.
type history struct {
	settings   periods
	workspaces map[string]periods
	keys       map[limitKey]periods
}

// values collects the history. Cap is W at the beginning.
func values(changes []Change, cap int) history {
	h := history{settings: periods{{Values: Values{Limit: cap}}}, workspaces: map[string]periods{},
		keys: map[limitKey]periods{}}
	for _, c := range changes {
		p := period{from: c.Committed, id: c.ID, Values: c.Values}
		switch c.Kind {
		case Settings:
			h.settings = append(h.settings, p)
		case Workspace:
			h.workspaces[c.Workspace] = append(h.workspaces[c.Workspace], p)
		case Key:
			of := limitKey{c.Key, c.Workspace}
			h.keys[of] = append(h.keys[of], p)
		}
	}
	return h
}

// limitsOf are the limits that an item with a key has: in its workspace and over all.
func limitsOf(c Change) [2]limitKey { return [2]limitKey{{c.Key, c.Workspace}, {c.Key, ""}} }

// count counts the slots of the item's key, and checks its limits at once: only a claim adds a holder.
func (r *replay) count(c Change) {
	if c.Key == "" || c.Holds == c.Held {
		return
	}
	for _, of := range limitsOf(c) {
		if c.Held {
			r.used[of]--
			continue
		}
		r.used[of]++
		if limit, known := r.keys[of].greatest(c.Began, c.Committed); known && r.used[of] > limit {
			r.fail(RuleKey, "key %q of workspace %q holds %d slots of %d in transaction %d, committed %s", of.key, of.workspace,
				r.used[of], limit, c.Transaction, clock(c.Committed))
		}
		if r.keys[of].pausedThroughout(c.Began, c.Committed) {
			r.fail(RulePause, "item %d was claimed at %s while its key %q was paused", c.ID, clock(c.At), c.Key)
		}
	}
}

func hasEnded(status string) bool {
	return status == "COMPLETED" || status == "FAILED" || status == "CANCELLED"
}

// setBack dates what ended by a later clock to when the server's clock was set back: from then on it is kept.
func (r *replay) setBack(c Change) {
	if now := c.Began.Add(c.Ahead); c.Ahead < r.ahead {
		for _, one := range r.items {
			if one.ended.After(now) {
				one.ended = now
			}
		}
	}
	r.ahead = c.Ahead
}

// deleted checks that an item is not deleted before its retention is over, by the server's clock.
func (r *replay) deleted(c Change, before *item) {
	r.Deleted++
	if !hasEnded(c.Old) {
		r.fail(RuleKept, "item %d was deleted at %s while %s", c.ID, clock(c.At), c.Old)
		return
	}
	keep := math.Inf(1)
	for one := range r.settings.within(c.Began, c.Committed) {
		kept := one.Keep
		if c.Old == "FAILED" {
			kept = one.KeepFailed
		}
		if kept > 0 {
			keep = min(keep, kept)
		}
	}
	if age := c.At.Add(c.Ahead).Sub(before.ended); age.Seconds() < keep {
		r.fail(RuleKept, "item %d was deleted at %s, %s after it became %s; the retention is %.0f s", c.ID, clock(c.At), age,
			c.Old, keep)
	}
}
