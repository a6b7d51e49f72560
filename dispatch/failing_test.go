package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// failsWith returns an onStart that fails until a time, and succeeds from then on.
func (d *desk) failsWith(err error, until time.Duration) func(context.Context, claim.Item) (string, error) {
	return func(_ context.Context, item claim.Item) (string, error) {
		time.Sleep(time.Millisecond)
		if d.now() < until {
			return "", err
		}
		return "run-" + item.ExecutionID, nil
	}
}

func TestOutageIsProbedByOneItemAndBurnsNoAttempts(t *testing.T) {
	type row struct {
		err  error
		said string
	}
	bubbles(t, 4, map[string]row{
		"unanswered": {serviceerror.NewUnavailable("connection refused"), "release unanswered: "},
		"blocked":    {serviceerror.NewPermissionDenied("not yours", ""), "release: "},
	}, func(t *testing.T, d *desk, c row) {
		const outage = 10 * time.Minute
		d.enqueue(50)
		d.onStart = d.failsWith(c.err, outage)
		d.run()
		looptest.Pass(outage - time.Second)

		require.Less(t, len(d.seen().claims), int(outage/(2*time.Second)), "it pauses between probes")
		for n, probe := range d.seen().claims {
			if probe.at > 10*time.Millisecond { // by then several items have failed
				require.Equal(t, 1, probe.atMost, "claim %d", n)
			}
		}
		require.Empty(t, d.seen().reported)
		for _, s := range d.settlements() {
			require.Contains(t, said(s), c.said)
			require.Contains(t, s.Error, c.err.Error())
		}
		require.Len(t, d.log.At(slog.LevelError), 1, "one outage is logged once")

		looptest.Pass(time.Second + probeCap*12/10 + 100*time.Millisecond)
		require.Len(t, d.seen().reported, 50, "starts resume after at most the longest pause")
		require.Contains(t, d.log.At(slog.LevelInfo), "Temporal accepts workflows again; resuming starts")
		require.NotContains(t, d.verbs(), claim.Retry)
		require.NotContains(t, d.verbs(), claim.Fail)
	})
}

func TestOutageIsNotProbedWhileAStartIsUnderWay(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(10)
		d.onStart = func(ctx context.Context, item claim.Item) (string, error) {
			if item.ID == 1 {
				return starts(4*time.Second)(ctx, item)
			}
			return "", serviceerror.NewUnavailable("connection refused")
		}
		d.run()
		looptest.Pass(3900 * time.Millisecond)
		require.Len(t, d.seen().claims, several, "so many items show that it is an outage")
		looptest.Pass(200 * time.Millisecond)
		require.Greater(t, len(d.seen().claims), several, "its success shows that Temporal is reachable")
	})
}

func TestWhileTemporalAnswersNothingNoItemIsTriedToFindOut(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		const outage = 2 * probeRarely
		var reached atomic.Bool
		d.Reached = reached.Load
		d.enqueue(5)
		d.onStart = d.failsWith(serviceerror.NewUnavailable("connection refused"), outage)
		d.run()
		looptest.Pass(probeRarely - time.Second)
		require.Len(t, d.seen().claims, 1, "only the claim whose start failed")
		looptest.Pass(2 * time.Second)
		require.Len(t, d.seen().claims, 2, "starts may work though the probe is not answered")
		looptest.Pass(outage - probeRarely)
		reached.Store(true)
		looptest.Pass(2*probeBase + 10*time.Millisecond)
		require.Len(t, d.seen().reported, 5, "an answered probe ends the pause")
	})
}

func TestDispatcher_DoesNotWaitAfterAnOutageForAStartThatHangs(t *testing.T) {
	bubble(t, 4, func(t *testing.T, d *desk) {
		const outage = probeRarely + 7*time.Second // an item is being tried as it ends
		var answered atomic.Int64
		d.Reached = func() bool { return answered.Load() != 0 }
		d.Answered = func() time.Time { return time.Unix(0, answered.Load()) }
		d.StartTimeout = 5 * time.Second
		d.enqueue(10)
		d.onStart = func(ctx context.Context, _ claim.Item) (string, error) {
			if d.now() < outage {
				<-ctx.Done()
				return "", serviceerror.NewUnavailable("no answer")
			}
			return "run", nil
		}
		d.run()
		looptest.Pass(outage)
		require.Len(t, d.seen().claims, 2)

		looptest.Pass(time.Millisecond)
		answered.Store(time.Now().UnixNano())
		d.rings("resume")
		looptest.Pass(2*probeBase + 10*time.Millisecond)
		require.Len(t, d.seen().reported, 9, "all but the one that hangs until its timeout")
		looptest.Pass(d.StartTimeout)
		require.Len(t, d.seen().reported, 10)
	})
}

