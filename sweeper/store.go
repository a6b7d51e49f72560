package sweeper

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Postgres executes the statements of the sweeper. Its commits may be asynchronous: what a crash of the database undoes
// is swept or found again.
type Postgres struct {
	DB    postgres.Conn
	Owner string // this replica's name
}

const (
	// deleteTimeout bounds the deletion of one batch of finished items.
	deleteTimeout = 30 * time.Second
	// bringBackTimeout bounds bringing back one batch of stored times, which reads the index of all waiting items.
	bringBackTimeout = 20 * time.Second
)

// Swept is the result of a sweep.
type Swept struct {
	Requeued int // items whose lease expired and that are PENDING again
	Late     int // items that were cancelled because they were not claimed before their start_before
	// Failing are the parts of the sweep that failed, with their errors. What the others did is committed.
	Failing map[string]string
	// Housework reports whether Housekeep has something to do.
	Housework bool
	// NextExpiryIn is the time until the next expiry of an item's lease, of a replica's presence or of an item's
	// start_before. Nil if there is none.
	NextExpiryIn *time.Duration
	// Now is the database's time.
	Now time.Time
	// OldestOpen is the first transaction ID that may still be open.
	OldestOpen int64
	// Epoch is another one after each crash or failover of Postgres. Empty until a claim or a load has begun one.
	Epoch string
	// Open is the number of running executions, and Mine the number of those that this replica is recorded to watch.
	Open, Mine int
	// Unwatched reports whether no live replica watches some of them.
	Unwatched bool
	// Stops reports whether requests to stop executions are open.
	Stops bool
	// Signals reports whether undelivered signals exist.
	Signals bool
	// Deletes reports whether a retention is set.
	Deletes bool
	// Announces reports whether ends are notified to applications.
	Announces bool
	// Vanished are the namespaces in which so many running executions are missing in Temporal that nothing is started
	// there. "" stands for that of executions that name none.
	Vanished []string
	// Namespaces are the namespaces that definitions name. It contains "" if some definitions name none.
	Namespaces []string
	// NotifyQueue is the used fraction of the Postgres cluster's notification queue, 0 to 1.
	NotifyQueue float64
}

// Sweep returns up to atMost items whose lease expired to PENDING, cancels up to atMost that were not claimed before
// their start_before, and reports the work that there is for other
// components. Sweeps are safe to run concurrently with each other and with claims.
func (s *Postgres) Sweep(ctx context.Context, atMost int) (Swept, error) {
	return postgres.Row[Swept](ctx, s.DB, "sweep", sql.Text("sweep"), atMost, s.Owner)
}

// Housekeep counts and trims marks, and records and deletes statistics. It returns the parts that failed, with their
// errors. Concurrent calls are safe.
func (s *Postgres) Housekeep(ctx context.Context) (failing map[string]string, err error) {
	return postgres.Value[map[string]string](ctx, s.DB, "keep house", sql.Text("housekeep"))
}

// Brought is the result of bringing back stored times.
type Brought struct {
	Times int  // rows that were changed
	More  bool // whether there may be more
	// OpenTo is above the IDs of all transactions that were open. They may still store times from before the clock was
	// set back.
	OpenTo int64
}

// BringBack changes up to atMost stored times of each kind that are further ahead than their own period: they were
// stored before the database's clock was set back. Concurrent calls are safe. Without such times it writes nothing.
func (s *Postgres) BringBack(ctx context.Context, atMost int) (Brought, error) {
	return postgres.RowWithin[Brought](ctx, bringBackTimeout, s.DB, "bring back stored times",
		sql.Text("bring_back"), atMost)
}

// Deleted is the result of one batch of retention deletes.
type Deleted struct {
	Items       int // COMPLETED and CANCELLED items
	DeadLetters int
	Executions  int
	More        bool // whether more items can be looked at now
}

// DeleteFinished looks at the next atMost items and deletes those whose retention has expired. Concurrent calls are
// safe: one does the work, and the others return at once.
func (s *Postgres) DeleteFinished(ctx context.Context, atMost int) (Deleted, error) {
	return postgres.RowWithin[Deleted](ctx, deleteTimeout, s.DB, "remove finished items",
		sql.Text("delete_finished"), atMost)
}

// QueueHolder returns the session that may keep the notification queue from being emptied. Nil if it is not known.
func (s *Postgres) QueueHolder(ctx context.Context) (*notify.Holder, error) {
	return notify.QueueHolder(ctx, s.DB)
}

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
		Kind       *temporal.Kind
		Executions *int
	}
	turn, err := postgres.Read[row](ctx, s.DB, "claim the turn to check for stalls", sql.Text("stall_turn"), often, age,
		atMost)
	for _, r := range turn {
		if r.Name != nil {
			queues = append(queues,
				StalledQueue{temporal.TaskQueue{Namespace: postgres.OrZero(r.Namespace), Name: *r.Name,
					Kind: postgres.OrZero(r.Kind)}, postgres.OrZero(r.Executions)})
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

// StallRecord records the result of a turn and returns the stalls that are new or over. The arguments are: idle, the
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
		queues, namespaces, counts, postgres.OrEmpty(asked), names, where, details, postgres.OrEmpty(silent))
}

func columns(queues []StalledQueue) (names, namespaces []string, counts []int) {
	names, namespaces, counts = []string{}, []string{}, []int{}
	for _, q := range queues {
		names, namespaces, counts = append(names, q.Name), append(namespaces, q.Namespace), append(counts, q.Executions)
	}
	return names, namespaces, counts
}
