package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutValgrindInstructionsAreSaidToBeMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	turn := &Turn{Figures: Figures{}}
	require.NoError(t, Instructions().Entrants[0].Run(t.Context(), turn))
	require.Empty(t, turn.Figures)
	require.Len(t, turn.Notes, 1)
	require.Contains(t, turn.Notes[0], "apt-get install valgrind")
}

func TestSettlingIsTheProductsOwnStatement(t *testing.T) {
	t.Parallel()
	require.Contains(t, settling(), "q.lease_token = any (tokens::bigint[])")
	require.Contains(t, settling(), "select count(*) into settled from moved")
	require.NotRegexp(t, `\$[0-9]`, settling())
}
