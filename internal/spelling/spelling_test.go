package spelling_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/spelling"
)

func TestLikelyWordsContainTheTextOrAreNear(t *testing.T) {
	t.Parallel()
	words := []string{"Wayne Enterprises", "Wayne Foundation", "Acme", "Wayne Tech", "Wayne Shipping"}
	require.Equal(t, []string{"Wayne Enterprises", "Wayne Foundation", "Wayne Tech"}, spelling.Likely("wayne", words))
	require.Equal(t, []string{"Acme"}, spelling.Likely("ACMI", words))
	require.Empty(t, spelling.Likely("Stark Industries", words))
	require.Empty(t, spelling.Nearest("x", nil))
	require.Equal(t, 3, spelling.Distance("kitten", "sitting"))
}
