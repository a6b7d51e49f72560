package e2e

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadyzFollowsTheDatabaseTheListenerTemporalAndTheEnd(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	proxy := newProxy(t, s.temporal)
	s.temporal = proxy.Address
	s.exec("update pgdispatch.schema_migrations set version = version - 1")
	old := s.replica(anyPort)
	require.Equal(t, 1, old.exit(), "a replica that fails to start exits and frees its port")
	s.exec("update pgdispatch.schema_migrations set version = version + 1")

	p := s.replica(anyPort, "PGDISPATCH_START_TIMEOUT=500ms", "PGDISPATCH_DRAIN_TIMEOUT=2s").ready()
	readyz := func(want string) {
		t.Helper()
		s.eventually(func() bool { _, text := p.get("/readyz"); return strings.Contains(text, want) }, want)
	}
	readyz("ready\n")
	s.exec("update pgdispatch.schema_migrations set version = version - 1")
	readyz("not ready\ndatabase: the schema is at version")
	s.exec("update pgdispatch.schema_migrations set version = version + 1")
	readyz("ready\n")
	proxy.down()
	s.enqueue("PRO", "Echo", 1)
	readyz("not ready\ntemporal: it does not answer")
	s.eventually(func() bool { return sample(p.scrape(), "pgdispatch_breaker_open", "") == 1 }, "starts are paused")
	proxy.up()
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 1 }, "the replica continues")
	readyz("ready\n")

	proxy.freeze()
	s.enqueue("PRO", "Echo", 1)
	s.eventually(func() bool { return s.count("status = 'CLAIMED'") == 1 }, "a start hangs")
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())
}

// As when the functions are of another version.
func TestAReplicaWhoseClaimsFailIsNotReadyAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.exec("alter function pgdispatch.claim rename to claim_of_before")
	s.enqueue("PRO", "Echo", 1)
	p := s.replica(anyPort)
	problem := func() string { _, text := p.get("/readyz"); return text }
	s.eventually(func() bool { return strings.Contains(problem(), "not ready\nclaims: ") }, "claims fail")
	require.Contains(t, problem(), "function pgdispatch.claim(")
	require.Contains(t, problem(), "run `pgdispatch migrate up`")
	s.exec("alter function pgdispatch.claim_of_before rename to claim")
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 1 }, "the replica continues by itself")
	s.eventually(func() bool { return problem() == "ready\n" }, "it is ready again")
}

func TestAReplicaWithNoItemsIsNotReadyWithoutTemporal(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	proxy := newProxy(t, s.temporal)
	s.temporal = proxy.Address
	proxy.down()
	p := s.replica(anyPort, "PGDISPATCH_LEASE=2s")
	problem := func() string { _, text := p.get("/readyz"); return text }
	s.eventually(func() bool {
		return strings.Contains(problem(), "temporal: it does not answer")
	}, "no item is needed to detect it")
	s.eventually(func() bool { return sample(p.scrape(), "pgdispatch_breaker_open", "") == 1 }, "the metric shows it")
	s.eventually(func() bool {
		return one[bool](s, "select exists (select from pgdispatch.replicas where (state->>'breaker_open')::boolean)")
	}, "the replica's state shows it")
	proxy.up()
	s.eventually(func() bool { return problem() == "ready\n" }, "the replica is ready again without an item")
}

func TestAReplicaServesBeforeItHasADatabase(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	s.url = "postgres://postgres:hunter2@" + closed.Addr().String() + "/nowhere"
	p := s.replica(anyPort)
	status, text := p.get("/livez")
	require.Equal(t, http.StatusOK, status, text)
	status, text = p.get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "not ready\ndatabase: not reached yet\n", text)
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())
}

func TestAnAdminAddressThatCannotBeHadIsNamedAtTheStart(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	p := s.replica("PGDISPATCH_ADMIN_ADDR=" + taken.Addr().String())
	require.Equal(t, 1, p.exit())
	require.Contains(t, p.Log(), `PGDISPATCH_ADMIN_ADDR is "`+taken.Addr().String()+
		`": serve health and metrics: listen tcp`)
}

func TestAnOutageOfPostgresIsALineAndItsEndAnother(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	address, err := url.Parse(s.url)
	require.NoError(t, err)
	proxy := newProxy(t, address.Host)
	address.Host = proxy.Address
	s.url = address.String()
	p := s.replica(anyPort, "PGDISPATCH_POLL_INTERVAL=200ms").ready()
	held := s.enqueue("PRO", "Hold", 5)
	s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == len(held) }, "the executions are dispatched")
	before := len(p.Log())
	proxy.down()
	for _, execution := range held {
		s.signal(execution) // its end cannot be recorded
	}
	s.eventually(func() bool {
		return p.has("Postgres does not answer; work continues when it does")
	}, "the outage is logged")
	s.eventually(func() bool {
		status, _ := p.get("/readyz")
		return status == http.StatusServiceUnavailable
	}, "the replica is not ready")
	proxy.up()
	s.eventually(func() bool { return p.has("Postgres answers again") }, "recovery logged")
	outage := p.Log()[before:]
	require.Equal(t, 1, strings.Count(outage, `"level":"WARN"`)+strings.Count(outage, `"level":"ERROR"`), outage)
	require.Regexp(t, `"msg":"Postgres answers again","replica":"[^"]+","after_ms":\d+,"error":"[^"]+","remedy":"`, outage)
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == len(held) }, "the ends are recorded")
}
