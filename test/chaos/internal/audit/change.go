// Package audit checks a run after the fact: the database's changes commit by commit, Temporal's runs, and the final
// state of every row that an application inserted. It reads only its arguments, so tests can show that each rule finds
// its violation.
package audit

import (
	"fmt"
	"time"
)

// Kinds of changes.
const (
	// Item is a change of an item.
	Item = "item"
	// Workspace is a change of a workspace's limit or pause.
	Workspace = "workspace"
	// Settings is a change of W, of the global pause or of the retention.
	Settings = "settings"
	// Key is a change of the limit of a key.
	Key = "key"
)

// Change is one change of a row, with the transaction that made it.
type Change struct {
	// Kind is Item, Workspace, Settings or Key.
	Kind string
	// ID, Execution and Workspace identify the item. For a workspace change, Workspace is the workspace's own ID, and for
	// a limit of a key, the one in which it holds, or empty. ID is then the limit's.
	ID        int64
	Execution string
	Workspace string
	// Key is the item's limit key; empty means that it has none. For a limit it is the limit's.
	Key string
	// Old and New are the item's status before and after. Empty means that the item did not exist.
	Old, New string
	// OldToken and NewToken are the item's lease tokens before and after.
	OldToken, NewToken int64
	// Held and Holds report whether the item held a slot before and after.
	Held, Holds bool
	// OldOwner and NewOwner are the lease holders.
	OldOwner, NewOwner string
	// OldLease and NewLease are the times of lease expiry.
	OldLease, NewLease time.Time
	// Moved is the time that the settling statement wrote into the item. Zero means that it wrote none.
	Moved time.Time
	// Values are the new ones of a workspace, of the settings or of the limit of a key.
	Values
	// Began, At and Committed are when the transaction began, when the row was changed, and when the transaction
	// committed.
	Began, At, Committed time.Time
	// Ahead is how far the server's clock was ahead of the other times here.
	Ahead time.Duration
	// StartBefore is the item's start_before, by the server's own clock. Zero means that it has none.
	StartBefore time.Time
	// PolicyKey is the key under which pgdispatch.enqueue was called, and Marker the call whose params the item has.
	PolicyKey, Marker string
	// Transaction is the transaction ID.
	Transaction int64
}

// Values are those that can be changed.
type Values struct {
	// Limit is how many items may hold a slot or, of the settings, a lease. A key without a limit has a negative one.
	Limit  int
	Paused bool
	// PerSecond is a workspace's rate: in any interval, a second's worth, at least one item, plus the rate times the
	// interval. Zero means that it has none.
	PerSecond float64
	// Starts and Periods are the rates of a key: in any period of length Periods[n], in seconds, at most Starts[n] items.
	Starts  []int
	Periods []float64
	// Keep and KeepFailed are how long the settings keep ended items, and failed ones, in seconds. Zero means forever.
	Keep, KeepFailed float64
}

// Violation is a broken rule.
type Violation struct {
	// Rule names the invariant.
	Rule string
	// Detail describes what happened, and when.
	Detail string
	// At is the time of the violation. Zero means that the time does not matter.
	At time.Time
}

// String returns the violation as one line.
func (v Violation) String() string { return v.Rule + ": " + v.Detail }

func violation(rule, format string, args ...any) Violation {
	return Violation{Rule: rule, Detail: fmt.Sprintf(format, args...)}
}

func clock(t time.Time) string { return t.Format("15:04:05.000000") }
