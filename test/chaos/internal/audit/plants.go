package audit

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// plants are violations of every rule about a whole run, as changes of its record. Each reports whether the record had
// a place for it.
var plants = []struct {
	rule, name string
	plant      func(r *Record) bool
}{
	{RuleMoves, "an item is started twice", func(r *Record) bool {
		return r.first(isStart, func(c *Change) { c.Old = "DISPATCHED" })
	}},
	{RuleCap, "W was 0", func(r *Record) bool {
		r.Cap = 0
		r.all(Settings, func(v *Values) { v.Limit = 0 })
		return true
	}},
	{RuleLimit, "the limits of workspaces were 0", func(r *Record) bool {
		return r.all(Workspace, func(v *Values) { v.Limit = 0 })
	}},
	{RuleKey, "the limits of keys were 0", func(r *Record) bool { return r.all(Key, func(v *Values) { v.Limit = 0 }) }},
	{RuleTokens, "a claim draws no token", func(r *Record) bool {
		return r.first(isClaim, func(c *Change) { c.NewToken = c.OldToken })
	}},
	{RuleExpiry, "an item is settled after its lease", func(r *Record) bool {
		return r.first(isStart, func(c *Change) { c.Moved = c.OldLease.Add(time.Millisecond) })
	}},
	{RulePause, "workspaces were paused", func(r *Record) bool {
		return r.all(Workspace, func(v *Values) { v.Paused = true })
	}},
	{RulePause, "keys were paused", func(r *Record) bool { return r.all(Key, func(v *Values) { v.Paused = true }) }},
	{RuleLate, "an item is claimed late", func(r *Record) bool {
		return r.first(func(c Change) bool { return isClaim(c) && !c.Held },
			func(c *Change) { c.StartBefore = c.Began.Add(c.Ahead) })
	}},
	{RuleKept, "the retention was longer", func(r *Record) bool {
		r.all(Settings, func(v *Values) { v.Keep *= 1e6 })
		return r.first(func(c Change) bool { return c.Old == "COMPLETED" && c.New == "" }, func(*Change) {})
	}},
	{RuleKept, "an open item is deleted", func(r *Record) bool {
		return r.first(func(c Change) bool { return c.Old == "DISPATCHED" && c.New == "COMPLETED" },
			func(c *Change) { c.New = "" })
	}},
	{RuleRate, "the rates of keys were 0", func(r *Record) bool {
		return r.all(Key, func(v *Values) { v.Starts = make([]int, len(v.Starts)) })
	}},
	{RuleRate, "the rates of workspaces were lower", func(r *Record) bool {
		rated := false
		r.all(Workspace, func(v *Values) { v.PerSecond, rated = v.PerSecond/1e6, rated || v.PerSecond > 0 })
		return rated
	}},
	{RuleCalls, "a call answered otherwise", func(r *Record) bool {
		return change(r.Calls, func(c Call) bool { return c.Acknowledged && c.Action == "inserted" },
			func(c *Call) { c.Action = "skipped" })
	}},
	{RuleWaiting, "a second item of a key waits", func(r *Record) bool { return r.twice("") }},
	{RuleSkip, "a second item of a key is open", func(r *Record) bool { return r.twice(SkipPrefix) }},
	{RuleParams, "other params are run", func(r *Record) bool {
		for execution := range r.Ran {
			r.Ran[execution] = "planted"
		}
		return len(r.Ran) > 0
	}},
	{RuleQuiet, "a debounced item was due later", func(r *Record) bool {
		debounced := false
		for n := range r.Calls {
			if c := &r.Calls[n]; c.Policy == "debounce" {
				c.Sent, c.AtMost, debounced = c.Sent.Add(time.Hour), 0, true
			}
		}
		return debounced
	}},
	{RuleSignalOnce, "a signal is received twice", func(r *Record) bool {
		for execution, s := range r.Signals {
			if n := len(s.Received); n > 0 {
				r.Signals[execution] = Received{s.Sent, append(slices.Clone(s.Received), s.Received[n-1])}
				return true
			}
		}
		return false
	}},
	{RulePushed, "a reported end is forgotten", func(r *Record) bool {
		n := slices.IndexFunc(r.Pushes, func(p Push) bool { return p.First })
		return n >= 0 && change(r.Found, func(f Found) bool { return f.Execution == r.Pushes[n].Execution },
			func(f *Found) { f.Said = "" })
	}},
	{RuleLost, "a row is missing", func(r *Record) bool {
		n := slices.IndexFunc(r.Expected, func(e Expected) bool { return e.Acknowledged })
		return n >= 0 && change(r.Found, func(f Found) bool { return f.Execution == r.Expected[n].Execution },
			func(f *Found) { f.Execution = "planted" })
	}},
	{RuleEnd, "a row ends otherwise", func(r *Record) bool {
		return change(r.Found, completed, func(f *Found) { f.Status = "planted" })
	}},
	{RuleCounted, "a failure is counted", func(r *Record) bool {
		return change(r.Expected, func(e Expected) bool { return e.Acknowledged && !e.Counted },
			func(e *Expected) {
				r.Found = append(r.Found, Found{Execution: e.Execution, Status: e.Want, Failures: 1})
			})
	}},
	{RulePhantom, "a row was rolled back", func(r *Record) bool {
		return change(r.Expected, func(e Expected) bool { return e.Acknowledged },
			func(e *Expected) { e.Acknowledged, e.RolledBack = false, true })
	}},
	{RuleOneRun, "an item has another run", func(r *Record) bool { return r.again("", 0) }},
	{RuleRunning, "the limits in Temporal were 0", func(r *Record) bool {
		for workspace := range r.Limits {
			r.Limits[workspace] = 0
		}
		return len(r.Limits) > 0
	}},
	{RuleBeside, "a run begins beside another", func(r *Record) bool { return r.again(Reuse, -2*accepted) }},
	{RuleRefused, "an item is refused twice", func(r *Record) bool {
		return r.named(func(f Found) bool { return f.Status == "FAILED" && f.RunID == "" }, func(f *Found) { f.Failures = 2 })
	}},
	{RuleFollows, "an item ends otherwise than its run", func(r *Record) bool {
		return r.named(completed, func(f *Found) { f.ExecutionStatus = "FAILED" })
	}},
	{RuleInOrder, "claims of an ID are settled late", func(r *Record) bool {
		ids := map[string]string{}
		for _, e := range r.Expected {
			ids[e.Execution] = e.ID
		}
		items := map[string]int{}
		for n := range r.Changes {
			c := &r.Changes[n]
			if id := ids[c.Execution]; id != "" && isStart(*c) {
				c.At = c.At.Add(time.Hour)
				items[id]++
			}
		}
		return slices.Max(append(slices.Collect(maps.Values(items)), 0)) > 4
	}},
}

