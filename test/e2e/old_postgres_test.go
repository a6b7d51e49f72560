package e2e

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate/doctor"
)

// oldPostgres is the address of a server that calls itself Postgres 14, and says nothing after its greeting.
func oldPostgres(t *testing.T) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				backend := pgproto3.NewBackend(conn, conn)
				if _, err := backend.ReceiveStartupMessage(); err != nil {
					return
				}
				backend.Send(&pgproto3.AuthenticationOk{})
				backend.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "14.23"})
				backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				if backend.Flush() == nil {
					_, _ = backend.Receive()
				}
			}()
		}
	}()
	return "postgres://postgres@" + listener.Addr().String() + "/postgres?sslmode=disable"
}

func TestAnOldPostgresIsRefusedWithItsVersionAndARemedy(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, url: oldPostgres(t)}
	const refusal = "Postgres 14.23 is too old for pgdispatch: upgrade the server to Postgres 15 or newer"
	for _, args := range [][]string{{"migrate", "up"}, {"migrate", "status"}, {"status"}, {"run"}} {
		_, errs, code := d.tries(args...)
		require.Equal(t, 1, code, "%q", args)
		require.Contains(t, errs, refusal, "%q", args)
	}
	found, code := d.diagnosis("--temporal-address", nowhere)
	require.Equal(t, 1, code)
	require.Equal(t, doctor.Finding{Check: "postgres version", Severity: doctor.Problem, Finding: "14.23",
		Meaning: "pgdispatch uses features that this version lacks.",
		Remedy:  "Upgrade the server to Postgres 15 or newer."}, found["postgres version"])
}
