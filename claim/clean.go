package claim

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxErrorLength is how many characters of an error are kept, the column's own limit.
const maxErrorLength = 2000

// Clean makes an error's text fit to be stored, logged and shown: valid UTF-8 on one line, without control and
// direction-changing characters, and of bounded length. Postgres refuses a NUL, and a row whose error cannot be stored
// could never be failed.
func Clean(text string) string {
	var clean strings.Builder
	length := 0
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if length == maxErrorLength-1 {
			clean.WriteRune('…')
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			r = ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError:
			r = '\uFFFD'
		}
		clean.WriteRune(r)
		length++
	}
	return strings.TrimSpace(clean.String())
}
