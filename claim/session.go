package claim

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

// gateTimeout bounds each statement of the gate session.
const gateTimeout = 2 * time.Second

// Session is the connection of the wake-up gate: see sql/functions/wake.sql. Its duty is a session-level advisory lock
// and ends with the connection. A Session is not safe for concurrent use.
type Session struct{ Conn *pgx.Conn }

// TakeDuty tries to put this session on duty. It returns false if another session is on duty.
func (s *Session) TakeDuty(ctx context.Context) (bool, error) {
	return one[bool](ctx, s.Conn, gateTimeout, "take duty", sql.GateDuty)
}

// Leave opens the gate and then ends this session's duty.
func (s *Session) Leave(ctx context.Context) error {
	return s.exec(ctx, "leave duty", sql.GateLeave)
}

// Shut shuts the gate: transactions that commit work notify from now on. It returns false while a transaction is in
// progress that read the gate as open, and so will not notify.
func (s *Session) Shut(ctx context.Context) (bool, error) {
	return one[bool](ctx, s.Conn, gateTimeout, "shut gate", sql.GateShut)
}

// Open opens the gate: transactions that commit work no longer notify.
func (s *Session) Open(ctx context.Context) error {
	return s.exec(ctx, "open gate", sql.GateOpen)
}

// Call notifies the other replicas that there is work for them. It does nothing if the notification queue is a tenth
// full.
func (s *Session) Call(ctx context.Context, channel string) error {
	return s.exec(ctx, "call other replicas", sql.GateCall, channel)
}

// Ping checks whether the connection is alive.
func (s *Session) Ping(ctx context.Context) error {
	ctx, cancel := bounded(ctx, gateTimeout, "ping gate")
	defer cancel()
	if err := s.Conn.Ping(ctx); err != nil {
		return named(ctx, s.Conn, "ping gate", err)
	}
	return nil
}

// Close ends the session.
func (s *Session) Close(ctx context.Context) error { return s.Conn.Close(ctx) }

func (s *Session) exec(ctx context.Context, verb, statement string, args ...any) error {
	return exec(ctx, s.Conn, gateTimeout, verb, statement, args...)
}
