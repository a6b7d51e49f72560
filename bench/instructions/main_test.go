package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutValgrindItSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := run(t.Context(), "../../bin/pgdispatch", io.Discard)
	require.ErrorContains(t, err, "apt-get install valgrind")
}

func TestSettlingIsTheProductsOwnStatement(t *testing.T) {
	t.Parallel()
	require.Contains(t, settling(), "q.lease_token = any (tokens::bigint[])")
	require.Contains(t, settling(), "select count(*) into settled from moved")
	require.NotRegexp(t, `\$[0-9]`, settling())
}
