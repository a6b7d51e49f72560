package view

import (
	"strings"
	"unicode/utf8"
)

// indentDepth is the depth to which JSON is indented. Deeper values stay on one line, because the total indentation of
// a deep value grows with the square of its depth.
const indentDepth = 20

// IndentJSON indents valid JSON, in time and space linear in its length. Values are not changed. It returns at most
// atMost bytes, and whole is false if the text was cut. If atMost is 0, it returns the whole text.
func IndentJSON(text string, atMost int) (lines string, whole bool) {
	var out strings.Builder
	depth, quoted, escaped, opened := 0, false, false, false
	line := func() {
		out.WriteByte('\n')
		for range depth {
			out.WriteString("  ")
		}
	}
	for n := 0; n < len(text) && (atMost <= 0 || out.Len() <= atMost); n++ {
		c := text[n]
		switch {
		case quoted:
			out.WriteByte(c)
			quoted, escaped = escaped || c != '"', c == '\\' && !escaped
			continue
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			continue
		}
		closes := c == '}' || c == ']'
		if opened && !closes && depth <= indentDepth {
			line()
		}
		switch {
		case closes:
			if depth--; !opened && depth < indentDepth {
				line()
			}
			out.WriteByte(c)
		case c == ',':
			out.WriteByte(c)
			if depth <= indentDepth {
				line()
			}
		case c == ':':
			out.WriteString(": ")
		default:
			out.WriteByte(c)
		}
		if opened = c == '{' || c == '['; opened {
			depth++
		}
		quoted = c == '"'
	}
	if atMost > 0 && out.Len() > atMost {
		return cut(out.String(), atMost), false
	}
	return out.String(), true
}

// cut shortens text to at most atMost bytes without splitting a character.
func cut(text string, atMost int) string {
	for atMost > 0 && !utf8.RuneStart(text[atMost]) {
		atMost--
	}
	return text[:atMost]
}
