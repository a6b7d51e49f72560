package claim

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// gateTimeout bounds each statement of the gate's session. It is longer than the session's lock_timeout.
	gateTimeout = 2 * time.Second
	// GateLockTimeout is the lock_timeout that the gate's session is to have: how long Shut waits at a time.
	GateLockTimeout = 50 * time.Millisecond
)

// Session is the gate's own connection: what it has locked is free when it ends, however it ends. It is not safe for
// concurrent use.
type Session struct{ Conn *pgx.Conn }

// TakeDuty makes this session the one on duty, and returns false where another is.
func (s *Session) TakeDuty(ctx context.Context) (bool, error) {
	return one[bool](ctx, s.Conn, gateTimeout, "take duty", sql.GateDuty)
}

// Leave ends duty and opens the gate.
func (s *Session) Leave(ctx context.Context) error {
	return s.exec(ctx, "leave duty", sql.GateLeave)
}

// Shut shuts the gate, and returns false where a transaction that was told it is open has not ended by GateLockTimeout.
// While Shut waits, whoever commits work notifies already.
func (s *Session) Shut(ctx context.Context) (bool, error) {
	err := s.exec(ctx, "shut gate", sql.GateShut)
	if hasCode(err, lockNotAvailable) {
		return false, nil
	}
	return err == nil, err
}

// Open opens the gate.
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
