package claim

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

// StalledQueue is a task queue with executions that have run for long.
type StalledQueue struct {
	Namespace  string // of Temporal; "": the replica's
	Name       string
	Executions int
}

// Stall is something that does not progress: a task queue that no worker polls, or an execution whose workflow task fails again
// and again.
type Stall struct {
	Kind       string `json:"kind"` // TASK_QUEUE or EXECUTION
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"` // the queue's, or the execution's ID
	Executions int    `json:"executions"`
	Detail     string `json:"detail"`
}

// StallFor is a stall and since when it is known.
type StallFor struct {
	Stall
	Since time.Duration `json:"since_ns"`
}

// StallChange is one that is new, or over.
type StallChange struct {
	Over bool
	Stall
}

// StallTurn takes the turn to look for what does not progress; false: a replica has, less than often ago. It returns the task
// queues of executions that have run for longer than age, at most so many.
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

// StallPick returns executions to ask about that have run for longer than age, at most so many: those that are known not to
// progress, and the next ones of a round through all but those on some task queues.
func (s *Store) StallPick(ctx context.Context, age time.Duration, without []StalledQueue, atMost int) ([]Execution, error) {
	queues, namespaces, _ := columns(without)
	scan := func(row pgx.CollectableRow) (e Execution, err error) { return e, row.Scan(&e.ID, &e.Namespace) }
	return rows(ctx, s.async(), settleTimeout, "pick executions to ask about", scan, sql.StallPick, age, queues, namespaces, atMost)
}

// StallRecord records what a look has found: task queues without a poller, which executions were asked about, and those of them
// that do not progress. Of namespaces that did not answer nothing changes. It returns what is new, and what is over.
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

// Stalled reads what does not progress, at most so many, that of the most executions first.
func (s *Store) Stalled(ctx context.Context, atMost int) ([]StallFor, error) {
	return read[StallFor](ctx, s.Pool, "read stalls", sql.Stalled, atMost)
}

// nonNil keeps a list from becoming null, which compares with nothing.
func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