func isClaim(c Change) bool { return c.Old == "PENDING" && c.New == "CLAIMED" }

func isStart(c Change) bool { return c.Old == "CLAIMED" && c.New == "DISPATCHED" }

func completed(f Found) bool { return f.Status == "COMPLETED" }

// change changes the first element that fits, if there is one.
func change[T any](all []T, fits func(T) bool, to func(*T)) bool {
	n := slices.IndexFunc(all, fits)
	if n >= 0 {
		to(&all[n])
	}
	return n >= 0
}

// first changes the first change of an item that fits.
func (r *Record) first(fits func(Change) bool, to func(*Change)) bool {
	return change(r.Changes, func(c Change) bool { return c.Kind == Item && fits(c) }, to)
}

// all changes all values of a kind.
func (r *Record) all(kind string, to func(*Values)) (some bool) {
	for n := range r.Changes {
		if c := &r.Changes[n]; c.Kind == kind {
			to(&c.Values)
			some = true
		}
	}
	return some
}

// twice inserts a row of a key again beside it.
func (r *Record) twice(prefix string) bool {
	n := slices.IndexFunc(r.Changes, func(c Change) bool {
		back := func(o Change) bool { return o.Kind == Item && o.ID == c.ID && o.Old == "PENDING" && o.New == "" }
		return c.Kind == Item && c.Old == "" && c.PolicyKey != "" && strings.HasPrefix(c.PolicyKey, prefix) &&
			!slices.ContainsFunc(r.Changes, back)
	})
	if n < 0 {
		return false
	}
	beside := r.Changes[n]
	beside.Execution, beside.ID = "planted", -1
	r.Changes = slices.Insert(r.Changes, n+1, beside)
	return true
}

// named changes the first row that names its ID and fits.
func (r *Record) named(fits func(Found) bool, to func(*Found)) bool {
	ids := map[string]bool{}
	for _, e := range r.Expected {
		ids[e.Execution] = e.ID != ""
	}
	return change(r.Found, func(f Found) bool { return ids[f.Execution] && fits(f) }, to)
}

// again adds a run of an item whose ID has the policy, so long after its run ended.
func (r *Record) again(policy string, after time.Duration) bool {
	fits := map[string]bool{}
	for _, e := range r.Expected {
		fits[e.Execution] = e.Policy == policy && e.MostRuns == 0
	}
	n := slices.IndexFunc(r.Runs, func(run Run) bool { return fits[run.Execution] && run.Status == "COMPLETED" })
	if n < 0 {
		return false
	}
	second := r.Runs[n]
	second.RunID, second.Start, second.Close = "planted", second.Close.Add(after), second.Close.Add(time.Hour)
	r.Runs = append(r.Runs, second)
	return true
}
