package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJSONOfDeepParamsIsNotMuchLargerThanTheyAre(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	var out bytes.Buffer
	require.NoError(t, (&App{Stdout: &out}).printJSON(map[string]any{"params": json.RawMessage(deep)}))
	require.Less(t, out.Len(), 2*len(deep))
	require.True(t, json.Valid(out.Bytes()))
}
