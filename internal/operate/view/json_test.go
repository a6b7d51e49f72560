package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestJSONIsLaidOutInLines(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`{}`:                      `{}`,
		`[]`:                      `[]`,
		`1`:                       `1`,
		`"a, {b}: [c] \" \\"`:     `"a, {b}: [c] \" \\"`,
		`{"a": 1}`:                "{\n  \"a\": 1\n}",
		`[[], {}, [1, "ä"]]`:      "[\n  [],\n  {},\n  [\n    1,\n    \"ä\"\n  ]\n]",
		`{"a":{"b":[true,null]}}`: "{\n  \"a\": {\n    \"b\": [\n      true,\n      null\n    ]\n  }\n}",
	} {
		lines, whole := IndentJSON(given, 0)
		require.True(t, whole)
		require.Equal(t, want, lines)
	}
}

func TestDeepJSONIsNoLargerThanItWas(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9999) + strings.Repeat("]", 9999)
	lines, whole := IndentJSON(deep, 0)
	require.True(t, whole)
	require.Less(t, len(lines), len(deep)+4*indentDepth*indentDepth)
	wide := "[" + strings.Repeat(strings.Repeat("[", 40)+"1"+strings.Repeat("]", 40)+",", 2000) + "1]"
	lines, _ = IndentJSON(wide, 0)
	require.Less(t, len(lines), 20*len(wide))
}

func TestJSONIsCutAtABoundAndBetweenCharacters(t *testing.T) {
	t.Parallel()
	given := `["` + strings.Repeat("ä", 100) + `"]`
	for atMost := range 300 {
		lines, whole := IndentJSON(given, atMost+1)
		require.LessOrEqual(t, len(lines), atMost+1)
		require.True(t, utf8.ValidString(lines))
		require.Equal(t, whole, len(lines) == len(given)+4)
	}
}

func FuzzIndentJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, {"b": "\u00e4 \" \\"}, []]}`, `[[[[]]]]`, `"x"`, ` [ 1 , 2 ] `} {
		f.Add(seed, 10)
	}
	f.Fuzz(func(t *testing.T, text string, atMost int) {
		if atMost > 0 {
			lines, whole := IndentJSON(text, atMost)
			require.LessOrEqual(t, len(lines), atMost)
			all, _ := IndentJSON(text, 0)
			require.Equal(t, whole, lines == all)
		}
		var want, got bytes.Buffer
		if json.Compact(&want, []byte(text)) != nil {
			return
		}
		lines, whole := IndentJSON(text, 0)
		require.True(t, whole)
		require.NoError(t, json.Compact(&got, []byte(lines)))
		require.Equal(t, want.String(), got.String())
	})
}
