package e2e

import (
	"io"
	"net/http"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

var servingAt = regexp.MustCompile(`"msg":"Serving health and metrics"[^\n]*"address":"([^"]+)"`)

// readyz asks a replica with an admin address whether it is ready.
func (p *replica) readyz() (int, string) {
	p.t.Helper()
	await(p.t, time.Minute, func() bool { return servingAt.MatchString(p.Log()) }, "it serves its state")
	answer, err := http.Get("http://" + servingAt.FindStringSubmatch(p.Log())[1] + "/readyz")
	require.NoError(p.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	return answer.StatusCode, string(text)
}

// standby returns the same stack on a standby of its server, which follows it.
func (s *stack) standby(primary *sqltest.Cluster) *stack {
	s.t.Helper()
	standby, err := primary.Standby(s.t.Context())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, standby.Stop()) })
	far := *s
	far.url = standby.URL("postgres")
	far.db = sqltest.Pool(s.t, far.url)
	return &far
}

// lags makes a standby of this stack's server follow it no longer.
func (s *stack) lags(far *stack) {
	s.t.Helper()
	far.exec("alter system set primary_conninfo = ''")
	far.exec("select pg_reload_conf()")
	s.eventually(func() bool { return one[int](s, "select count(*)::int from pg_stat_replication") == 0 }, "it lags")
}

// What docs/recovery.md says of an asynchronous standby in another region, which lags behind and is promoted.
func TestAPromotedStandbyThatLostCommitsStartsNothingASecondTime(t *testing.T) {
	t.Parallel()
	primary, url := sqltest.Private(t)
	s := newStackOn(t, url)
	const open = "status in ('PENDING', 'CLAIMED', 'DISPATCHED')"
	near := s.replica().ready()
	held := s.enqueue("PRO", "Hold", 2)
	s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == 2 }, "two run before the standby lags")
	s.exec("update pgdispatch.settings set paused = true")
	waiting := s.enqueue("ENTERPRISE", "Hold", 3)
	far := s.standby(primary)
	require.Equal(t, 3, far.count("status = 'PENDING'"))
	remote := far.replica("PGDISPATCH_ADMIN_ADDR=127.0.0.1:0")
	status, text := remote.readyz()
	require.Equal(t, http.StatusServiceUnavailable, status, text)

	s.lags(far)
	s.exec("update pgdispatch.settings set paused = false")
	lost := s.enqueue("ENTERPRISE", "Hold", 2)
	s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == 7 }, "all run, which the standby is not told")
	epoch := one[string](s, "select id::text from pgdispatch.epoch")
	require.NoError(t, near.Signal(syscall.SIGTERM)) // fenced
	require.Zero(t, near.exit())
	s.db.Close()
	require.NoError(t, primary.Stop())
	status, text = remote.readyz()
	require.Equal(t, http.StatusServiceUnavailable, status, text)

	require.True(t, one[bool](far, "select pg_promote()"))
	far.exec("update pgdispatch.settings set paused = false")
	far.eventually(func() bool { status, _ := remote.readyz(); return status == http.StatusOK }, "it is ready")
	far.eventually(func() bool { return far.count("status = 'DISPATCHED'") == 5 }, "those that it has are handed over")
	require.NotEqual(t, epoch, one[string](far, "select id::text from pgdispatch.epoch"), "a new epoch")
	far.signal(append(append([]string{}, held...), waiting...)...)
	far.eventually(func() bool { return far.count(open) == 0 }, "all end")
	require.Equal(t, 5, far.count("status = 'COMPLETED'"))
	far.requireOneRunEach(append(held, waiting...))
	require.Zero(t, one[int](far,
		"select count(*)::int from pgdispatch.workflow_execution_queue where execution_id = any ($1::uuid[])", lost))
	far.signal(lost...)
	far.requireOneRunEach(lost) // without a row
}

// All open signals on the standby were delivered meanwhile: to a run before the present one, or to a workflow that has
// ended since.
func TestAPromotedStandbyThatLostCommitsRepeatsNoSignalAndGivesNoneUp(t *testing.T) {
	t.Parallel()
	primary, url := sqltest.Private(t)
	s := newStackOn(t, url)
	stop := func(p *replica) {
		require.NoError(t, p.Signal(syscall.SIGTERM))
		require.Zero(t, p.exit())
	}
	first := s.replica().ready()
	relay, ended := s.enqueue("PRO", "Relay", 1)[0], s.enqueue("PRO", "Collect", 1)[0]
	s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == 2 }, "both run")
	s.relayed(relay, "0")
	s.eventually(func() bool {
		return one[int](s, "select count(*)::int from pgdispatch.signals where state = 'DELIVERED'") == 1
	}, "it is settled")
	stop(first)
	for _, value := range []string{"1", "2", "3"} {
		s.exec(add, relay, value)
	}
	s.exec(add, ended, "end")
	far := s.standby(primary)
	s.lags(far)
	second := s.replica().ready()
	s.eventually(func() bool {
		return one[int](s, "select count(*)::int from pgdispatch.signals where state = 'DELIVERED'") == 5
	}, "all are delivered, which the standby is not told")
	require.Empty(t, s.collected(ended))
	stop(second) // fenced
	s.db.Close()
	require.NoError(t, primary.Stop())

	require.True(t, one[bool](far, "select pg_promote()"))
	require.Equal(t, 4, one[int](far, "select count(*)::int from pgdispatch.signals where state = 'OPEN'"))
	far.replica().ready()
	far.exec(add, relay, "4")
	far.exec(add, relay, "end")
	require.Equal(t, numbers(5), far.collected(relay))
	require.Empty(t, far.collected(ended))
	far.eventually(func() bool {
		return one[int](far, "select count(*)::int from pgdispatch.signals where state = 'OPEN'") == 0
	}, "all are settled")
	require.Zero(t, one[int](far, "select count(*)::int from pgdispatch.signals where state = 'GIVEN_UP'"))
}
