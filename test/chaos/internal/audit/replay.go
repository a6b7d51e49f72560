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
	// RuleKept forbids deleting what has not ended or ended too recently.
	RuleKept = "nothing is deleted that is open, or before its retention is over"
	// RuleLate forbids claims of items that are too late, and cancelling items that are in time or may have been started.
	RuleLate = "an item is not claimed after its start_before, nor cancelled before it or after its start"
)

// Summary is the result of a replay.
type Summary struct {
	// Changes and Claims are the numbers of changes and claims.
	Changes, Claims int
	// Leased is the greatest number of unexpired leases at any commit.
	Leased int
	// Expired is the number of leases that expired and were taken. Deleted is the number of ended items that were deleted.
	Expired, Deleted int
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
	inserted  int64     // the transaction that inserted it
	expired   int       // how many of its leases in a row
	ended     time.Time // by the server's own clock, and not after a time to which that was set back
}

// flush is how long a value may hold after the commit that replaced it: Postgres takes a commit's timestamp before it
// flushes the commit, and shows the commit to others afterwards.
const flush = 250 * time.Millisecond

// lostHolders is how many leases of an item expire in a row before its next holder fails it.
const lostHolders = 3

// replay is the state at a commit.
type replay struct {
	items  map[int64]*item
	held   map[string]int
	used   map[limitKey]int // held slots, by key
	leased map[int64]bool
	ahead  time.Duration // how far the server's clock is
	history
	Summary
}

// Replay applies all changes, which are in commit order, and checks the state after each transaction. Cap is W at the
// beginning.
func Replay(changes []Change, cap int) Summary {
	r := &replay{items: map[int64]*item{}, held: map[string]int{}, used: map[limitKey]int{}, leased: map[int64]bool{},
		history: values(changes, cap)}
	r.Orphans = map[string]bool{}
	r.Changes = len(changes)
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
		r.setBack(c)
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
		limit, known := r.workspaces[workspace].greatest(last.Began, last.Committed)
		if known && r.held[workspace] > limit {
			r.fail(RuleLimit, "workspace %s holds %d slots of %d after transaction %d, committed %s",
				workspace, r.held[workspace], limit, last.Transaction, clock(last.Committed))
		}
	}
}

// apply applies the change to the state.
func (r *replay) apply(c Change) {
	next := item{status: c.New, workspace: c.Workspace, holds: c.Holds, lease: c.NewLease.Add(c.Ahead),
		token: c.NewToken, inserted: c.Transaction}
	if before := r.items[c.ID]; before != nil {
		next.inserted, next.expired, next.ended = before.inserted, before.expired, before.ended
		if c.Old == "CLAIMED" && c.New != "CLAIMED" && c.NewToken == c.OldToken { // settled
			if c.New == "FAILED" && before.expired >= lostHolders {
				r.Orphans[c.Execution] = true
			}
			next.expired = 0
		}
	}
	if next.ended.IsZero() && hasEnded(c.New) {
		next.ended = c.Began.Add(c.Ahead)
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
	if limit, _ := r.settings.greatest(last.Began, last.Committed); leased > limit {
		r.fail(RuleCap, "%d unexpired leases of %d after transaction %d, committed %s", leased, limit,
			last.Transaction, clock(last.Committed))
	}
}

func (r *replay) pauses(c Change) {
	if r.settings.pausedThroughout(c.Began, c.Committed) {
		r.fail(RulePause, "item %d was claimed at %s while everything was paused", c.ID, clock(c.At))
	}
	if r.workspaces[c.Workspace].pausedThroughout(c.Began, c.Committed) {
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
	case c.New == "":
		r.deleted(c, before)
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
	case c.Old != "CLAIMED" && c.NewToken != c.OldToken && c.Old != "" && c.New != "":
		r.fail(RuleTokens, "item %d changed its token from %d to %d while %s at %s", c.ID, c.OldToken,
			c.NewToken, c.Old, clock(c.At))
	}
}
