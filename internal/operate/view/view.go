// Package view says in words, and draws on a terminal, what the read model of package claim holds. The web view says the same
// in the same words.
package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Printable keeps text that others typed from moving the terminal's cursor, or the reader's eye.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}

// Number writes a number with its thousands apart.
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Count writes how many items wait or run: beyond what is counted, it is an estimate, and says so.
func Count(n int64) string {
	if claim.IsEstimate(n) {
		return "about " + Number(n)
	}
	return Number(n)
}

// AtMost writes a count that ends at a limit.
func AtMost(n, limit int64) string {
	if n >= limit {
		return Number(n) + "+"
	}
	return Number(n)
}

// Dead writes how many dead letters are open.
func Dead(d claim.Depth) string {
	if !d.DeadLettersExact {
		return "at least " + Number(d.DeadLetters)
	}
	return Number(d.DeadLetters)
}

// Rate writes how often a second something happens.
func Rate(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return Number(int64(perSecond+.5)) + "/s"
	case perSecond == 0:
		return "0/s"
	}
	return strconv.FormatFloat(perSecond, 'f', 1, 64) + "/s"
}

// Span writes a duration with two units at the most.
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

// SpanOf writes a duration that there may not be.
func SpanOf(d *time.Duration) string {
	if d == nil {
		return "–"
	}
	return Span(*d)
}

// PickupWords says how long items waited for their start.
func PickupWords(p claim.Pickup) string {
	if p.Starts == 0 {
		return "nothing was started in the last hour"
	}
	return fmt.Sprintf("p50 %s, p99 %s (%s starts in %s)", Span(p.P50), Span(p.P99), Number(p.Starts), Span(p.Over))
}

// Temporal says whether Temporal takes workflows from a replica.
func Temporal(s claim.ReplicaState) string {
	if s.BreakerOpen {
		return "PAUSED, probing"
	}
	return "taking"
}

// StallKind names what does not progress.
func StallKind(kind string) string {
	return map[string]string{"TASK_QUEUE": "task queue", "EXECUTION": "execution"}[kind]
}

// Wakes says what a replica is woken by.
func Wakes(s claim.ReplicaState) string {
	switch {
	case s.Listening == nil:
		return "by polls only"
	case !*s.Listening:
		return "NOT LISTENING"
	case s.OnDuty:
		return "listening, on duty"
	}
	return "listening"
}
