package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// pgdispatch runs the binary with these variables in addition to the process's, and returns its output.
func pgdispatch(t *testing.T, variables []string, args ...string) (stdout, stderr string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), self, args...)
	command.Env = append(append(os.Environ(), asReplica+"=1"), variables...)
	command.Stdout, command.Stderr = &out, &errs
	_ = command.Run() // only the output matters
	return out.String(), errs.String()
}

func TestAMisspeltVariableIsWarnedOf(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const warning = "pgdispatch: warning: PGDISPATCH_WORKER is ignored: there is no such variable; did you mean " +
		"PGDISPATCH_WORKERS?\n"
	out, errs := pgdispatch(t, []string{"DATABASE_URL=" + d.url, "PGDISPATCH_WORKER=50"}, "settings", "get")
	require.Equal(t, warning, errs, "the variable that the test itself reads is not reported")
	require.Contains(t, out, "max-claims 100\n")
	_, errs = pgdispatch(t, []string{"PGDISPATCH_WORKER=50"}, "version")
	require.Empty(t, errs, "the command reads no settings")
	_, errs = pgdispatch(t, []string{"PGDISPATCH_WORKER=50", "PGDISPATCH_LEASE=x"}, "run")
	require.Contains(t, errs, warning, "where it may be the reason for an error")

	s := newStack(t)
	p := s.replica("PGDISPATCH_WORKER=50").ready()
	require.Regexp(t,
		`"level":"WARN","msg":"Ignoring an environment variable that is not known","variable":"PGDISPATCH_WORKER",`+
			`"did_you_mean":"PGDISPATCH_WORKERS"`,
		p.logs.String())
	require.NotContains(t, p.logs.String(), `"variable":"`+asReplica)
}
