package complete

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// forever watches executions that never end.
func forever(ctx context.Context, _ temporal.Execution) (temporal.End, error) {
	<-ctx.Done()
	return temporal.End{}, ctx.Err()
}

// limit returns the current bound.
func (p *post) limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Watcher.mu.Lock()
	defer p.Watcher.mu.Unlock()
	return p.bound.now
}

func TestWhatDoesNotFitIsGivenUpInOneStatement(t *testing.T) {
	must.Each(t, map[string]int{"room for ten": 10, "no watches at all": 0}, func(t *testing.T, room int) {
		bubble(t, func(t *testing.T, p *post) {
			p.MaxWatches, p.onWait = room, forever
			p.run()
			require.True(t, p.HasRoom(room))
			require.False(t, p.HasRoom(room+1))
			for n := range room + 5 {
				p.Watch("e"+strconv.Itoa(10-room+n), "run")
			}
			looptest.Pass(time.Minute)
			require.Equal(t, []giveUpCall{{time.Second, []string{"e10", "e11", "e12", "e13", "e14"}}}, p.seen().givenUp)
			require.Equal(t, room, p.seen().now)
			require.False(t, p.HasRoom(1))
			require.Equal(t, room > 0, len(p.seen().adopts) > 0)
			require.Empty(t, p.seen().swaps)
		})
	})
}

func TestWhatCouldNotBeGivenUpIsGivenUpLaterAndAdoptingFollows(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.MaxWatches = 1
		p.onWait = forever
		failing := true
		p.onGiveUp = func([]string) error {
			if failing {
				failing = false
				p.Unwatched(false)
				return errors.New("connection refused")
			}
			return nil
		}
		p.run()
		p.Watch("e1", "run-1")
		p.Watch("e2", "run-2")
		p.Unwatched(true)
		swaps := len(p.seen().swaps)
		looptest.Pass(3 * tendInterval)
		givenUp := p.seen().givenUp
		require.Len(t, givenUp, 2)
		require.Equal(t, []string{"e2"}, givenUp[1].executions)
		require.Greater(t, len(p.seen().swaps), swaps, "it is full, so it adopts by changing watches")
	})
}

func TestARefusedLongPollHalvesTheBoundOnceAndItCreepsUpAgain(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.MaxWatches = 40
		p.onWait = func(ctx context.Context, e temporal.Execution) (temporal.End, error) {
			if p.seen().now > 30 {
				return temporal.End{}, fmt.Errorf("%w: namespace concurrent poller limit exceeded", temporal.ErrCrowded)
			}
			return forever(ctx, e)
		}
		p.run()
		for n := range 40 {
			p.Watch("e"+strconv.Itoa(n), "run")
		}
		looptest.Pass(time.Second)
		require.LessOrEqual(t, p.seen().now, 30)
		require.Len(t, p.seen().givenUp, 1, "refused executions may go to other replicas")
		require.Equal(t, 20, p.limit(), "halved once, though ten were refused")
		require.Equal(t, []string{"Temporal rejects long polls; watching fewer executions for a while"},
			p.log.At(slog.LevelWarn))

		looptest.Pass(20 * time.Second)
		require.Equal(t, 26, p.limit(), "two more every five seconds while ten are over the bound")
		looptest.Pass(10 * time.Minute)
		require.Equal(t, 40, p.bound.now)
	})
}

func TestAFullWatcherChangesWhatNobodyWaitsForAgainstWhatSomebodyDoes(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		p.MaxWatches = 2
		p.onWait = forever
		p.onSwap = func(int) ([]temporal.Execution, []string, error) {
			if len(p.seen().swaps) > 1 {
				return nil, nil, nil
			}
			return []temporal.Execution{{ID: "e3", RunID: "run-3"}}, []string{"e1"}, nil
		}
		p.run()
		p.Watch("e1", "run-1")
		p.Watch("e2", "run-2")
		for range 2 {
			p.Unwatched(true)
			looptest.Pass(10 * time.Second)
		}
		require.Equal(t, []int{1, 1}, p.seen().swaps, "at most half of them at each call")
		require.Equal(t, 2, p.seen().now)
		require.Contains(t, p.watching, "e3")
		require.NotContains(t, p.watching, "e1")
		require.Empty(t, p.seen().givenUp, "the swap is reported")
	})
}
