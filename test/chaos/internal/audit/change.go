// Package audit checks a run after the fact: what the database did, commit by commit, what Temporal ran, and what became
// of every row that an application inserted. It reads only what it is given, so each of its rules can be shown to fail.
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
	// Settings is a change of W or of the pause of everything.
	Settings = "settings"
)

// Change is one change of a row, with the transaction that made it.
type Change struct {
	// Kind is Item, Workspace or Settings.
	Kind string
	// ID, Execution and Workspace are the item's; Workspace also a workspace's own.
	ID        int64
	Execution string
	Workspace string
	// Old and New are the item's status before and after; empty: it was not there, or is not.
	Old, New string
	// OldToken and NewToken are the item's lease tokens.
	OldToken, NewToken int64
	// Held and Holds say whether the item held a slot before, and holds one now.
	Held, Holds bool
	// OldOwner and NewOwner are the holders.
	OldOwner, NewOwner string
	// OldLease and NewLease are when the lease ends.
	OldLease, NewLease time.Time
	// Moved is the time that the statement which settled the item wrote into it; zero: it wrote none.
	Moved time.Time
	// Limit and Paused are a workspace's or the settings', from now on.
	Limit  int
	Paused bool
	// Began is when the transaction began, At when the row was changed, Committed when the transaction was committed.
	Began, At, Committed time.Time
	// Ahead is how far the server's clock was ahead of the times here.
	Ahead time.Duration
	// Transaction is its ID.
	Transaction int64
}

// Violation is something that must never be.
type Violation struct {
	// Rule is the invariant, in a few words.
	Rule string
	// Detail is what happened, and when.
	Detail string
	// At is when, where that matters; else zero.
	At time.Time
}

// String is one line.
func (v Violation) String() string { return v.Rule + ": " + v.Detail }

func violation(rule, format string, args ...any) Violation {
	return Violation{Rule: rule, Detail: fmt.Sprintf(format, args...)}
}

func clock(t time.Time) string { return t.Format("15:04:05.000000") }
