package view

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

const ellipsis = '…'

// runeWidth returns how many columns of a terminal a character takes.
func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// displayWidth returns how many columns of a terminal text takes. Colour sequences take none.
func displayWidth(text string) int {
	columns, escape := 0, false
	for _, r := range text {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			columns += runeWidth(r)
		}
	}
	return columns
}

// cut ends a line that is too long at the terminal's width, with an ellipsis. It keeps all colour sequences.
func (s Style) cut(line string) string {
	if s.Width <= 0 || displayWidth(line) <= s.Width {
		return line
	}
	var out strings.Builder
	columns, escape, full := 0, false, false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case full:
			continue
		case columns+runeWidth(r) > s.Width-1:
			full = true
			out.WriteRune(ellipsis)
			continue
		default:
			columns += runeWidth(r)
		}
		out.WriteRune(r)
	}
	return out.String()
}

// concern draws a concern with its remedy, in as many lines as the terminal's width needs.
func (s Style) concern(c Concern) []string {
	how := map[Severity]string{Critical: red, Warning: yellow}[c.Severity]
	if begun := c.Begun(); begun != "" {
		c.What += " " + begun
	}
	if s.Width <= 0 || displayWidth("! "+c.What+" → "+c.Remedy) <= s.Width {
		return []string{s.paint(how, "! "+c.What) + s.paint(faint, " → "+c.Remedy)}
	}
	var lines []string
	for _, part := range []struct{ how, first, text string }{{how, "! ", c.What}, {faint, "→ ", c.Remedy}} {
		indent := part.first
		for _, line := range wrapped(part.text, s.Width-2) {
			lines = append(lines, s.paint(part.how, indent+line))
			indent = "  "
		}
	}
	return lines
}

// wrapped breaks text between words into lines of at most the given width. A longer word has a line of its own.
func wrapped(text string, columns int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && displayWidth(line+" "+word) > columns {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}
