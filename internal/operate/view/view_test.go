package view

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/pgdispatch/pgdispatch/internal/goldentest"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

var unpainted = regexp.MustCompile("\x1b\\[[0-9;]*m")

func ptr[T any](value T) *T { return &value }

// busy is a screen with an example of everything.
func busy() Screen {
	minutes := make([]operate.Minute, 60)
	for n := range minutes {
		minutes[n].At, minutes[n].Passed = time.Date(2026, 8, 1, 11, 31+n, 0, 0, time.UTC), time.Minute
		minutes[n].Completed, minutes[n].Failed, minutes[n].Started = int64(n*n), int64(n%7), int64(60*n)
		if n > 30 { // no replica ran before
			minutes[n].Waiting, minutes[n].Claimed, minutes[n].Running = ptr(int64(n*n*n)), ptr(int64(n%5)),
				ptr(int64(2000-n*n/2))
		}
	}
	for n := range 100 {
		minutes[59].Waits.Add(time.Duration(n+1) * time.Millisecond)
		minutes[59].StartableWaits.Add(time.Duration(n+1) * 100 * time.Microsecond)
	}
	return Screen{
		At: time.Date(2026, 8, 1, 12, 30, 0, 0, time.UTC),
		Overview: operate.Overview{
			Depth: operate.Depth{Pending: 1_234_567, Scheduled: 10_000, Unanswered: 2,
				OldestUnanswered: ptr(75 * time.Second), Uncertain: 3, OldestUncertain: ptr(40 * time.Second), Claimed: 12,
				Dispatched: 2345, DeadLetters: 3, DeadLettersExact: true, OldestWaiting: ptr(75 * time.Hour), Replicas: 2,
				MaxClaims: 100, Signals: 12, OldestSignal: ptr(90 * time.Second), SignalsGivenUp: 1},
			Replicas: []operate.Replica{
				{ID: "one_7_abcdef", Version: "v1.2.3", Workers: 10, Up: 49 * time.Hour, Leased: 7, Watching: 800,
					Heard: 3 * time.Second,
					State: operate.ReplicaState{Busy: 7, Listening: ptr(true), OnDuty: true, StartsPerSecond: 123.4}},
				{ID: "two_8_abcdef", Version: "v1.2.3", Workers: 10, Up: 90 * time.Second, Leased: 5, Watching: 12,
					Heard: 12 * time.Second,
					State: operate.ReplicaState{Busy: 5, BreakerOpen: true, Listening: ptr(false), StartsPerSecond: .25}},
			},
			Minutes: minutes,
			Limits: operate.LimitUse{Behind: 1234,
				Limits: []operate.KeyLimit{full("smtp", "", 1000), full("sms", "Acme", 34)}},
		},
		Workspaces: []operate.WorkspaceRow{
			{Name: "Acme", Plan: "PRO", Limit: 5, Claimed: 1, Running: 2, Unanswered: 2,
				Uncertain: 1, OldestUnanswered: ptr(75 * time.Second), Waiting: 1000, OldestWaiting: ptr(75 * time.Hour),
				Scheduled: 17, ScheduledExact: true, Failures: 12},
			{Name: "evil\x1b[2J\r\nname " + strings.Repeat("long ", 20), Plan: "FREE", Limit: 0, Paused: true, Waiting: 1,
				OldestWaiting: ptr(350 * time.Millisecond), WaitingExact: true, ScheduledExact: true},
			{Name: "quiet", Plan: "ENTERPRISE", Limit: 100000, WaitingExact: true, ScheduledExact: true},
		},
	}
}

func TestTheScreenShowsEverything(t *testing.T) {
	t.Parallel()
	for name, screen := range map[string]Screen{
		"busy.golden": busy(),
		"empty.golden": {At: time.Date(2026, 8, 1, 12, 30, 0, 0, time.UTC),
			Overview: operate.Overview{Depth: operate.Depth{MaxClaims: 100, ScheduledExact: true,
				DeadLettersExact: true}}},
	} {
		goldentest.Require(t, "testdata/"+name, strings.Join(screen.Lines(Style{}), "\n")+"\n")
	}
}

func TestTheScreenFitsItsTerminal(t *testing.T) {
	t.Parallel()
	screen := busy()
	screen.Err, screen.Footer = errors.New("connection\x1b refused"), "q ends"
	for _, style := range []Style{{Width: 80, Height: 24}, {Width: 40, Height: 5}, {Width: 1, Height: 1},
		{Width: 200, Height: 60}} {
		lines := screen.Lines(style)
		require.LessOrEqual(t, len(lines), max(style.Height, 2))
		require.Equal(t, style.Height >= plotsFrom, strings.Contains(strings.Join(lines, "\n"), "LAST HOUR"),
			"plots are shown only if the tables have room")
		require.Equal(t, Style{Width: style.Width}.cut("q ends", 0), lines[len(lines)-1])
		for _, line := range lines {
			require.LessOrEqual(t, ansi.StringWidth(line), style.Width)
			require.NotContains(t, line, "\x1b", "no escape sequences without colour")
		}
		painted := style
		painted.Colour = true
		for n, line := range screen.Lines(painted) {
			require.Equal(t, lines[n], unpainted.ReplaceAllString(line, ""), "colour does not change the width")
			require.Equal(t, strings.Count(line, "\x1b[")%2, 0, "every colour is reset: %q", line)
		}
	}
}

