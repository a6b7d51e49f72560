package notify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// QueueBound is the used fraction of the notification queue at which triggers stop notifying. When the queue is full,
// every commit that notifies fails. See sql/notify/gate.sql.
const QueueBound = 0.1

// FindHolder is the query with which an administrator finds the session that keeps Postgres from emptying the
// notification queue, in one line.
var FindHolder = oneLine(sql.Text("notify_sessions"))

// oneLine returns a statement without its comments.
func oneLine(statement string) string {
	var words []string
	for line := range strings.Lines(statement) {
		if !strings.HasPrefix(line, "--") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.Join(words, " ")
}

// Holder is a session that may keep Postgres from emptying the notification queue.
type Holder struct {
	PID                         int
	Role, Database, Application string
	Age                         time.Duration // of its transaction
}

// String describes the session and how to end it.
func (h Holder) String() string {
	return fmt.Sprintf("pid %d, role %q, database %q, application %q, "+
		"in one transaction for %s: `select pg_terminate_backend(%d)`",
		h.PID, h.Role, h.Database, h.Application, h.Age.Round(time.Second), h.PID)
}

// QueueHolder returns the session with the oldest transaction in the cluster. Nil if this role cannot tell which that
// is: an administrator runs FindHolder.
func QueueHolder(ctx context.Context, db postgres.Conn) (*Holder, error) {
	holders, err := postgres.Read[Holder](ctx, db, "find the session that holds the notification queue",
		sql.Text("notify_holder"))
	if err != nil || len(holders) == 0 {
		return nil, err
	}
	return &holders[0], nil
}
