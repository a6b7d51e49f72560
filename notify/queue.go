package notify

import (
	"context"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// QueueBound is the used fraction of the notification queue at which triggers stop notifying. When the queue is full,
// every commit that notifies fails. See sql/parts/sleeps.sql.
const QueueBound = 0.1

// Holder is a session that may keep Postgres from emptying the notification queue.
type Holder struct {
	PID                         int
	Role, Database, Application string
	Age                         *time.Duration // of its transaction; nil if this role may not see it
}

// String describes the session and how to end it.
func (h Holder) String() string {
	age := ""
	if h.Age != nil {
		age = fmt.Sprintf(", in one transaction for %s", h.Age.Round(time.Second))
	}
	return fmt.Sprintf("pid %d, role %q, database %q, application %q%s: `select pg_terminate_backend(%d)`", h.PID, h.Role,
		h.Database, h.Application, age, h.PID)
}

// QueueHolder returns the session with the oldest transaction in the cluster. Nil if no other session is in a
// transaction.
func QueueHolder(ctx context.Context, db postgres.Conn) (*Holder, error) {
	holders, err := postgres.Read[Holder](ctx, db, "find the session that holds the notification queue",
		sql.Text("notify_holder"))
	if err != nil || len(holders) == 0 {
		return nil, err
	}
	return &holders[0], nil
}
