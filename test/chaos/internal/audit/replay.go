package audit

import (
	"time"
)

// moves are the documented transitions of the state machine. This is a deliberate copy, so that a change of the
// product does not change the check.
var moves = map[[2]string]bool{
	{"", "PENDING"}:             true,
	{"PENDING", "CLAIMED"}:      true,
	{"PENDING", "CANCELLED"}:    true,
	{"CLAIMED", "PENDING"}:      true,
	{"CLAIMED", "DISPATCHED"}:   true,
	{"CLAIMED", "FAILED"}:       true,
	{"DISPATCHED", "COMPLETED"}: true,
	{"DISPATCHED", "FAILED"}:    true,
}

// Rules of the replay.
const (
	// RuleMoves allows only legal transitions, each from the status in which the previous one ended.
	RuleMoves = "only legal transitions"
	// RuleCap forbids more than W unexpired leases.
	RuleCap = "no more than W leased"
	// RuleLimit forbids exceeding a workspace's limit.
	RuleLimit = "no workspace exceeds its limit"
	// RuleKey forbids exceeding the limit of a key, in a workspace or over all.
	RuleKey = "no limit key exceeds its limit"
	// RuleTokens requires that tokens fence.
	RuleTokens = "every claim draws a new token, and only its owner settles"
	// RuleExpiry forbids taking a lease from its holder before its expiry, and using it afterwards.
	RuleExpiry = "a lease is exclusive until it expires, and useless afterwards"
	// RulePause forbids claims of paused items.
	RulePause = "paused items are not claimed"
	// RuleLate forbids claims of items that are too late, and cancelling items that are in time or may have been started.
	RuleLate = "an item is not claimed after its start_before, nor cancelled before it or after its start"
)

// Summary is the result of a replay.
type Summary struct {
	// Changes and Claims are the numbers of changes and claims.
	Changes, Claims int
	// Leased is the greatest number of unexpired leases at any commit.
	Leased int
	// Expired is the number of leases that expired and were taken.
	Expired int
	// Orphans are the executions of items that failed right after three of their leases in a row had expired, as
	// documented: nobody can tell a holder that the item killed from one that was cut off.
	Orphans map[string]bool
	// Violations are the broken rules.
	Violations []Violation
}

// item is the state of an item at a moment of the replay.
type item struct {
	status    string
	workspace string
	holds     bool
	lease     time.Time // by the server's own clock
	token     int64
	inserted  int64 // the transaction that inserted it
	expired   int   // how many of its leases in a row
}

// flush is how long a value may hold after the commit that replaced it: Postgres takes a commit's timestamp before it
// flushes the commit, and shows the commit to others afterwards.
const flush = 250 * time.Millisecond

// lostHolders is how many leases of an item expire in a row before its next holder fails it.
const lostHolders = 3

// period is a value that holds from a commit on.
type period struct {
	from   time.Time
	limit  int
	paused bool
}

// periods is a value's history, oldest first.
type periods []period

// greatest returns the greatest limit that held at any time between two moments.
func (p periods) greatest(from, to time.Time) (greatest int, known bool) {
	for i, one := range p {
		over := i+1 < len(p) && !p[i+1].from.Add(flush).After(from) // ended before the interval began
		if !over && !one.from.After(to) {
			greatest, known = max(greatest, one.limit), true
		}
	}
	return greatest, known
}

// pausedThroughout reports whether the value was paused at every moment between two.
func (p periods) pausedThroughout(from, to time.Time) bool {
	throughout := false
	for i, one := range p {
		over := i+1 < len(p) && !p[i+1].from.Add(flush).After(from)
		if over || one.from.After(to) {
			continue
		}
		if !one.paused {
			return false
		}
		throughout = throughout || !one.from.After(from)
	}
	return throughout
}

// replay is the state at a commit.
type replay struct {
	items  map[int64]*item
	held   map[string]int
	keys   map[KeyLimit]int // held slots, by key; Limit is zero
	most   []KeyLimit
	leased map[int64]bool
	cap    periods
	limits map[string]periods
	Summary
}

// KeyLimit is the limit of a key in each workspace or, if All is set, over all workspaces. It does not change.
type KeyLimit struct {
	Key       string
	All       bool
	Workspace string // in the counts of a replay
	Limit     int
}

