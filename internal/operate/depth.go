package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql"
)

// depthLimit is the number of items up to which a status is counted exactly. It bounds the cost of a read, however long
// the queue is.
const depthLimit = 10_000

// Depth is the current state of the whole queue. Counts below 10,000 are exact. From 10,000 on they are estimates from
// Postgres' statistics and never less than 10,000.
type Depth struct {
	Pending int64 `json:"pending"` // due or not; the unanswered are not in it
	// Unanswered is the number of PENDING items whose start was sent and not answered. They hold slots: their workflows
	// may be running. OldestUnanswered is the time since the first of these starts was sent. Nil if there is none.
	Unanswered       int64          `json:"unanswered"`
	OldestUnanswered *time.Duration `json:"oldest_unanswered_ns"`
	Claimed          int64          `json:"claimed"`
	Dispatched       int64          `json:"dispatched"`
	DeadLetters      int64          `json:"dead_letters"` // open, among the newest 10,000 failures
	// DeadLettersExact reports whether DeadLetters counts all open dead letters.
	DeadLettersExact bool `json:"dead_letters_exact"`
	// OldestWaiting is how long the oldest due item has been due. Nil if no item is due.
	OldestWaiting *time.Duration `json:"oldest_waiting_ns"`
	Replicas      int64          `json:"replicas"`   // live replicas
	MaxClaims     int            `json:"max_claims"` // W
	Paused        bool           `json:"paused"`
	// PausedSince and PausedBy are since when and by whom all claims have been paused, or max-claims is 0. Nil and empty
	// if neither is so, or if the audit log does not know, as after a change with plain SQL.
	PausedSince *time.Time `json:"paused_since,omitempty"`
	PausedBy    string     `json:"paused_by,omitempty"`
	// IdleQueues is the number of task queues with executions but no poller, WithoutPoller the number of executions on
	// them, and Failing the number of executions whose workflow task fails repeatedly, as of the last look for stalls.
	IdleQueues    int64 `json:"idle_task_queues"`
	WithoutPoller int64 `json:"executions_without_poller"`
	Failing       int64 `json:"executions_failing"`
	// NotifyQueue is the used fraction of the Postgres cluster's notification queue, 0 to 1; see notify.QueueBound.
	NotifyQueue float64 `json:"notification_queue"`
	// Parked is the number of items that cannot be claimed because a trigger or constraint rejects the update, and
	// ParkedFirst the ID and error of the one that was parked first. ParkedFirst is empty if there is none.
	Parked      int64  `json:"parked"`
	ParkedFirst string `json:"parked_first"`
	// Signals is the number of undelivered signals, and OldestSignal the age of the oldest whose turn it is. Nil if none
	// is. SignalsGivenUp is the number of those given up in the last day.
	Signals        int64          `json:"signals_undelivered"`
	OldestSignal   *time.Duration `json:"oldest_signal_ns"`
	SignalsGivenUp int64          `json:"signals_given_up"`
}

// NotifyQueueFills reports whether the notification queue is so full that triggers do not notify.
func (d Depth) NotifyQueueFills() bool { return d.NotifyQueue >= notify.QueueBound }

// IsEstimate reports whether a count of waiting or running items is an estimate from Postgres' statistics.
func IsEstimate(count int64) bool { return count >= depthLimit }

// QueueDepth returns the state of the queue. It waits for no locks.
func (s *Store) QueueDepth(ctx context.Context) (Depth, error) {
	return s.depth(ctx, sql.Text("queue_depth"), depthLimit)
}

func (s *Store) depth(ctx context.Context, statement string, args ...any) (Depth, error) {
	depths, err := postgres.Read[Depth](ctx, s.DB, "read queue depth", statement, args...)
	if err == nil && len(depths) != 1 {
		err = fmt.Errorf("read queue depth: pgdispatch.settings has %d rows, it must have one", len(depths))
	}
	if err != nil {
		return Depth{}, err
	}
	return depths[0], nil
}
