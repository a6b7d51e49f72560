package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMisspeltVariableIsWarnedOf(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const warning = "pgdispatch: warning: PGDISPATCH_WORKER is ignored: there is no such variable; did you mean " +
		"PGDISPATCH_WORKERS?\n"
	out, errs, _ := pgdispatch(t, []string{"DATABASE_URL=" + d.url, "PGDISPATCH_WORKER=50"}, "settings", "get")
	require.Equal(t, warning, errs)
	require.Contains(t, out, "max-claims 100\n")
	_, errs, _ = pgdispatch(t, []string{"PGDISPATCH_WORKER=50"}, "version")
	require.Empty(t, errs, "the command reads no settings")
	_, errs, _ = pgdispatch(t, []string{"PGDISPATCH_WORKER=50", "PGDISPATCH_LEASE=x"}, "run")
	require.Contains(t, errs, warning, "where it may be the reason for an error")

	s := newStack(t)
	p := s.replica("PGDISPATCH_WORKER=50").ready()
	require.Regexp(t,
		`"level":"WARN","msg":"Ignoring an environment variable that is not known","variable":"PGDISPATCH_WORKER",`+
			`"did_you_mean":"PGDISPATCH_WORKERS"`,
		p.Log())
}
