package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// severally enqueues items of several namespaces in rotation.
func (d *desk) severally(items int, namespaces ...string) {
	d.Namespaces = func() []string { return namespaces }
	for range items {
		for _, namespace := range namespaces {
			d.enqueueItem(claim.Item{MaxAttempts: 3, Namespace: namespace})
		}
	}
}

// startsOf answers and counts the starts of each namespace.
func (d *desk) startsOf(answer func(namespace string) error) map[string]int {
	counted := map[string]int{}
	d.onStart = func(_ context.Context, item claim.Item) (string, error) {
		time.Sleep(time.Millisecond)
		d.mu.Lock()
		defer d.mu.Unlock()
		counted[item.Namespace]++
		return "run-" + item.ExecutionID, answer(item.Namespace)
	}
	return counted
}

// startsButOf counts starts as startsOf does. Those of namespace bad fail with this error until a time.
func (d *desk) startsButOf(err error, until time.Duration) map[string]int {
	return d.startsOf(func(namespace string) error {
		if namespace == "bad" && d.now() < until {
			return err
		}
		return nil
	})
}

func TestOnlyTheNamespaceThatTakesNothingWaits(t *testing.T) {
	bubbles(t, 4, map[string]error{
		"missing":    serviceerror.NewNamespaceNotFound("bad"),
		"forbidden":  serviceerror.NewPermissionDenied("not yours", ""),
		"unanswered": serviceerror.NewUnavailable("no hosts are available"),
	}, func(t *testing.T, d *desk, err error) {
		const outage = 10 * time.Minute
		observer := d.observed()
		d.severally(50, "good", "bad")
		starts := d.startsButOf(err, outage)
		stop := d.run()
		looptest.Pass(time.Second)
		require.Len(t, d.seen().reported, 50, "the others continue at full speed")
		looptest.Pass(outage - 2*time.Second)
		require.Len(t, d.seen().reported, 50)
		require.Less(t, starts["bad"], int(outage/(2*time.Second)), "probes have growing pauses")
		for _, s := range d.settlements() {
			require.Contains(t, []claim.Verb{claim.Dispatched, claim.Release}, s.Verb, "no failure is counted")
		}
		require.Len(t, d.log.At(slog.LevelError), 1, "one outage is logged once")
		require.Equal(t, "bad",
			d.log.Value("Temporal does not accept workflows; pausing starts and probing. Items stay queued and no attempt "+
				"is counted", "namespace"))
		require.Less(t, len(d.seen().claims), 2*int(outage/time.Second), "waiting items are not claimed repeatedly")
		looptest.Pass(time.Second + probeCap*12/10 + 100*time.Millisecond)
		require.Len(t, d.seen().reported, 100, "starts resume after at most the longest pause")
		stop()
		require.NotContains(t, observer.breaker, true, "some namespace always accepted starts")
	})
}

// A starting replica may meet a namespace that accepts nothing before it knows of others.
func TestANamespaceThatTookNothingBeforeOthersWereKnownIsSaidToOnce(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.severally(10, "bad", "good")
		d.Namespaces = func() []string {
			if d.now() < 10*time.Second {
				return nil
			}
			return []string{"bad", "good"}
		}
		starts := d.startsButOf(serviceerror.NewNamespaceNotFound("bad"), time.Hour)
		d.run()
		looptest.Pass(time.Minute)
		require.Len(t, d.seen().reported, 10, "the others continue")
		require.Len(t, d.log.At(slog.LevelError), 1, "one outage is logged once")
		require.Less(t, starts["bad"], 40, "probes have growing pauses")
		remedy := d.log.Value("Temporal does not accept workflows; pausing starts and probing. Items stay queued and no "+
			"attempt is counted", "remedy")
		require.Contains(t, remedy, `temporal operator namespace create --namespace "bad"`)
		require.Contains(t, remedy, "workflow_definitions.namespace")
	})
}

// If no namespace accepts starts, only probes are claimed, as with one namespace.
func TestAnOutageOfTheWholeServerStopsAllNamespaces(t *testing.T) {
	type row struct {
		err    error
		probed int // namespaces
	}
	bubbles(t, 4, map[string]row{
		"unreached":  {temporal.As(engine.Unreached, errors.New("connection refused")), 1},
		"unanswered": {serviceerror.NewUnavailable("connection reset"), 2},
	}, func(t *testing.T, d *desk, c row) {
		const outage = 10 * time.Minute
		observer := d.observed()
		d.severally(25, "a", "b")
		d.onStart = d.failsWith(c.err, outage)
		d.run()
		looptest.Pass(outage - time.Second)
		seen := d.seen()
		require.Less(t, len(seen.claims), c.probed*int(outage/(2*time.Second)), "it pauses between probes")
		for n, probe := range seen.claims[3:] {
			require.LessOrEqual(t, probe.atMost, 2, "claim %d: at most one of each", n)
		}
		require.Empty(t, seen.reported)
		require.True(t, observer.pausedAll())
		looptest.Pass(time.Second + probeCap*12/10 + 100*time.Millisecond)
		require.Len(t, d.seen().reported, 50)
		require.False(t, observer.pausedAll())
		require.NotContains(t, d.verbs(), claim.Retry)
	})
}

