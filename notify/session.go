package notify

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// gateTimeout bounds each statement of the gate session.
const gateTimeout = 2 * time.Second

// Session is the connection of the wake-up gate: see sql/notify/gate.sql. Its duty is a session-level advisory lock
// and ends with the connection. A Session is not safe for concurrent use.
type Session struct{ Conn *pgx.Conn }

// TakeDuty tries to put this session on duty. It returns false if another session is on duty.
func (s *Session) TakeDuty(ctx context.Context) (bool, error) {
	return s.value(ctx, "acquire gate duty", sql.Text("gate_duty"))
}

// Leave opens the gate and then ends this session's duty.
func (s *Session) Leave(ctx context.Context) error {
	return s.exec(ctx, "release gate duty", sql.Text("gate_leave"))
}

// Shut shuts the gate: transactions that commit work notify from now on. It returns false while a transaction is in
// progress that read the gate as open, and so will not notify.
func (s *Session) Shut(ctx context.Context) (bool, error) {
	return s.value(ctx, "shut gate", sql.Text("gate_shut"))
}

// Open opens the gate: transactions that commit work no longer notify.
func (s *Session) Open(ctx context.Context) error {
	return s.exec(ctx, "open gate", sql.Text("gate_open"))
}

// Call notifies the other replicas that there is work for them. It does nothing if the notification queue is a tenth
// full.
func (s *Session) Call(ctx context.Context, channel string) error {
	return s.exec(ctx, "wake other replicas", sql.Text("gate_call"), channel)
}

// Ping checks whether the connection is alive.
func (s *Session) Ping(ctx context.Context) error {
	ctx, cancel := postgres.Bound(ctx, gateTimeout, "ping gate")
	defer cancel()
	if err := s.Conn.Ping(ctx); err != nil {
		return postgres.Explain(ctx, s.Conn, "ping gate", err)
	}
	return nil
}

// Close ends the session.
func (s *Session) Close(ctx context.Context) error { return s.Conn.Close(ctx) }

func (s *Session) exec(ctx context.Context, verb, statement string, args ...any) error {
	ctx, cancel := postgres.Bound(ctx, gateTimeout, verb)
	defer cancel()
	return postgres.Exec(ctx, s.Conn, verb, statement, args...)
}

func (s *Session) value(ctx context.Context, verb, statement string) (bool, error) {
	ctx, cancel := postgres.Bound(ctx, gateTimeout, verb)
	defer cancel()
	return postgres.Value[bool](ctx, s.Conn, verb, statement)
}

// PoolPinger implements Pinger on a pool.
type PoolPinger struct{ DB postgres.Conn }

// Ping notifies a channel, to check whether LISTEN still delivers.
func (p *PoolPinger) Ping(ctx context.Context, channel, payload string) error {
	return postgres.Exec(ctx, p.DB, "ping listener", sql.Text("ping"), channel, payload)
}
