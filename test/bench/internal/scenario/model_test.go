package scenario

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

func quiet(string, ...any) {}

// fixed is an entrant whose turns yield these values, one after another. NaN is a failed turn.
func fixed(name string, order *[]string, values ...float64) Entrant {
	turn := 0
	return Entrant{Name: name, Run: func(_ context.Context, t *Turn) error {
		*order = append(*order, name)
		value := values[turn]
		turn++
		if math.IsNaN(value) {
			return errors.New("no luck")
		}
		t.Figures["x"] = value
		t.Notes = []string{"said once"}
		return nil
	}}
}

func TestEntrantsTakeTurnsAndAFailedTurnCostsOnlyItself(t *testing.T) {
	t.Parallel()
	var order []string
	closed := 0
	s := &Scenario{
		Name: "s", Columns: []Column{{"x", "x"}}, Close: func() error { closed++; return nil },
		Entrants: []Entrant{fixed("a", &order, 2, math.NaN(), 6), fixed("b", &order, 1, 1, 2)},
	}

	result := s.Run(t.Context(), &lab.Lab{}, 3, quiet)

	require.Equal(t, []string{"a", "b", "a", "b", "a", "b"}, order)
	require.Len(t, result.Errors, 1)
	require.ErrorContains(t, result.Errors[0], "s, round 2, a: no luck")
	require.Equal(t, stat.Spread{Median: 4, Min: 2, Max: 6}, result.Spread(Key{"a", "x"}))
	require.Equal(t, []string{"said once"}, result.Notes)
	require.Equal(t, 1, closed)

	spread, reached := result.Of(Bar{Value: Key{"a", "x"}, Against: Key{"b", "x"}, AtLeast: true, Level: 2.5})
	require.Equal(t, stat.Spread{Median: 2.5, Min: 2, Max: 3}, spread, "2/1 and 6/2; the failed round has no ratio")
	require.True(t, reached)
	_, reached = result.Of(Bar{Value: Key{"a", "x"}, Against: Key{"b", "x"}, Level: 2})
	require.False(t, reached)
	spread, _ = result.Of(Bar{Value: Key{"a", "x"}, Constant: 2})
	require.Equal(t, stat.Spread{Median: 2, Min: 1, Max: 3}, spread)
	_, reached = result.Of(Bar{Value: Key{"a", "nothing"}, Level: 2})
	require.False(t, reached, "a figure without a measurement misses its target")
}

func TestRoundsAreBoundedAndTurnsTimeOut(t *testing.T) {
	t.Parallel()
	s := &Scenario{Name: "s", MaxRounds: 1, Limit: time.Millisecond,
		Entrants: []Entrant{{Name: "a", Run: func(ctx context.Context, _ *Turn) error {
			<-ctx.Done()
			return ctx.Err()
		}}}}
	result := s.Run(t.Context(), &lab.Lab{}, 5, quiet)
	require.Len(t, result.Errors, 1)
	require.ErrorContains(t, result.Errors[0], "timed out after 1ms")
}

func TestEveryScenarioIsWellFormed(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, s := range All(Options{}) {
		require.False(t, names[s.Name], s.Name)
		names[s.Name] = true
		entrants, figures := map[string]bool{}, map[string]bool{}
		for _, e := range s.Entrants {
			require.False(t, entrants[e.Name], "%s: %s", s.Name, e.Name)
			entrants[e.Name] = true
		}
		for _, c := range s.Columns {
			figures[c.Figure] = true
		}
		for _, c := range s.Charts {
			require.True(t, figures[c.Figure], "%s draws %s", s.Name, c.Figure)
		}
		for _, b := range s.Bars {
			require.True(t, entrants[b.Value.Entrant] && figures[b.Value.Figure], "%s: %s", s.Name, b.Text)
			require.True(t, b.Against == Key{} || entrants[b.Against.Entrant] && figures[b.Against.Figure],
				"%s: %s", s.Name, b.Text)
		}
	}
}

func TestSearchFindsTheEdge(t *testing.T) {
	t.Parallel()
	best, steps, err := search(1000, 20000, 5, func(rate float64) (searchStep, error) {
		return searchStep{rate: rate, good: rate <= 3000}, nil
	})
	require.NoError(t, err)
	require.InDelta(t, 3000, best, 50)
	require.LessOrEqual(t, best, 3000.0)
	require.Len(t, steps, 5+6+0)
	require.IsIncreasing(t, rates(inOrder(steps)))

	best, _, err = search(1000, 2000, 3, func(rate float64) (searchStep, error) { return searchStep{rate: rate}, nil })
	require.NoError(t, err)
	require.Zero(t, best, "no rate was good")

	_, _, err = search(1000, 2000, 3, func(float64) (searchStep, error) { return searchStep{}, errors.New("no luck") })
	require.ErrorContains(t, err, "no luck")
}

func rates(steps []searchStep) []float64 {
	var rates []float64
	for _, s := range steps {
		rates = append(rates, s.rate)
	}
	return rates
}

func TestRateCountsFromTheFirstAnswerToTheLast(t *testing.T) {
	t.Parallel()
	now := time.Now()
	require.Equal(t, 2.0, Rate([]Sent{{Done: now.Add(time.Second)}, {Done: now}, {Done: now.Add(500 * time.Millisecond)}}))
	require.Zero(t, Rate(nil))
	require.Zero(t, Rate([]Sent{{Done: now}}))
}

func TestShortenLeavesCommentsOut(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b", shorten("-- comment\na\n  b\n"))
}
