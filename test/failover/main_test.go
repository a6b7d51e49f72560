package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/failover/internal/run"
)

func TestOptions_ARunOfAllModesWritesTheReport(t *testing.T) {
	t.Parallel()
	o, err := read(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, defaultOut, o.out)
	require.Equal(t, run.Modes, o.Modes)
	require.NotZero(t, o.Seed)

	o, err = read([]string{"-modes", "async, sync", "-seed", "7"}, io.Discard)
	require.NoError(t, err)
	require.Empty(t, o.out)
	require.Equal(t, []run.Mode{run.Modes[1], run.Modes[0]}, o.Modes)
	require.Equal(t, uint64(7), o.Seed)
}

func TestOptions_BadOnesAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"more"}, {"-events", "0"}, {"-rate", "0"}, {"-limit", "0s"}, {"-modes", "fast"}} {
		_, err := read(args, io.Discard)
		require.Error(t, err, "%q", args)
	}
}
