package proxy

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

const noted = "-- writes notes\ninsert into pgdispatch_notes values ($1)"

// stepping is a session through the proxy, and one past it.
func stepping(t *testing.T) (*Steps, *Statements, *pgx.Conn, *pgx.Conn) {
	t.Helper()
	config, err := pgx.ParseConfig(sqltest.EmptyURL(t))
	require.NoError(t, err)
	connect := func(config *pgx.ConnConfig) *pgx.Conn {
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	past := connect(config)
	_, err = past.Exec(t.Context(), "create table pgdispatch_notes (n integer)")
	require.NoError(t, err)
	steps := &Steps{Ignore: func(request string) bool { return request == "select" }}
	proxy, err := NewStatements(past.PgConn().Conn().RemoteAddr().String(), steps)
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	through, err := pgx.ParseConfig("postgres://" + proxy.Address + "/" + config.Database + "?sslmode=disable")
	require.NoError(t, err)
	through.User, through.Password = config.User, config.Password
	return steps, proxy, connect(through), past
}

func count(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from pgdispatch_notes").Scan(&n))
	return n
}

func TestStepsAreTheRequestsAndTheirAnswers(t *testing.T) {
	t.Parallel()
	steps, _, conn, _ := stepping(t)
	steps.Record(nil)
	for n := range 2 {
		_, err := conn.Exec(t.Context(), noted, n)
		require.NoError(t, err)
	}
	require.Equal(t, 2, count(t, conn))
	var seen []string
	for _, step := range steps.Seen() {
		seen = append(seen, step.String())
	}
	require.Equal(t, []string{"before writes notes: insert 1", "after writes notes: insert 1",
		"before writes notes: insert 2", "after writes notes: insert 2"}, seen)
}

func TestARequestStopsAtItsStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		answer  bool
		end     func(*Steps, *Statements)
		notes   int // at the step, and at the end
		after   int
		refused bool
	}{
		{"the request goes on", false, func(s *Steps, _ *Statements) { s.Release() }, 0, 1, false},
		{"the answer goes on", true, func(s *Steps, _ *Statements) { s.Release() }, 1, 1, false},
		{"the request is dropped", false, func(s *Steps, _ *Statements) { s.Drop() }, 0, 0, true},
		{"the answer is dropped", true, func(s *Steps, _ *Statements) { s.Drop() }, 1, 1, true},
		{"the session is cut before the request", false, func(_ *Steps, p *Statements) { p.Cut() }, 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steps, proxy, conn, past := stepping(t)
			reached := steps.Record(&Step{Request: "writes notes: insert", Nth: 1, Answer: c.answer})
			done := make(chan error, 1)
			go func() {
				_, err := conn.Exec(t.Context(), noted, 1)
				done <- err
			}()
			select {
			case <-reached:
			case <-time.After(10 * time.Second):
				require.Fail(t, "the step is not reached")
			}
			require.Equal(t, c.notes, count(t, past))
			require.Empty(t, done)
			c.end(steps, proxy)
			require.Equal(t, c.refused, <-done != nil)
			require.Equal(t, c.after, count(t, past))
		})
	}
}
