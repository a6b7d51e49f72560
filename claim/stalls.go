package claim

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

// StalledQueue is a task queue with long-running executions.
type StalledQueue struct {
	Namespace  string // in Temporal; empty means the replica's
	Name       string
	Executions int
}

// Stall is something that makes no progress: a task queue that no worker polls, or an execution whose workflow task
// fails repeatedly.
type Stall struct {
	Kind       string `json:"kind"` // TASK_QUEUE or EXECUTION
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"` // of the task queue, or the execution's ID
	Executions int    `json:"executions"`
	Detail     string `json:"detail"`
}

// StallFor is a stall and its age.
type StallFor struct {
	Stall
	Since time.Duration `json:"since_ns"` // time since it was detected
}

// StallChange is a stall that is new or, if Over is set, has ended.
type StallChange struct {
	Over bool
	Stall
}

// StallTurn takes the turn to look for stalls. It returns mine = false if a replica took the turn within `often`. It
// returns up to atMost task queues of executions that have run for longer than age.
func (s *Store) StallTurn(ctx context.Context, often, age time.Duration, atMost int) (queues []StalledQueue, mine bool, err error) {
	type row struct {
		Namespace  *string
		Name       *string
		Executions *int
	}
	turn, err := read[row](ctx, s.async(), "take turn to look for stalls", sql.StallTurn, often, age, atMost)
	for _, r := range turn {
		if r.Name != nil {
			queues = append(queues, StalledQueue{value(r.Namespace), *r.Name, value(r.Executions)})
		}
	}
	return queues, len(turn) > 0, err
}

// StallPick returns up to atMost executions to ask Temporal about: known stalls, up to half of them, and then the next
// of a round through all executions that have run for longer than age, except those on the task queues in without.
func (s *Store) StallPick(ctx context.Context, age time.Duration, without []StalledQueue, atMost int) ([]Execution, error) {
	queues, namespaces, _ := columns(without)
	scan := func(row pgx.CollectableRow) (e Execution, err error) { return e, row.Scan(&e.ID, &e.Namespace) }
	return rows(ctx, s.async(), settleTimeout, "pick executions to ask about", scan, sql.StallPick, age, queues, namespaces, atMost)
}

// StallRecord records the result of a look and returns the stalls that are new or over. The arguments are: idle, the
// task queues without a poller; asked, the executions that were asked about; failing, those of them that make no
// progress; silent, the namespaces that did not answer, whose task queues keep their state.
func (s *Store) StallRecord(ctx context.Context, idle []StalledQueue, asked []string, failing []Stall, silent []string) ([]StallChange, error) {
	queues, namespaces, counts := columns(idle)
	names, where, details := []string{}, []string{}, []string{}
	for _, f := range failing {
		names, where, details = append(names, f.Name), append(where, f.Namespace), append(details, Clean(f.Detail))
	}
	return read[StallChange](ctx, s.async(), "record stalls", sql.StallRecord,
		queues, namespaces, counts, nonNil(asked), names, where, details, nonNil(silent))
}

func columns(queues []StalledQueue) (names, namespaces []string, counts []int) {
	names, namespaces, counts = []string{}, []string{}, []int{}
	for _, q := range queues {
		names, namespaces, counts = append(names, q.Name), append(namespaces, q.Namespace), append(counts, q.Executions)
	}
	return names, namespaces, counts
}

// Stalled returns up to atMost stalls, those with the most executions first.
func (s *Store) Stalled(ctx context.Context, atMost int) ([]StallFor, error) {
	return read[StallFor](ctx, s.Pool, "read stalls", sql.Stalled, atMost)
}

// nonNil replaces a nil list, because comparing with a null array is never true.
func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