func TestANamespaceThatAProbeFindsRefusedIsPausedThoughNoItemWaits(t *testing.T) {
	type row struct {
		inUse  []string
		paused int
		all    bool
	}
	bubbles(t, 2, map[string]row{
		"the only one":        {[]string{"own"}, 1, true},
		"with its activities": {[]string{"own", claim.ActivitiesOf("own")}, 2, true},
		"beside another":      {[]string{"own", "other"}, 1, false},
	}, func(t *testing.T, d *desk, row row) {
		observer := d.observed()
		d.PollInterval = time.Second
		d.Namespaces = func() []string { return row.inUse }
		d.RefusedNamespace = func() string {
			if d.now() < time.Minute {
				return "own"
			}
			return ""
		}
		d.run()
		looptest.Pass(50 * time.Second)
		paused, all := observer.pauses()
		require.Equal(t, row.all, all)
		require.Equal(t, row.paused, paused)
		looptest.Pass(11 * time.Second)
		paused, all = observer.pauses()
		require.False(t, all)
		require.Zero(t, paused)
	})
}

// With a single namespace, claims skip the costly check of namespaces.
func TestOneNamespaceIsNeverLimitedInTheClaim(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.severally(50, "only")
		d.startsOf(func(string) error {
			switch at := d.now(); {
			case at < 10*time.Second:
				return serviceerror.NewNamespaceNotFound("only")
			case at < 30*time.Second:
				return tooMuch
			}
			return nil
		})
		d.run()
		looptest.Pass(2 * time.Minute)
		require.Len(t, d.seen().reported, 50)
		for _, limits := range d.seen().limits {
			require.Nil(t, limits)
		}
	})
}

func TestEachNamespaceHasARateOfItsOwn(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.severally(400, "fast", "slow")
		slow, fast := &rationed{limit: 20, burst: 20, at: time.Now()}, 0
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			if item.Namespace == "slow" {
				return slow.start(ctx, item)
			}
			time.Sleep(ms)
			d.mu.Lock()
			defer d.mu.Unlock()
			fast++
			return "run", nil
		}
		d.run()
		looptest.Pass(time.Second)
		require.Equal(t, 400, fast, "the namespace without a limit is not slowed down")
		looptest.Pass(40 * time.Second)
		calls, taken := slow.seen()
		require.EqualValues(t, 400, taken, "the other approaches its limit of 20 per second")
		require.Less(t, calls, 450.0, "few of its starts are rejected")
		require.NotEmpty(t, d.log.At(slog.LevelWarn))
		for _, message := range d.log.At(slog.LevelWarn) {
			require.True(t, strings.HasPrefix(message, "Temporal limits the rate of starts"), message)
		}
	})
}

// Until others are known, one namespace counts as all. Namespaces that become known later are released.
func TestANamespaceThatIsNewIsNotHeldUpByTheOnlyOneBefore(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		d.severally(10, "bad")
		d.startsButOf(serviceerror.NewNamespaceNotFound("bad"), time.Hour)
		inUse := []string{"bad"}
		d.Namespaces = func() []string {
			d.mu.Lock()
			defer d.mu.Unlock()
			return inUse
		}
		d.run()
		looptest.Pass(time.Minute)
		d.mu.Lock()
		inUse = []string{"bad", "good"}
		d.mu.Unlock()
		for range 10 {
			d.enqueueItem(claim.Item{MaxAttempts: 3, Namespace: "good"})
		}
		d.rings(WakeNotification)
		looptest.Pass(probeCap*12/10 + 100*time.Millisecond)
		require.Len(t, d.seen().reported, 10)
		require.Len(t, d.log.At(slog.LevelError), 1, "one outage is logged once")
	})
}

func TestNamespaces_AllowNothingWhereManyExecutionsAreMissing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	vanished := []string{"a", "a activities"}
	s := namespaces{inUse: func() []string { return []string{"a"} }, vanished: func() []string { return vanished }}
	require.Zero(t, s.allows(now, 5, 5, true).AtMost, "the only namespace")
	paused, all := s.paused(now)
	require.Equal(t, 1, paused)
	require.True(t, all)

	s.inUse = func() []string { return []string{"a", "b"} }
	wanted := s.allows(now, 5, 5, true)
	require.Equal(t, 5, wanted.AtMost)
	require.Equal(t, map[string]int{"a": 0, "a activities": 0}, wanted.Namespaces)
	_, all = s.paused(now)
	require.False(t, all)

	vanished = nil
	require.Equal(t, claim.Wanted{AtMost: 5}, s.allows(now, 5, 5, true))
}
