package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/entrant"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/scenario"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

func TestMain(m *testing.M) {
	entrant.Main() // the contestants are this binary, started again
	os.Exit(m.Run())
}

// TestEverythingRuns runs one quick round of every scenario. The numbers mean nothing, but a turn fails if an item was
// lost or started twice.
func TestEverythingRuns(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "pgdispatch")
	require.NoError(t, stack.Build("../..", binary))

	r, err := measure(t.Context(),
		options{binary: binary, rounds: 1, quick: true, scenarios: scenario.All(scenario.Options{})}, t.Output())
	require.NoError(t, err)

	for _, result := range r.Results {
		require.Empty(t, result.Errors)
		for key, values := range result.Values {
			require.Len(t, values, 1, "%s: %v", result.Name, key)
			require.False(t, math.IsInf(values[0], 0) || values[0] < 0, "%s: %v is %v", result.Name, key, values[0])
		}
		for _, e := range result.Entrants {
			if !e.Slow {
				require.True(t, result.Spread(scenario.Key{Entrant: e.Name, Figure: firstOf(result, e.Name)}).Known(),
					"%s: %s has no figure", result.Name, e.Name)
			}
		}
	}
	require.NotContains(t, r.Markdown("plots"), "NaN")
	require.NotEmpty(t, r.Machine.Postgres)
}

// firstOf returns the first figure that an entrant has. Not every entrant has all figures.
func firstOf(result *scenario.Result, entrant string) string {
	for _, c := range result.Columns {
		if result.Spread(scenario.Key{Entrant: entrant, Figure: c.Figure}).Known() {
			return c.Figure
		}
	}
	return ""
}

func TestReadOptions(t *testing.T) {
	t.Parallel()
	o, err := read(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, defaultOut, o.out)
	require.Equal(t, 5, o.rounds)
	require.Len(t, o.scenarios, len(scenario.All(scenario.Options{}))-1, "the soak runs where it is named")
	require.Equal(t, 5*time.Minute, o.hold)

	o, err = read([]string{"-quick", "-rounds", "7"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 1, o.rounds)
	require.Empty(t, o.out, "a smoke run overwrites no report")

	o, err = read([]string{"-only", "idle, drain"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "idle drain", strings.TrimSpace(fmt.Sprint(o.scenarios[0].Name, " ", o.scenarios[1].Name)))
	require.Empty(t, o.out, "a part overwrites no report")

	for _, args := range [][]string{{"-only", "nothing"}, {"-hold", "0"}, {"-rounds", "0"}, {"word"}, {"-nonsense"}} {
		_, err := read(args, io.Discard)
		require.Error(t, err, args)
	}
}