func TestAnAnswerToAProbeEndsAReportedOutageWithoutAnItem(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		observer, answered := d.observed(), atomic.Int64{}
		d.PollInterval = time.Second
		d.Answered = func() time.Time { return time.Unix(0, answered.Load()) }
		d.enqueue(several)
		d.onStart = func(context.Context, claim.Item) (string, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			clear(d.leased) // another replica takes it
			return "", serviceerror.NewUnavailable("connection refused")
		}
		d.onSettle = func(_ claim.Verb, batch []claim.Settlement) ([]int64, error) { return idsOf(batch), nil }
		d.run()
		looptest.Pass(quietAfter + 2*time.Second)
		require.True(t, observer.pausedAll(), "no call has been answered")
		answered.Store(time.Now().UnixNano())
		looptest.Pass(2 * time.Second)
		require.False(t, observer.pausedAll())
	})
}

func TestAReplicaThatDoesNotReachTemporalLeavesDutyToAnother(t *testing.T) {
	gatedBubble(t, 2, func(t *testing.T, d *desk, g *fakeGate) {
		var reached atomic.Bool
		d.Reached = reached.Load
		d.enqueue(1)
		d.onStart = d.failsWith(serviceerror.NewUnavailable("connection refused"), time.Hour)
		d.run()
		looptest.Pass(time.Second / 2)
		require.Equal(t, []string{"sleep", "busy"}, g.seen())
		reached.Store(true)
		looptest.Pass(probeBase + 10*time.Millisecond)
		require.Equal(t, []string{"sleep", "busy", "sleep"}, g.seen(), "it may start again and asks to be notified")
	})
}

func TestFailureOfTheItemsOwnIsRetriedUpToMaxAttempts(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(20)
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			switch item.ID {
			case 1:
				return "", temporal.As(engine.Retryable, errors.New("it broke"))
			case 2:
				return "", serviceerror.NewInvalidArgument("no such thing")
			}
			return "run", nil
		}
		d.run()
		synctest.Wait()
		require.Len(t, d.seen().reported, 18, "they are not held up")
		looptest.Pass(time.Minute)
		var at []time.Duration
		var verbs []claim.Verb
		for _, s := range d.seen().settles {
			if s.batch[0].ID == 1 {
				at, verbs = append(at, s.at), append(verbs, s.verb)
			}
		}
		require.Equal(t, []claim.Verb{claim.Retry, claim.Retry, claim.Fail}, verbs)
		require.InDelta(t, 1025*ms, at[1]-at[0], float64(225*ms))
		require.InDelta(t, 2025*ms, at[2]-at[1], float64(425*ms))
		start, counted := "Failed to start Temporal workflow", "Error processing queue item"
		require.ElementsMatch(t, []string{start, counted, start, counted, start, counted, start, counted},
			d.log.At(slog.LevelError))
	})
}

// On a server that is overloaded, a start that is sent again meets the one before it.
func TestABusyWorkflowIsAskedForAgainAndNothingIsCounted(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueue(2)
		busy := serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "busy")
		d.onStart = d.failsWith(busy, 9*time.Second)
		d.run()
		looptest.Pass(time.Minute)
		verbs := d.verbs()
		require.Equal(t, []claim.Verb{claim.Dispatched, claim.Dispatched}, verbs[len(verbs)-2:])
		for _, s := range d.settlements()[:len(verbs)-2] {
			require.Equal(t, claim.Release, s.Verb)
			require.True(t, s.Unanswered, "it keeps its slot")
			require.GreaterOrEqual(t, s.Delay, 800*time.Millisecond)
		}
		require.LessOrEqual(t, len(verbs), 2*(9+4), "about once a second for each")
		for _, text := range d.log.At(slog.LevelError) {
			require.NotContains(t, text, "pausing", "the others are not delayed")
		}
	})
}

