package operate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func TestTextThatIsNoJSONIsRefusedByLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                 `line 1: it is not JSON`,
		"{\n\"nodes\": [}": `line 2: it is not JSON`,
		`{"nodes": []} {}`: `it is not JSON`,
		"[\n\"a\\u0000\"]": `line 2: the text "a\x00" has the character \u0000`,
	} {
		require.ErrorContains(t, operate.CheckJSON([]byte(text)), want, "%q", text)
	}
	require.NoError(t, operate.CheckJSON([]byte(` {"title": "\\u0000"} `)))
}
