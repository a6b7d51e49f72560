package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrimary_ComparesTimelinesOfOneClusterOnly(t *testing.T) {
	t.Parallel()
	newest := timeline{"7", "0000000A"}
	for of, precedes := range map[timeline]bool{
		{"7", "00000009"}: true,
		{"7", "0000000A"}: false,
		{"7", "0000000B"}: false,
		{"8", "00000009"}: false, // the database was moved
		{}:                false, // it does not tell
	} {
		require.Equal(t, precedes, of.precedes(newest), "%v", of)
	}
}
