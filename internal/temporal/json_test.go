package temporal

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextBecomesTheJSONThatEncodingJSONMakesOfIt(t *testing.T) {
	t.Parallel()
	texts := []string{"", "8f6f3c1e-6d0c-4a55-9c6e-0d5a3f0f6d11", "naïve 日本語 🙂", "not UTF-8: \xff",
		"line separator \u2028"}
	for c := range 256 {
		texts = append(texts, "a"+string([]byte{byte(c)})+"b")
	}
	for _, text := range texts {
		want, err := json.Marshal(text)
		require.NoError(t, err)
		require.Equal(t, string(want), string(jsonString(text)))
	}
}
