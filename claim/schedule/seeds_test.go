package schedule

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// seeds are how many seeds to run and the first of them. PGDISPATCH_SEEDS and PGDISPATCH_FIRST_SEED set them.
func seeds(usual int) (first, number int) {
	if more, err := strconv.Atoi(os.Getenv("PGDISPATCH_SEEDS")); err == nil {
		usual = more
	}
	first, _ = strconv.Atoi(os.Getenv("PGDISPATCH_FIRST_SEED"))
	return first, usual
}

// eachSeed tests a property with each seed, and says with which one it failed.
func eachSeed(t *testing.T, usual int, property func(seed int, r *rand.Rand)) {
	t.Helper()
	seed, number := seeds(usual)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for end := seed + number; seed < end; seed++ {
		property(seed, rand.New(rand.NewPCG(uint64(seed), 7)))
	}
}
