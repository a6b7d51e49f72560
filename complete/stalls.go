package complete

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

// StalledQueue is a task queue with long-running executions.
type StalledQueue struct {
	temporal.TaskQueue
	Executions int
}

// Stall is something that makes no progress: a task queue that no worker polls, or an execution whose workflow task
// fails repeatedly.
type Stall struct {
	Kind       string // TASK_QUEUE or EXECUTION
	Namespace  string
	Name       string // of the task queue, or the execution's ID
	Executions int
	Detail     string
}

// StallChange is a stall that is new or, if Over is set, has ended.
type StallChange struct {
	Over bool
	Stall
}

// StallTurn takes the turn to look for stalls. It returns mine = false if a replica took the turn within `often`. It
// returns up to atMost task queues of executions that have run for longer than age.
func (s *Postgres) StallTurn(ctx context.Context, often, age time.Duration,
	atMost int) (queues []StalledQueue, mine bool, err error) {
	type row struct {
		Namespace  *string
		Name       *string
		Executions *int
	}
	turn, err := postgres.Read[row](ctx, s.DB, "claim the turn to check for stalls", sql.Text("stall_turn"), often, age,
		atMost)
	for _, r := range turn {
		if r.Name != nil {
			queues = append(queues,
				StalledQueue{temporal.TaskQueue{Namespace: postgres.OrZero(r.Namespace), Name: *r.Name},
					postgres.OrZero(r.Executions)})
		}
	}
	return queues, len(turn) > 0, err
}

// StallPick returns up to atMost executions to ask Temporal about: known stalls, up to half of them, and then the next
// of a round through all executions that have run for longer than age, except those on the task queues in without.
func (s *Postgres) StallPick(ctx context.Context, age time.Duration, without []StalledQueue,
	atMost int) ([]temporal.Execution, error) {
	queues, namespaces, _ := columns(without)
	return postgres.Read[temporal.Execution](ctx, s.DB, "pick executions to check", sql.Text("stall_pick"), age, queues,
		namespaces, atMost)
}

// StallRecord records the result of a look and returns the stalls that are new or over. The arguments are: idle, the
// task queues without a poller; asked, the executions that were asked about; failing, those of them that make no
// progress; silent, the namespaces that did not answer, whose task queues keep their state.
func (s *Postgres) StallRecord(ctx context.Context, idle []StalledQueue, asked []string, failing []Stall,
	silent []string) ([]StallChange, error) {
	queues, namespaces, counts := columns(idle)
	names, where, details := []string{}, []string{}, []string{}
	for _, f := range failing {
		names, where, details = append(names, f.Name), append(where, f.Namespace), append(details, postgres.Clean(f.Detail))
	}
	return postgres.Read[StallChange](ctx, s.DB, "record stalls", sql.Text("stall_record"),
		queues, namespaces, counts, nonNil(asked), names, where, details, nonNil(silent))
}

func columns(queues []StalledQueue) (names, namespaces []string, counts []int) {
	names, namespaces, counts = []string{}, []string{}, []int{}
	for _, q := range queues {
		names, namespaces, counts = append(names, q.Name), append(namespaces, q.Namespace), append(counts, q.Executions)
	}
	return names, namespaces, counts
}

// nonNil replaces a nil list, because comparing with a null array is never true.
func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
