package upgrade

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

const (
	replicas = 3
	// stopTimeout bounds the end of a replica after SIGTERM.
	stopTimeout = 30 * time.Second
	// each is how many items all replicas together start after each step.
	each = 40
	// atOnce is how many items a burst has: several for each worker.
	atOnce = 40
	// tolerated is the longest time without a start that an upgrade may cause on a loaded machine. A healthy one has
	// a start each steady.
	tolerated = 10 * time.Second
)

// replica is a running replica of a build.
type replica struct {
	*process.Process
	build
	admin string
}

// start starts a replica, and returns when it is ready.
func (s *shop) start(b build, number int) *replica {
	s.t.Helper()
	name := fmt.Sprintf("%s-%d", b.name, number)
	p, err := stack.Replica{Name: name, Binary: b.binary, DatabaseURL: s.dispatcher, Temporal: s.temporal.Address(),
		LogPath: filepath.Join(s.dir, name+".log"),
		// Two replicas leave some of W to the third.
		Env: []string{"PGDISPATCH_WORKERS=3", "PGDISPATCH_LEASE=5s", "PGDISPATCH_POLL_INTERVAL=1s",
			"PGDISPATCH_START_TIMEOUT=2s",
			"PGDISPATCH_ADMIN_ADDR=127.0.0.1:0"}}.Start()
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		_ = p.Kill()
		if s.t.Failed() {
			lines := failures.FindAllString(p.Log(), -1)
			s.t.Logf("errors of %s:\n%s", name, strings.Join(lines[:min(len(lines), 10)], "\n"))
		}
	})
	r := &replica{Process: p, build: b}
	r.admin, err = stack.AwaitSaying(s.t.Context(), p, stack.Serving)
	require.NoError(s.t, err)
	s.eventually(func() bool { return s.ready(r) }, name+" is ready")
	return r
}

// failures are the errors that a replica has logged, and expected those of the load, and of a claim or sweep that meets
// a trigger which is being replaced.
var (
	failures = regexp.MustCompile(`(?m)^.*"level":"ERROR".*$`)
	expected = regexp.MustCompile(`workflow definition has no version|Temporal|lock timeout`)
)

// ready reports whether the replica is ready.
func (s *shop) ready(r *replica) bool {
	require.NoError(s.t, r.Alive())
	answer, err := http.Get("http://" + r.admin + "/readyz")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusOK
}

// proceeds waits until each of these replicas has started items since now, and all together some more.
func (s *shop) proceeds(all []*replica) {
	s.t.Helper()
	from := s.now()
	s.eventually(func() bool {
		return one[int](s, "select count(*) from pgdispatch.workflow_execution_queue where dispatched_at > $1", from) >= each
	}, "starts continue")
	for _, r := range all {
		dispatched := func() int { return strings.Count(r.Log(), `"msg":"Dispatched execution"`) }
		before, last := dispatched(), time.Time{}
		s.eventually(func() bool {
			if time.Since(last) > time.Second { // more than the workers of the others can take
				s.burst()
				last = time.Now()
			}
			return dispatched() > before
		}, r.Name+" starts items")
		s.eventually(func() bool { return s.ready(r) }, r.Name+" is ready")
	}
}

// Replicas of the baseline continue while the schema is upgraded and beside new ones; and they are run on it again. All
// of it under load.
func TestAnUpgradeAndADowngradeUnderLoadLoseNothingAndStartNothingTwice(t *testing.T) {
	t.Parallel()
	old, present := both(t)
	s := newShop(t, old)
	all := []*replica{}
	for n := range replicas {
		all = append(all, s.start(old, n))
	}
	ever := append([]*replica{}, all...)
	end := s.load()
	s.proceeds(all)

	from := s.now()
	measured := func(what string) {
		to := s.now()
		pause := s.longestPause(from, to)
		t.Logf("longest time without a start during %s: %s", what, pause.Round(time.Millisecond))
		require.Less(t, pause, tolerated, what)
		from = to
	}
	require.NoError(t, present.pgdispatch(s.url, "migrate", "up"))
	s.proceeds(all)
	measured("the migration")
	for n := range all {
		require.NoError(t, all[n].Stop(stopTimeout))
		all[n] = s.start(present, n)
		ever = append(ever, all[n])
		s.proceeds(all)
	}
	measured("the replacement by new replicas")

	replayed := s.replayLate()
	for n := range all {
		if n == 0 { // its leases expire, and a replica of either version claims the items again
			require.NoError(t, all[n].Kill())
		} else {
			require.NoError(t, all[n].Stop(stopTimeout))
		}
		all[n] = s.start(old, replicas+n)
		ever = append(ever, all[n])
		s.proceeds(all)
		if n > 0 {
			continue
		}
		// Beside replicas of both versions. It must refuse a newer schema; of the same version it may restore its
		// functions.
		if err := old.pgdispatch(s.url, "migrate", "up"); err != nil {
			require.ErrorContains(t, err, "migrate it with the newer pgdispatch")
		}
		s.freezeTemporal()
		s.proceeds(all)
		from = s.now()
	}
	measured("the replacement by old replicas")

	require.NoError(t, end())
	s.checkEnds(replayed)
	s.checkLimits()
	s.checkRuns()
	for _, r := range ever {
		for _, line := range failures.FindAllString(r.Log(), -1) {
			require.Regexp(t, expected, line, r.Name)
		}
	}
}

// freezeTemporal lets starts go unanswered, so that replicas of both versions repeat them.
func (s *shop) freezeTemporal() {
	s.t.Helper()
	require.NoError(s.t, s.temporal.Process().Signal(syscall.SIGSTOP))
	s.eventually(func() bool {
		return one[int](s, "select count(*) from pgdispatch.workflow_execution_queue where stage = 'DOUBT'") > 0
	}, "starts are not answered")
	require.NoError(s.t, s.temporal.Process().Signal(syscall.SIGCONT))
}
