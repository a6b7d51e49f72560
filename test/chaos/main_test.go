package main

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/fault"
)

func TestAWholeRunWritesTheReportAndAPartOfItDoesNot(t *testing.T) {
	o, err := read(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, defaultOut, o.out)
	require.NotZero(t, o.Seed)
	require.Equal(t, defaultMinutes*time.Minute, o.Length)
	require.False(t, o.Partial)

	o, err = read([]string{"-only", "kill, freeze", "-seed", "7", "-rounds", "20"}, io.Discard)
	require.Equal(t, 20, o.Rounds)
	require.NoError(t, err)
	require.Empty(t, o.out)
	require.Len(t, o.Faults, 2)
	require.Equal(t, uint64(7), o.Seed)
	require.True(t, o.Partial)
}

func TestOnlyLongRunsHaveTimeForLongFaults(t *testing.T) {
	long := func(o options) (n int) {
		for _, f := range o.Faults {
			if f.Long {
				n++
			}
		}
		return n
	}
	o, err := read(nil, io.Discard)
	require.NoError(t, err)
	require.Zero(t, long(o))
	o, err = read([]string{"-long"}, io.Discard)
	require.NoError(t, err)
	require.Positive(t, long(o))
	t.Setenv(minutesVariable, "30")
	o, err = read(nil, io.Discard)
	require.NoError(t, err)
	require.Positive(t, long(o))
}

func TestBadOptionsSayWhy(t *testing.T) {
	for _, args := range [][]string{
		{"-only", "nothing"}, {"-minutes", "0"}, {"more"}, {"-shard", "2"},
		{"-shard", "3/2", "-seed", "1", "-record", "x"}, {"-shard", "1/2"}, {"-rounds", "0"},
	} {
		_, err := read(args, io.Discard)
		require.Error(t, err, "%q", args)
	}
	t.Setenv(minutesVariable, "many")
	_, err := read(nil, io.Discard)
	require.ErrorContains(t, err, minutesVariable)
}

func TestTheListNamesEveryFault(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, do(t.Context(), []string{"-list"}, &out))
	for _, f := range fault.All() {
		if !f.Long {
			require.Contains(t, out.String(), f.Name)
		}
	}
}
