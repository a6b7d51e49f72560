package claim

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

// gateTimeout bounds each statement of the gate's session.
const gateTimeout = 2 * time.Second

// Session is the gate's own connection: its duty ends with it, however it ends. It is not safe for concurrent use.
type Session struct{ Conn *pgx.Conn }

// TakeDuty makes this session the one on duty, and returns false where another is.
func (s *Session) TakeDuty(ctx context.Context) (bool, error) {
	return one[bool](ctx, s.Conn, gateTimeout, "take duty", sql.GateDuty)
}

// Leave opens the gate and ends the duty that this session has.
func (s *Session) Leave(ctx context.Context) error {
	return s.exec(ctx, "leave duty", sql.GateLeave)
}

// Shut shuts the gate: from now on, whoever commits work notifies. It returns false where a transaction is under way that was told
// before that this is not needed.
func (s *Session) Shut(ctx context.Context) (bool, error) {
	return one[bool](ctx, s.Conn, gateTimeout, "shut gate", sql.GateShut)
}

// Open opens the gate: nobody notifies from now on.
func (s *Session) Open(ctx context.Context) error {
	return s.exec(ctx, "open gate", sql.GateOpen)
}

// Call notifies the other replicas that there is work for them.
func (s *Session) Call(ctx context.Context, channel string) error {
	return s.exec(ctx, "call other replicas", sql.GateCall, channel)
}

// Ping finds out whether the session still lives.
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
