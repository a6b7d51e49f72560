package e2e

import (
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

// Replicas started before and after a migration run side by side, while it replaces every function under their claims.
func TestAnUpgradeRollsUnderLoad(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.exec("update pgdispatch.settings set max_claims = 10")
	const few = "PGDISPATCH_WORKERS=4"
	before := []*replica{s.replica(few).ready(), s.replica(few).ready()}
	executions := s.enqueueLoad("Echo")

	replaced := 0
	for n := range 6 {
		// Marks each function as belonging to an older release.
		s.exec("update pgdispatch.applied_functions set sha256 = repeat('0', 64)")
		conn, err := pgx.Connect(t.Context(), s.url)
		require.NoError(t, err)
		require.NoError(t, migrate.Up(t.Context(), conn, func(migrate.Step) { replaced++ }))
		require.NoError(t, conn.Close(t.Context()))
		switch n {
		case 1:
			s.replica(few).ready()
		case 3:
			require.NoError(t, before[0].Signal(syscall.SIGTERM))
			require.Zero(t, before[0].exit())
			executions = append(executions, s.enqueueLoad("Echo")...)
		}
	}
	require.Positive(t, replaced)
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == len(executions) }, "all executions complete")
	s.requireLimits(10)
	s.requireOneRunEach(executions)
}