func TestConcernsSayTheWorstFirst(t *testing.T) {
	t.Parallel()
	well := operate.Overview{Depth: operate.Depth{MaxClaims: 100, DeadLettersExact: true},
		Replicas: []operate.Replica{{}, {}}}
	require.Empty(t, Concerns(well))
	replicas := func(states ...operate.ReplicaState) func(o *operate.Overview) {
		return func(o *operate.Overview) {
			o.Replicas = nil
			for _, state := range states {
				o.Replicas = append(o.Replicas, operate.Replica{State: state})
			}
		}
	}
	away := operate.ReplicaState{BreakerOpen: true}
	for what, change := range map[string]func(o *operate.Overview){
		"No replica is running":             replicas(),
		"Dispatching is paused":             func(o *operate.Overview) { o.Depth.Paused = true },
		"max-claims is 0":                   func(o *operate.Overview) { o.Depth.MaxClaims = 0 },
		"no workflows from any replica":     replicas(away),
		"no workflows from 1 of 2 replicas": replicas(away, operate.ReplicaState{}),
		"1 of 1 replicas do not listen":     replicas(operate.ReplicaState{Listening: ptr(false)}),
		"prevents the claim of 1 item. Item 7: no": func(o *operate.Overview) {
			o.Depth.Parked, o.Depth.ParkedFirst = 1, "7: no"
		},
		"notification queue of Postgres is 12 % full": func(o *operate.Overview) { o.Depth.NotifyQueue = 0.12 },
		"1 start is unanswered for 1 h 0 min. It holds": func(o *operate.Overview) {
			o.Depth.Unanswered, o.Depth.OldestUnanswered = 1, ptr(time.Hour)
		},
		"2 claims are uncertain for 40 s: the answer or the replica was lost": func(o *operate.Overview) {
			o.Depth.Uncertain, o.Depth.OldestUncertain = 2, ptr(40*time.Second)
		},
		"1 dead letter waits": func(o *operate.Overview) { o.Depth.DeadLetters = 1 },
		"At least 9,000 dead letters wait": func(o *operate.Overview) {
			o.Depth.DeadLetters, o.Depth.DeadLettersExact = 9000, false
		},
		"due for 1 h 0 min.": func(o *operate.Overview) { o.Depth.OldestWaiting = ptr(time.Hour) },
		"all 100 leases are in use": func(o *operate.Overview) {
			o.Depth.OldestWaiting, o.Depth.Claimed = ptr(time.Hour), 100
		},
	} {
		o := well
		change(&o)
		got := Concerns(o)
		require.Len(t, got, 1, what)
		require.Contains(t, got[0].What, what)
		require.NotEmpty(t, got[0].Remedy)
	}
	all := busy().Overview
	all.Depth.Paused = true
	severities := []Severity{}
	for _, c := range Concerns(all) {
		severities = append(severities, c.Severity)
	}
	require.Equal(t, append(append([]Severity{Critical}, slices.Repeat([]Severity{Warning}, 6)...), Notice, Notice),
		severities)
}

func TestNumbersAndSpansAreReadable(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1,234,567": Number(1234567), "-1,234": Number(-1234), "-123": Number(-123), "999": Number(999),
		"about 10,000": Count(10000), "9,999": Count(9999),
		"1,000+": AtMost(1000, 1000), "0.3 ms": Span(300 * time.Microsecond), "12 ms": Span(12 * time.Millisecond),
		"1.5 s": Span(1500 * time.Millisecond),
		"59 s":  Span(59 * time.Second), "1 min 1 s": Span(61 * time.Second), "1 h 1 min": Span(61 * time.Minute),
		"47 h 0 min": Span(47 * time.Hour),
		"2 d 1 h":    Span(49 * time.Hour), "0.0 ms": Span(-time.Hour), "–": SpanOf(nil), "0/s": Rate(0), "16/min": Rate(.26),
		"2/min": Rate(2. / 60), "1/min": Rate(1. / 60), "under 1/min": Rate(.001), "1.5/s": Rate(1.5),
		"1,235/s": Rate(1234.6),
	} {
		require.Equal(t, want, got)
	}
}
