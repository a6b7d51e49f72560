//go:build !race

package simulation

import (
	"context"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// sameSeeds is how many seeds are run twice.
const sameSeeds = 300

// Two processes make the same runs in opposite orders while every processor is busy with something else, too.
func TestReplicas_MakeTheSameRunOfTheSameSeed(t *testing.T) {
	t.Parallel()
	runs.make(t, ofSeed(0)) // builds the worker
	if runs.program == "" {
		t.Log("SEEDS CANNOT BE REPEATED: ", runs.why)
		return
	}
	busy(t)

	first, second := make([]digest, sameSeeds), make([]digest, sameSeeds)
	t.Run("processes", func(t *testing.T) {
		t.Run("first", func(t *testing.T) {
			t.Parallel()
			digests(t, first, false)
		})
		t.Run("second", func(t *testing.T) {
			t.Parallel()
			digests(t, second, true)
		})
	})

	var all digest
	for seed, d := range first {
		require.Equal(t, d, second[seed], "seed %d gives two runs", seed)
		all = all.with(d)
	}
	t.Logf("%d seeds from 0 on, digest %s, twice", sameSeeds, all)
}

// digests makes the runs of the first seeds in a process of their own.
func digests(t *testing.T, all []digest, backwards bool) {
	t.Helper()
	w := startWorker(t, runs.program)
	defer w.end()
	list := seedsFrom(0, len(all))
	if backwards {
		slices.Reverse(list)
	}
	for _, s := range list {
		r, err := w.make(s)
		require.NoError(t, err)
		all[s.Seed] = r.Digest
	}
}

// busy keeps every processor busy until the test ends.
func busy(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() {
		ctx, stop := context.WithCancel(context.Background())
		loop := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		require.NoError(t, loop.Start())
		t.Cleanup(func() {
			stop()
			_ = loop.Wait()
		})
	}
}
