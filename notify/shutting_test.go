package notify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// A commit while the gate was open is not announced.
func TestWhoeverFallsAsleepIsToldToLookOnceMore(t *testing.T) {
	t.Parallel()
	gate := newGate(t, sqltest.URL(t), "one")
	for n := range 3 {
		gate.Sleep()
		within(t, gate.IsAsleep, "the gate is shut")
		gate.Awake()
		within(t, func() bool { return !gate.IsAsleep() }, "the gate opens")
		require.Len(t, gate.shutting, n+1)
	}
}
