package claim

import (
	"context"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/sql"
)

// depthLimit is how many items of a status are counted, so that what a look costs does not grow with the queue.
const depthLimit = 10_000

// Depth is the queue as a whole, as it is now. Counts of up to 10,000 are exact; above that they are what Postgres' statistics
// say, and never less than 10,000.
type Depth struct {
	Pending     int64 `json:"pending"` // due or not
	Claimed     int64 `json:"claimed"`
	Dispatched  int64 `json:"dispatched"`
	DeadLetters int64 `json:"dead_letters"` // that nobody has seen to, among the newest 10,000 failures
	// DeadLettersExact: there are no others.
	DeadLettersExact bool `json:"dead_letters_exact"`
	// OldestWaiting is how long the item has been due that has been due longest; nil: none is.
	OldestWaiting *time.Duration `json:"oldest_waiting_ns"`
	Replicas      int64          `json:"replicas"`   // that live
	MaxClaims     int            `json:"max_claims"` // W
	Paused        bool           `json:"paused"`
	// IdleQueues are task queues with executions and without a poller, WithoutPoller the executions on them; Failing are
	// executions whose workflow task fails again and again. As the last look found them.
	IdleQueues    int64 `json:"idle_task_queues"`
	WithoutPoller int64 `json:"executions_without_poller"`
	Failing       int64 `json:"executions_failing"`
	// NotifyQueue is how full the notification queue of the Postgres cluster is, 0 to 1; see NotifyBound.
	NotifyQueue float64 `json:"notification_queue"`
	// Parked is how many items wait that a trigger or a constraint of the database lets nobody claim, and ParkedFirst the ID and the
	// error of the one that has been so for longest; "": there is none.
	Parked      int64  `json:"parked"`
	ParkedFirst string `json:"parked_first"`
}

// NotifyBound is how full the notification queue of the Postgres cluster is, of 1, when triggers stop notifying: when it is full,
// every commit that notifies fails. See sql/parts/sleeps.sql.
const NotifyBound = 0.1

// IsEstimate says whether a count of items that wait or run is what the statistics say.
func IsEstimate(count int64) bool { return count >= depthLimit }

// QueueDepth reads the depth, without waiting for anybody.
func (s *Store) QueueDepth(ctx context.Context) (Depth, error) {
	depths, err := read[Depth](ctx, s.async(), "read queue depth", sql.QueueDepth, depthLimit)
	if err == nil && len(depths) != 1 {
		err = fmt.Errorf("read queue depth: pgdispatch.settings has %d rows, it must have one", len(depths))
	}
	if err != nil {
		return Depth{}, err
	}
	return depths[0], nil
}