// Replay applies all changes, which are in commit order, and checks the state after each transaction. Cap is W at the
// beginning.
func Replay(changes []Change, cap int, keys ...KeyLimit) Summary {
	r := &replay{items: map[int64]*item{}, held: map[string]int{}, keys: map[KeyLimit]int{}, most: keys,
		leased: map[int64]bool{}, limits: map[string]periods{},
		cap: periods{{limit: cap}}}
	r.Orphans = map[string]bool{}
	r.Changes = len(changes)
	r.history(changes)
	for begin := 0; begin < len(changes); {
		end := begin + 1
		for end < len(changes) && changes[end].Transaction == changes[begin].Transaction {
			end++
		}
		r.transaction(changes[begin:end])
		begin = end
	}
	return r.Summary
}

// history collects when each limit held, before the checks use it.
func (r *replay) history(changes []Change) {
	for _, c := range changes {
		p := period{from: c.Committed, limit: c.Limit, paused: c.Paused}
		switch c.Kind {
		case Settings:
			r.cap = append(r.cap, p)
		case Workspace:
			r.limits[c.Workspace] = append(r.limits[c.Workspace], p)
		}
	}
}

func (r *replay) fail(rule, format string, args ...any) {
	r.Violations = append(r.Violations, violation(rule, format, args...))
}

// transaction applies the changes of one transaction, and then checks the limits.
func (r *replay) transaction(changes []Change) {
	claimed := false
	grown := map[string]bool{}
	for _, c := range changes {
		if c.Kind != Item {
			continue
		}
		r.move(c)
		r.late(c)
		if c.Old == "PENDING" && c.New == "CLAIMED" {
			r.Claims++
			claimed = true
			r.pauses(c)
		}
		if c.Holds && !c.Held {
			grown[c.Workspace] = true
		}
		r.apply(c)
		r.count(c)
	}
	last := changes[len(changes)-1]
	if claimed {
		r.checkCap(last)
	}
	for workspace := range grown {
		// A claim may use the limits that held when it began.
		limit, known := r.limits[workspace].greatest(last.Began, last.Committed)
		if known && r.held[workspace] > limit {
			r.fail(RuleLimit, "workspace %s holds %d slots of %d after transaction %d, committed %s",
				workspace, r.held[workspace], limit, last.Transaction, clock(last.Committed))
		}
	}
}

// count counts the slots of the item's key, and checks its limits at once: only a claim adds a holder.
func (r *replay) count(c Change) {
	for _, l := range r.most {
		if l.Key != c.Key || c.Holds == c.Held {
			continue
		}
		of := KeyLimit{Key: l.Key, All: l.All}
		if !l.All {
			of.Workspace = c.Workspace
		}
		if c.Held {
			r.keys[of]--
			continue
		}
		if r.keys[of]++; r.keys[of] > l.Limit {
			r.fail(RuleKey, "key %q of workspace %q holds %d slots of %d in transaction %d, committed %s", l.Key, of.Workspace,
				r.keys[of], l.Limit, c.Transaction, clock(c.Committed))
		}
	}
}

// apply applies the change to the state.
func (r *replay) apply(c Change) {
	next := item{status: c.New, workspace: c.Workspace, holds: c.Holds, lease: c.NewLease.Add(c.Ahead),
		token: c.NewToken, inserted: c.Transaction}
	if before := r.items[c.ID]; before != nil {
		next.inserted, next.expired = before.inserted, before.expired
		if c.Old == "CLAIMED" && c.New != "CLAIMED" && c.NewToken == c.OldToken { // settled
			if c.New == "FAILED" && before.expired >= lostHolders {
				r.Orphans[c.Execution] = true
			}
			next.expired = 0
		}
	}
	if r.items[c.ID] = &next; c.New == "" {
		delete(r.items, c.ID)
	}
	switch {
	case c.Holds && !c.Held:
		r.held[c.Workspace]++
	case c.Held && !c.Holds:
		r.held[c.Workspace]--
	}
	if c.New == "CLAIMED" {
		r.leased[c.ID] = true
	} else {
		delete(r.leased, c.ID)
	}
}

