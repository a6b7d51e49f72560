package postgres

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var nastyTexts = map[string]struct{ text, clean string }{
	"plain":                  {"connection refused", "connection refused"},
	"nothing":                {"", ""},
	"blanks only":            {" \t\r\n ", ""},
	"several lines":          {"one\r\ntwo\n\tthree", "one  two  three"},
	"NUL":                    {"a\x00b", "a\uFFFDb"},
	"NUL only":               {"\x00", "\uFFFD"},
	"invalid UTF-8":          {"a\xff\xfe\xc3(b", "a\uFFFD(b"},
	"half a rune":            {"日本\xe6\x97", "日本\uFFFD"},
	"a surrogate":            {"a\xed\xa0\x80b", "a\uFFFDb"},
	"ANSI":                   {"\x1b[2J\x1b]0;title\x07red", "\uFFFD[2J\uFFFD]0;title\uFFFDred"},
	"C1 controls":            {"a\u0085b\u009bc", "a\uFFFDb\uFFFDc"},
	"bidi":                   {"a\u202eb\u2066c\u200fd\u061ce", "a\uFFFDb\uFFFDc\uFFFDd\uFFFDe"},
	"other alphabets":        {"Größe 日本語 🙂 \U0010FFFF", "Größe 日本語 🙂 \U0010FFFF"},
	"1,999 characters":       {strings.Repeat("ü", 1999), strings.Repeat("ü", 1999)},
	"2,001 characters":       {strings.Repeat("ü", 2001), strings.Repeat("ü", 1999) + "…"},
	"10 MB":                  {strings.Repeat("日", 10<<20/3), strings.Repeat("日", 1999) + "…"},
	"10 MB of NUL":           {strings.Repeat("\x00", 10<<20), strings.Repeat("\uFFFD", 1999) + "…"},
	"10 MB of invalid UTF-8": {strings.Repeat("\xff", 10<<20), "\uFFFD"},
}

func TestCleanMakesAnyTextFitToBeStoredAndShown(t *testing.T) {
	t.Parallel()
	for name, c := range nastyTexts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.clean, Clean(c.text))
			requireClean(t, Clean(c.text))
			require.Equal(t, c.clean, Clean(c.clean), "clean text is unchanged")
		})
	}
}

func requireClean(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text))
	require.LessOrEqual(t, utf8.RuneCountInString(text), maxErrorLength)
	require.False(t, strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}))
	require.Equal(t, strings.TrimSpace(text), text)
}

func FuzzClean(f *testing.F) {
	for _, c := range nastyTexts {
		if len(c.text) < 10000 {
			f.Add(c.text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		clean := Clean(text)
		requireClean(t, clean)
		require.Equal(t, clean, Clean(clean))
	})
}
