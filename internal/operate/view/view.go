// Package view formats the read model of package claim as text and draws it on a terminal. The web view uses the same
// texts.
package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// Printable replaces each unprintable character of untrusted text, such as terminal escapes and bidirectional controls,
// by U+FFFD.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}

// Number formats n with thousands separators.
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Counted formats a number of things.
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Number(int64(n)) + " " + thing
}

// Count formats a number of waiting or running items. Estimates are prefixed with "about".
func Count(n int64) string {
	if operate.IsEstimate(n) {
		return "about " + Number(n)
	}
	return Number(n)
}

// Slots formats a workspace's limit and, if it is higher, its burst limit, such as "5-9".
func Slots(limit, burst int) string {
	if burst > limit {
		return Number(int64(limit)) + "-" + Number(int64(burst))
	}
	return Number(int64(limit))
}

// AtMost formats a count that stops at limit, such as "1,000+".
func AtMost(n, limit int64) string {
	return AtLeast(n, n < limit)
}

// AtLeast formats a count that may have stopped early, such as "1,000+".
func AtLeast(n int64, exact bool) string {
	if !exact {
		return Number(n) + "+"
	}
	return Number(n)
}

// Ended formats a number of ended items: exact, an estimate, or at least as many as were found. It is empty if nothing
// is known.
func Ended(c operate.EndedCount) string {
	switch {
	case c.Exact:
		return Number(c.Items)
	case c.About != nil:
		return "about " + Number(max(*c.About, c.Items))
	case c.Items > 0:
		return Number(c.Items) + "+"
	}
	return ""
}

// Dead formats the number of open dead letters.
func Dead(d operate.Depth) string {
	if !d.DeadLettersExact {
		return "at least " + Number(d.DeadLetters)
	}
	return Number(d.DeadLetters)
}

// Rate formats a rate per second. Below one, it is per minute.
func Rate(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return Number(int64(perSecond+.5)) + "/s"
	case perSecond == 0:
		return "0/s"
	case perSecond >= 1:
	case 60*perSecond >= 1:
		return Number(int64(60*perSecond+.5)) + "/min"
	default:
		return "under 1/min"
	}
	return strconv.FormatFloat(perSecond, 'f', 1, 64) + "/s"
}

// Span formats a duration with at most two units. Negative durations become zero.
func Span(d time.Duration) string {
	day := 24 * time.Hour
	switch d = max(d, 0); {
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 2*day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
}

// Ago formats how long ago something happened, or in how long it will, in one unit.
func Ago(d time.Duration) string {
	far, text := d.Abs(), ""
	switch day := 24 * time.Hour; {
	case far < time.Second:
		return "now"
	case far < time.Minute:
		text = fmt.Sprintf("%d s", far/time.Second)
	case far < time.Hour:
		text = fmt.Sprintf("%d min", far/time.Minute)
	case far < day:
		text = fmt.Sprintf("%d h", far/time.Hour)
	default:
		text = fmt.Sprintf("%d d", far/day)
	}
	if d < 0 {
		return "in " + text
	}
	return text + " ago"
}

// SpanOf formats a duration, or a dash for nil.
func SpanOf(d *time.Duration) string {
	if d == nil {
		return "–"
	}
	return Span(*d)
}

// LatencyWords describes how long items waited for their start.
func LatencyWords(p operate.Latency) string {
	if p.Starts == 0 {
		return "– (no starts in the last hour)"
	}
	return fmt.Sprintf("p50 %s, p99 %s (%s starts in %s)", Span(p.P50), Span(p.P99), Number(p.Starts), Span(p.Over))
}

// Temporal describes whether Temporal accepts workflows from a replica.
func Temporal(s operate.ReplicaState) string {
	switch {
	case s.Stale:
		return "NOT HEARD OF"
	case s.CodecAway:
		return "CODEC AWAY, probing"
	case s.BreakerOpen:
		return "PAUSED, probing"
	}
	return "accepting"
}

// StallKind returns the name of a kind of stall.
func StallKind(kind string) string {
	return map[string]string{"TASK_QUEUE": "task queue", "EXECUTION": "execution"}[kind]
}

// Wakes describes what wakes a replica.
func Wakes(s operate.ReplicaState) string {
	switch {
	case s.Listening == nil:
		return "polling only"
	case !*s.Listening:
		return "NOT LISTENING"
	case s.OnDuty:
		return "listening, on duty"
	}
	return "listening"
}

// Shortly formats a duration to the second, or in days and hours if it is long.
func Shortly(d time.Duration) string {
	if d = d.Round(time.Second); d < 48*time.Hour {
		return d.String()
	}
	return fmt.Sprintf("%dd%s", d/(24*time.Hour), (d % (24 * time.Hour)).Truncate(time.Hour))
}

// indentDepth is the depth up to which JSON is indented. The indentation of deeper JSON would be many times as large as
// the text.
const indentDepth = 30

// IndentJSON indents valid JSON that is not too deep. Values are not changed. It returns at most atMost bytes, and
// whole is false if the text was cut. If atMost is 0, it returns the whole text.
func IndentJSON(text string, atMost int) (lines string, whole bool) {
	var out bytes.Buffer
	if lines = text; nesting(text) <= indentDepth && json.Indent(&out, []byte(text), "", "  ") == nil {
		lines = out.String()
	}
	if atMost > 0 && len(lines) > atMost {
		return cut(lines, atMost), false
	}
	return lines, true
}

// nesting returns how deep the objects and lists of JSON are.
func nesting(text string) (deepest int) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	for depth := 0; ; {
		switch token, err := decoder.Token(); {
		case err != nil:
			return deepest
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		}
	}
}

// cut shortens text to at most atMost bytes without splitting a character.
func cut(text string, atMost int) string {
	for atMost > 0 && !utf8.RuneStart(text[atMost]) {
		atMost--
	}
	return text[:atMost]
}