func TestProblemFailsTheItemWithoutAskingTemporal(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueueItem(claim.Item{Problem: "workflow definition not found"})
		d.onStart = func(context.Context, claim.Item) (string, error) { panic("asked") }
		d.onFind = func(context.Context, claim.Item) (string, bool, error) { return "run-there", true, nil }
		d.run()
		synctest.Wait()
		require.Len(t, d.verbs(), 1)
		require.Equal(t, "fail: workflow definition not found", said(d.settlements()[0]), "it is not looked for either")
		require.Equal(t, []string{"Workflow definition not found"}, d.log.At(slog.LevelWarn))
	})
}

func TestProblem_OfHiddenRowsGivesTheItemBack(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *desk) {
		d.enqueueItem(claim.Item{Problem: claim.RowsHidden})
		d.onStart = func(context.Context, claim.Item) (string, error) { panic("asked") }
		d.run()
		synctest.Wait()
		settled := d.settlements()[0]
		require.Equal(t, claim.Release, settled.Verb)
		require.Equal(t, hiddenDelay, settled.Delay)
		require.False(t, settled.Unanswered)
		require.Equal(t, []string{"Row level security hides rows; the item is given back"}, d.log.At(slog.LevelError))
	})
}

func TestPanicInStartIsContainedAndRetriedAsUnknown(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.enqueue(2)
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			if item.ID == 1 {
				panic("boom")
			}
			return "run", nil
		}
		d.onFind = func(context.Context, claim.Item) (string, bool, error) { return "", false, nil }
		d.run()
		synctest.Wait()
		require.Equal(t, "retry unanswered: panic: boom", said(d.settlements()[0]))
		require.Equal(t, []string{"e2=run"}, d.seen().reported)
		require.Equal(t, "boom", d.log.Value("Panic while dispatching a queue item", "panic"))
		require.Contains(t, d.log.Value("Panic while dispatching a queue item", "stack"), "failing_test.go")

		looptest.Pass(time.Minute + missingFor)
		require.Equal(t, []claim.Verb{claim.Retry, claim.Dispatched, claim.Retry, claim.Fail},
			slices.DeleteFunc(d.verbs(), func(verb claim.Verb) bool { return verb == claim.Release }))
	})
}

func TestItemThatMayBeRunningIsLookedForBeforeItFails(t *testing.T) {
	const gone = claim.Problem("workspace not found")
	there := func() (string, bool, error) { return "run-there", true, nil }
	nowhere := func() (string, bool, error) { return "", false, nil }
	type row struct {
		problem claim.Problem // none: Temporal may have forgotten it
		missing time.Duration // for how long it was not found before
		find    func() (string, bool, error)
		said    string
	}
	bubbles(t, 1, map[string]row{
		"found":           {gone, 0, there, "dispatched: "},
		"found at last":   {gone, time.Hour, there, "dispatched: "},
		"not found once":  {gone, 0, nowhere, "release unanswered: "},
		"not found since": {gone, missingFor - 1, nowhere, "release unanswered: "},
		"not there":       {gone, missingFor, nowhere, "fail: workspace not found"},
		"no answer": {gone, time.Hour, func() (string, bool, error) {
			return "", false, serviceerror.NewUnavailable("connection refused")
		}, "release unanswered: connection refused"},
		"panic": {gone, time.Hour, func() (string, bool, error) { panic("boom") },
			"retry unanswered: panic: boom"},
		"forgotten, but there":     {"", time.Hour, there, "dispatched: "},
		"forgotten, and not found": {"", 0, nowhere, "release unanswered: "},
		"forgotten, and not there": {"", missingFor, nowhere, "fail: " + temporal.ErrForgotten.Error()},
	}, func(t *testing.T, d *desk, c row) {
		d.enqueueItem(claim.Item{Unanswered: true, UnansweredFor: time.Second, Problem: c.problem, MaxAttempts: 3,
			MissingFor: c.missing})
		d.onStart = func(context.Context, claim.Item) (string, error) {
			return "", temporal.As(engine.Forgotten, temporal.ErrForgotten)
		}
		d.onFind = func(context.Context, claim.Item) (string, bool, error) { return c.find() }
		d.run()
		synctest.Wait()
		s := d.settlements()[0]
		require.Equal(t, c.said, said(s))
		if s.Verb == claim.Dispatched {
			require.Equal(t, "run-there", s.RunID)
			require.Equal(t, []string{"e1=run-there"}, d.seen().reported)
		}
	})
}

