package view

import (
	"strings"
	"unicode/utf8"
)

// indentDepth is how deep JSON is indented. What is deeper stays on its line: the indentation of each line of a deep value would
// together be as large as the square of its depth.
const indentDepth = 20

// IndentJSON lays valid JSON out in lines, in time and space that grow with its length only. Nothing of a value is changed. atMost
// bounds the bytes that are returned, and whole is false where more would follow; 0: all is returned.
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

// cut shortens text to at most so many bytes, and leaves no part of a character.
func cut(text string, atMost int) string {
	for atMost > 0 && !utf8.RuneStart(text[atMost]) {
		atMost--
	}
	return text[:atMost]
}
