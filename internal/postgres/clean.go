package postgres

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxErrorLength is the maximum length of a stored error in characters, which is the limit of the column.
const maxErrorLength = 2000

// Clean makes an error text safe to store, log and display: valid UTF-8 on one line, without control characters and
// bidirectional controls, and at most 2,000 characters. Postgres rejects NUL, and an item whose error cannot be stored
// could never be marked as failed.
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
