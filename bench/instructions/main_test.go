package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMoreCyclesAreMoreInstructions(t *testing.T) {
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		t.Skip("no valgrind: apt-get install valgrind")
	}
	cycle := []string{"execute enqueue(1)", "execute claim(100)", settle}
	few, err := count(t.Context(), valgrind, "../../bin/pgdispatch", 0, cycle, 1)
	require.NoError(t, err)
	many, err := count(t.Context(), valgrind, "../../bin/pgdispatch", 0, cycle, 3)
	require.NoError(t, err)
	require.Greater(t, many, few+1_000_000)
}
