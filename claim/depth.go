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
// say, and never less than 10,000. DeadLetters ends there.
type Depth struct {
	Pending     int64 // due or not
	Claimed     int64
	Dispatched  int64
	DeadLetters int64 // that nobody has seen to
	// OldestWaiting is how long the item has been due that has been due longest; nil: none is.
	OldestWaiting *time.Duration
	Replicas      int64 // that live
	MaxClaims     int   // W
	Paused        bool
	// IdleQueues are task queues with executions and without a poller, WithoutPoller the executions on them; Failing are
	// executions whose workflow task fails again and again. As the last look found them.
	IdleQueues, WithoutPoller, Failing int64
}

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
