package e2e

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// asksOf calls a frontend that rejects everything, and returns the error.
func asksOf(t *testing.T, connection client.Client) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := connection.WorkflowService().DescribeNamespace(ctx,
		&workflowservice.DescribeNamespaceRequest{Namespace: "shop"})
	require.Error(t, err)
	return err.Error()
}

// Not parallel: Temporal's own configuration comes from the process's environment.
func TestAnAPIKeyAndCertificatesAreRotatedWithoutARestart(t *testing.T) {
	a := newAuthority(t)
	a.issue("replica")
	address, heard, stop := frontendAt(t, a.server(true), "127.0.0.1:0")
	key := file(t, "key", "first\n")
	for name, value := range map[string]string{
		"TEMPORAL_API_KEY_FILE": key, "TEMPORAL_TLS_SERVER_NAME": "temporal.internal",
		"TEMPORAL_TLS_SERVER_CA_CERT_PATH": a.path("ca.pem"),
		"TEMPORAL_TLS_CLIENT_CERT_PATH":    a.path("replica.pem"), "TEMPORAL_TLS_CLIENT_KEY_PATH": a.path("replica.key"),
	} {
		t.Setenv(name, value)
	}
	connection, _, err := temporal.Target{Address: address}.Dial(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer connection.Close()
	require.Contains(t, asksOf(t, connection), "not now")
	require.Equal(t, []string{"Bearer first"}, (<-heard).Get("authorization"))
	require.NoError(t, os.WriteFile(key, []byte("second"), 0o600))
	await(t, 20*time.Second, func() bool {
		_ = asksOf(t, connection)
		return strings.Join((<-heard).Get("authorization"), "") == "Bearer second"
	}, "the new key is sent")

	stop()
	other := newAuthority(t)
	other.issue("replica")
	for _, name := range []string{"ca.pem", "replica.pem", "replica.key"} {
		text, err := os.ReadFile(other.path(name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(a.path(name), text, 0o600))
	}
	_, _, _ = frontendAt(t, other.server(true), address)
	await(t, 20*time.Second, func() bool { return strings.Contains(asksOf(t, connection), "not now") },
		"the same client trusts another authority and the server trusts its new certificate")

	t.Setenv("TEMPORAL_API_KEY_FILE", "/nowhere")
	require.ErrorContains(t, temporal.Target{Address: address}.Verify(), `TEMPORAL_API_KEY_FILE is "/nowhere"`)
	t.Setenv("TEMPORAL_API_KEY", "of the variable")
	require.NoError(t, temporal.Target{Address: address}.Verify(), "the variable takes precedence")
}

func TestSIGHUPReloadsWhatItCanAndNamesTheRest(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	settings := file(t, "pgdispatch.yaml", "workers: 10\n")
	token := file(t, "token", adminToken)
	p := s.replica("PGDISPATCH_CONFIG="+settings, "PGDISPATCH_ADMIN_TOKEN_FILE="+token, anyPort).ready()
	code := func(password string) int {
		code, _ := p.asks(password, "/ui/", nil)
		return code
	}
	require.Equal(t, http.StatusOK, code(adminToken))
	reload := func(text, newToken string) {
		t.Helper()
		require.NoError(t, os.WriteFile(settings, []byte(text), 0o600))
		require.NoError(t, os.WriteFile(token, []byte(newToken), 0o600))
		require.NoError(t, p.Signal(syscall.SIGHUP))
	}
	logs := func(line string) {
		t.Helper()
		await(t, 20*time.Second, func() bool { return strings.Contains(p.Log(), line) }, "%s", line)
	}

	const rotated = "another0123456789"
	reload("workers: 20\nlease: 1m\nlog_level: debug\n", rotated)
	logs(`"msg":"Cannot reload these settings: each needs a restart","replica":"` + replicaOf(p) +
		`","settings":["workers","lease"]`)
	logs(`"msg":"Reloaded the configuration","replica":"` + replicaOf(p) +
		`","changed":["admin-token","log-level: INFO to DEBUG"]`)
	require.Equal(t, http.StatusOK, code(rotated))
	require.Equal(t, http.StatusUnauthorized, code(adminToken))
	require.NotContains(t, p.Log(), rotated)
	s.enqueue("PRO", "Echo", 1)
	logs(`"level":"DEBUG"`)

	reload("workers: many\nlog_level: error\n", adminToken)
	logs(`"msg":"Cannot reload the configuration: nothing was changed"`)
	require.Contains(t, p.Log(), `is \"many\": it must be a whole number from 1 to 1000`)
	require.Equal(t, http.StatusOK, code(rotated))
	reload("log_level: error\n", rotated)
	logs(`"changed":["log-level: DEBUG to ERROR"]`)
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())
	require.False(t, p.has("Stopped"), "only errors are logged")
}

// A replica that waits for Postgres also reloads, and detects new certificates for Postgres.
func TestSIGHUPNoticesCertificatesEvenBeforePostgresAnswers(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // which never answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	s := &stack{t: t, url: "postgres://app@" + listener.Addr().String() + "/shop?sslmode=verify-ca&sslrootcert=" +
		a.path("ca.pem"), temporal: nowhere}
	p := s.replica()
	await(t, 20*time.Second, func() bool { return p.has("Starting") }, "the replica starts")
	text, err := os.ReadFile(filepath.Join(other.dir, "ca.pem"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.path("ca.pem"), text, 0o600))
	require.NoError(t, p.Signal(syscall.SIGHUP))
	await(t, 20*time.Second, func() bool {
		return strings.Contains(p.Log(),
			`"changed":["certificates for Postgres"]`)
	}, "the new certificates are detected")
}

// replicaOf returns the replica's name from its log.
func replicaOf(p *replica) string {
	_, rest, _ := strings.Cut(p.Log(), `"replica":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