// late checks a change of an item against its start_before. A claim decides after its transaction began.
func (r *replay) late(c Change) {
	has := !c.StartBefore.IsZero()
	switch {
	case c.Old == "PENDING" && c.New == "CLAIMED" && !c.Held && has && !c.Began.Add(c.Ahead).Before(c.StartBefore):
		r.fail(RuleLate, "item %d was claimed by a transaction that began at %s, %s after its start_before", c.ID,
			clock(c.Began), c.Began.Add(c.Ahead).Sub(c.StartBefore))
	case c.New == "CANCELLED" && c.Held:
		r.fail(RuleLate, "item %d was cancelled at %s, and may have been started", c.ID, clock(c.At))
	case c.Old == "PENDING" && c.New == "CANCELLED" && has && c.At.Add(c.Ahead).Before(c.StartBefore):
		r.fail(RuleLate, "item %d was cancelled at %s, %s before its start_before", c.ID, clock(c.At),
			c.StartBefore.Sub(c.At.Add(c.Ahead)))
	}
}

func (r *replay) checkCap(last Change) {
	leased := 0
	for id := range r.leased {
		if r.items[id].lease.After(last.Committed.Add(last.Ahead)) {
			leased++
		}
	}
	r.Leased = max(r.Leased, leased)
	if limit, _ := r.cap.greatest(last.Began, last.Committed); leased > limit {
		r.fail(RuleCap, "%d unexpired leases of %d after transaction %d, committed %s", leased, limit,
			last.Transaction, clock(last.Committed))
	}
}

func (r *replay) pauses(c Change) {
	if r.cap.pausedThroughout(c.Began, c.Committed) {
		r.fail(RulePause, "item %d was claimed at %s while everything was paused", c.ID, clock(c.At))
	}
	if r.limits[c.Workspace].pausedThroughout(c.Began, c.Committed) {
		r.fail(RulePause, "item %d was claimed at %s while its workspace was paused", c.ID, clock(c.At))
	}
}

// move checks one change of one item against the state before it.
func (r *replay) move(c Change) {
	before := r.items[c.ID]
	if before == nil {
		before = &item{}
	}
	stays := c.Old == c.New
	switch {
	case before.status != c.Old || before.holds != c.Held || before.token != c.OldToken:
		r.fail(RuleMoves, "item %d was %q with token %d, and transaction %d found it %q with token %d at %s",
			c.ID, before.status, before.token, c.Transaction, c.Old, c.OldToken, clock(c.At))
	case c.Old == "PENDING" && c.New == "" && c.Transaction == before.inserted: // enqueue takes its own row back
	case !stays && !moves[[2]string{c.Old, c.New}]:
		r.fail(RuleMoves, "item %d went from %q to %q at %s", c.ID, c.Old, c.New, clock(c.At))
	}
	switch {
	case c.New == "CLAIMED" && c.Old == "PENDING":
		if c.NewToken <= c.OldToken {
			r.fail(RuleTokens, "item %d was claimed with token %d after %d at %s", c.ID, c.NewToken, c.OldToken, clock(c.At))
		}
	case c.Old == "CLAIMED" && c.NewToken != c.OldToken:
		// The lease was taken from its holder.
		r.Expired++
		before.expired++
		if c.New != "PENDING" || !c.Holds {
			r.fail(RuleTokens, "item %d was taken from its holder and is %q, slot held: %t, at %s", c.ID,
				c.New, c.Holds, clock(c.At))
		}
		if c.At.Before(c.OldLease) {
			r.fail(RuleExpiry, "item %d was taken from %s at %s, its lease would have ended at %s", c.ID, c.OldOwner,
				clock(c.At), clock(c.OldLease))
		}
	case c.Old == "CLAIMED" && stays && (c.OldOwner != c.NewOwner || c.At.Before(c.Began)):
		r.fail(RuleTokens, "item %d went from holder %s to %s without a claim at %s", c.ID, c.OldOwner,
			c.NewOwner, clock(c.At))
	case c.Old == "CLAIMED" && !stays && c.Moved.After(c.OldLease):
		r.fail(RuleExpiry, "item %d was settled as %s at %s by %s, whose lease had ended at %s", c.ID, c.New, clock(c.Moved),
			c.OldOwner, clock(c.OldLease))
	case c.Old != "CLAIMED" && c.NewToken != c.OldToken && c.Old != "":
		r.fail(RuleTokens, "item %d changed its token from %d to %d while %s at %s", c.ID, c.OldToken,
			c.NewToken, c.Old, clock(c.At))
	}
}
