package replica

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sweeper"
)

func TestUpkeep_NamesEachPartThatFails(t *testing.T) {
	t.Parallel()
	recovery, housekeeping := sweeper.Parts()
	u := &upkeep{}
	require.NoError(t, u.err(recovery))
	require.Empty(t, u.names())

	u.adoptedWith(errors.New("refused"))
	u.sweptWith(map[string]string{"marks": "broken", "leases": "no"})
	require.EqualError(t, u.err(recovery), "leases: no; watches: refused")
	require.EqualError(t, u.err(housekeeping), "marks: broken")
	require.Equal(t, []string{"leases", "marks", "watches"}, u.names())

	u.adoptedWith(nil)
	u.sweptWith(nil)
	require.NoError(t, u.err(housekeeping))
	require.Empty(t, u.failing())
}
