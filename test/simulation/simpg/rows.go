// Package simpg is a simulated Postgres: the tables and statements of package sql as Go values, in which transactions
// commit in any order and crashes lose commits. Its tests give the same operations to a real Postgres, and compare the
// answers.
package simpg

import (
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// The states of a row.
const (
	rowWaits byte = iota
	rowClaimed
	rowDispatched
	rowDoubt // a start was sent and not answered
	rowEnded
)

// item is what the schedule reads of a row.
type item struct {
	workspace schedule.WorkspaceID
	priority  int
	due       time.Time
	id        int64
	key       string
}

func (i item) String() string { return fmt.Sprintf("item %d", i.id) }

func (i item) position() schedule.Position { return schedule.Position{Due: i.due, ID: i.id} }

// scope is where a limit key counts: in one workspace, or everywhere.
type scope struct {
	workspace schedule.WorkspaceID
	key       string
}