// A failover of Temporal that lags finds no workflow for some seconds, and a client that is connected to it must not
// take that for the truth. Its answers do not count as accepted starts either.
func TestDispatcher_FailsAnItemOnlyIfLookupsOfAMinuteFindNothing(t *testing.T) {
	type row struct {
		finds time.Duration // from when on Temporal finds the workflow; 0: never
		want  []claim.Verb  // besides releases
	}
	bubbles(t, 2, map[string]row{
		"found after seconds":   {3 * time.Second, []claim.Verb{claim.Dispatched}},
		"found within a minute": {missingFor - time.Second, []claim.Verb{claim.Dispatched}},
		"never found":           {0, []claim.Verb{claim.Fail}},
	}, func(t *testing.T, d *desk, c row) {
		d.onFind = func(context.Context, claim.Item) (string, bool, error) {
			return "run-there", c.finds > 0 && d.now() >= c.finds, nil
		}
		d.enqueueItem(claim.Item{Unanswered: true, UnansweredFor: time.Second, Problem: "workspace not found"})
		d.run()
		looptest.Pass(2 * missingFor)

		var ends []claim.Verb
		for _, s := range d.seen().settles {
			switch {
			case s.verb != claim.Release:
				ends = append(ends, s.verb)
				require.True(t, s.verb != claim.Fail || s.at >= missingFor, "it has failed after %s", s.at)
			default:
				require.True(t, s.batch[0].Unanswered, "it keeps its slot")
				require.True(t, s.batch[0].Missing)
				require.Equal(t, lookAgain, s.batch[0].Delay)
			}
		}
		require.Equal(t, c.want, ends)
		require.Less(t, len(d.settlements()), 10, "a lookup each ten seconds")
		require.Len(t, d.log.At(slog.LevelWarn), 1+len(d.settlements()), "it is named once")
	})
}

func TestCallThatIsNotAnsweredIsGivenUpByNameBeforeItsLeaseEnds(t *testing.T) {
	unanswered := claim.Item{Unanswered: true, UnansweredFor: time.Second, Problem: "workspace not found"}
	type row struct {
		call  string
		lease time.Duration
		after time.Duration
		item  claim.Item
	}
	bubbles(t, 1, map[string]row{
		"start":         {"start of workflow", time.Minute, 5 * time.Second, claim.Item{}},
		"look":          {"lookup of the workflow", time.Minute, 5 * time.Second, unanswered},
		"a short lease": {"start of workflow", time.Second, 900 * ms, claim.Item{}}, // a tenth is left to settle
	}, func(t *testing.T, d *desk, c row) {
		d.Lease = c.lease
		d.enqueueItem(c.item)
		d.onStart = starts(time.Hour)
		d.onFind = func(ctx context.Context, _ claim.Item) (string, bool, error) {
			<-ctx.Done()
			return "", false, ctx.Err()
		}
		d.run()
		looptest.Pass(c.after + ms)
		require.Equal(t, "release unanswered: "+c.call+" timed out after "+c.after.String()+
			": context deadline exceeded", said(d.settlements()[0]))
		require.Equal(t, c.after, d.seen().settles[0].at)
	})
}

func TestItemThatIsClaimedTooLateIsReleasedUnsent(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.onClaim = func(int) (claim.Batch, error) {
			if len(d.claimTimes()) > 1 {
				return claim.Batch{LookAgainIn: -1}, nil
			}
			return claim.Batch{Items: []claim.Item{{ID: 1, Deadline: time.Now().Add(d.Lease / 10)}}, LookAgainIn: -1}, nil
		}
		d.onStart = func(context.Context, claim.Item) (string, error) { return "", errors.New("asked") }
		d.run()
		synctest.Wait()
		require.Equal(t, "release: lease leaves no time to start the workflow", said(d.settlements()[0]))
	})
}

func TestAnItemBehindAnotherOfItsWorkflowIDIsSentLaterAndCountsNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		d.enqueueItem(claim.Item{MaxAttempts: 3, NamedID: "order-17"})
		asked := 0
		d.onBehind = func(int64) (bool, error) {
			asked++
			if asked == 2 {
				return false, errors.New("connection refused")
			}
			return asked == 1, nil
		}
		d.run()
		looptest.Pass(3 * time.Second)
		require.Equal(t, []claim.Verb{claim.Release, claim.Release, claim.Dispatched}, d.verbs())
		first := d.settlements()[0]
		require.Equal(t, behindDelay, first.Delay)
		require.False(t, first.Unanswered)
	})
}
