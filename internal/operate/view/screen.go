package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// Screen is one frame of `pgdispatch status`.
type Screen struct {
	operate.Overview
	Workspaces []operate.WorkspaceRow
	Sort       operate.WorkspaceOrder
	At         time.Time
	// Err is why the last read failed, or nil. The screen still shows the data read before.
	Err error
	// Footer is the last line, such as a list of keys.
	Footer string
	// Scroll is how many lines below the first are scrolled away. More than MaxScroll count as that.
	Scroll int
	// Instead is shown below the first line, in place of everything else, unless it is empty.
	Instead []string
}

// Style is how a Screen is drawn.
type Style struct {
	// Width and Height are the terminal's, in characters and lines. Zero means unlimited.
	Width, Height int
	Colour        bool
}

const (
	bold, faint, red, yellow, green = "1", "2", "31;1", "33", "32"
	barWidth                        = 10
	nameWidth                       = 30
	plotsFrom                       = 36 // minimum terminal height for plots
)

// Lines draws the screen within the width and height of style.
func (s Screen) Lines(style Style) []string {
	lines := s.all(style)
	if scroll := min(s.Scroll, s.overflow(lines, style)); scroll > 0 {
		lines = slices.Delete(lines, 1, 1+scroll)
	}
	if room := s.room(style); style.Height > 0 && len(lines) > room {
		lines = append(lines[:max(room-1, 0)],
			style.paint(faint, fmt.Sprintf("… %d more lines: enlarge the terminal to see them", len(lines)-room+1)))
	}
	if s.Footer != "" {
		lines = append(lines, style.paint(faint, s.Footer))
	}
	for n := range lines {
		lines[n] = style.cut(lines[n])
	}
	return lines
}

// all returns all lines but the footer.
func (s Screen) all(style Style) []string {
	head := s.head(style)
	if len(s.Instead) > 0 {
		return append(head[:1:1], s.Instead...)
	}
	return slices.Concat(head, s.plots(style), s.replicas(style), s.stalled(style), s.workspaces(style))
}

// MaxScroll returns how many lines can be scrolled away until the last is shown.
func (s Screen) MaxScroll(style Style) int { return s.overflow(s.all(style), style) }

func (s Screen) overflow(lines []string, style Style) int {
	if style.Height <= 0 {
		return 0
	}
	return min(max(len(lines)-s.room(style), 0), len(lines)-1)
}

// room returns how many lines fit above the footer.
func (s Screen) room(style Style) int { return style.Height - truth(s.Footer != "") }

func (s Screen) head(style Style) []string {
	d := s.Depth
	lines := []string{style.paint(bold, "pgdispatch") + "  " + s.state(style) + "  " +
		s.At.Format("2006-01-02 15:04:05 MST")}
	if s.Err != nil {
		lines = append(lines, style.paint(red, "! cannot read the database: "+Printable(s.Err.Error())))
	}
	for _, c := range Concerns(s.Overview) {
		lines = append(lines, style.concern(c)...)
	}
	if d.Signals > 0 {
		lines = append(lines, "",
			fmt.Sprintf("undelivered signals %s, the oldest for %s", Count(d.Signals), SpanOf(d.OldestSignal)))
	}
	if full := FullLimits(s.Limits); full != "" {
		lines = append(lines, "", "full limits "+full)
	}
	completed, failed, cancelled := s.Ended()
	return append(lines, "",
		fmt.Sprintf("waiting %s   unanswered %s   claimed %s of %s   running %s   dead letters %s", Count(d.Pending),
			Unanswered(d.Unanswered, d.OldestUnanswered), Number(d.Claimed), Number(int64(d.MaxClaims)), Count(d.Dispatched),
			Dead(d)),
		fmt.Sprintf("oldest waiting %s   starts %s", SpanOf(d.OldestWaiting), Rate(s.StartsPerSecond())),
		"due to started: "+LatencyWords(s.DueToStarted()), "startable to started: "+LatencyWords(s.StartableToStarted()),
		fmt.Sprintf("last hour: %s completed, %s failed, %s cancelled", Number(completed), Number(failed), Number(cancelled)),
		"")
}

// plots draws the last hour. On a small terminal it draws nothing and leaves the room to the tables.
func (s Screen) plots(style Style) []string {
	plots := Plots(s.Overview)
	if len(plots) == 0 || style.Height > 0 && style.Height < plotsFrom {
		return nil
	}
	table := grid{{"LAST HOUR", "PER MINUTE, UNTIL " + plots[0].Bars[len(plots[0].Bars)-1].At.Format("15:04 MST"), "MAX"}}
	for _, p := range plots {
		table = append(table, []string{strings.ToLower(p.Name), p.Sparkline(), p.Top()})
	}
	return append(table.lines(style), "")
}

func (s Screen) state(style Style) string {
	if s.Err != nil {
		return style.paint(red, "NO ANSWER, showing the last known state")
	}
	for _, c := range Concerns(s.Overview) {
		if c.Severity == Critical {
			return style.paint(red, "NOT STARTING")
		}
	}
	return style.paint(green, "running")
}

func (s Screen) replicas(style Style) []string {
	table := grid{
		{"REPLICA", "VERSION", "UP", "BUSY", "LEASED", "WATCHING", "STARTS", "TEMPORAL", "WAKE-UPS", "LAST SEEN"}}
	for _, r := range s.Replicas {
		table = append(table,
			[]string{Printable(r.ID), Printable(r.Version), Span(r.Up), fmt.Sprintf("%d/%d", r.State.Busy, r.Workers),
				Number(r.Leased),
				Number(r.Watching), Rate(r.State.StartsPerSecond), Temporal(r.State), Wakes(r.State), Span(r.Heard) + " ago"})
	}
	if len(s.Replicas) == 0 {
		return append(table.lines(style), "no replicas: start one with `pgdispatch run`", "")
	}
	return append(table.lines(style), "")
}

// stalled draws the table of stalled task queues and executions, if there are any.
func (s Screen) stalled(style Style) []string {
	if len(s.Stalled) == 0 {
		return nil
	}
	table := grid{{"STALLED", "NAMESPACE", "NAME", "EXECUTIONS", "SINCE", "REASON"}}
	for _, stall := range s.Stalled {
		table = append(table,
			[]string{StallKind(stall.Kind), OrNone(Printable(stall.Namespace)), Printable(stall.Name),
				Number(int64(stall.Executions)), Span(stall.Since), Printable(stall.Detail)})
	}
	return append(table.lines(style), "")
}

func (s Screen) workspaces(style Style) []string {
	table := grid{
		{"WORKSPACE", "PLAN", "RUNNING/LIMIT", "", "WAITING", "OLDEST WAITING", "UNANSWERED", "FAILED LAST DAY", ""}}
	for _, w := range s.Workspaces {
		active := w.Active()
		table = append(table,
			[]string{Style{Width: nameWidth}.cut(Printable(w.Name)), w.Plan, bar(active, int64(w.Limit)),
				fmt.Sprintf("%s/%s", AtMost(active, operate.CountLimit), Slots(w.Limit, w.Burst)),
				AtMost(w.Waiting, operate.CountLimit), SpanOf(w.OldestWaiting), Unanswered(w.Unanswered, w.OldestUnanswered),
				Number(w.Failures), map[bool]string{true: "PAUSED"}[w.Paused]})
	}
	if len(s.Workspaces) == 0 {
		return append(table.lines(style), "no workspaces: insert one into pgdispatch.workspaces")
	}
	return table.lines(style)
}

// bar draws the share of a limit in use. Any use shows at least one block.
func bar(active, limit int64) string {
	used := 0
	if limit > 0 {
		used = int(min((active*barWidth+limit-1)/limit, barWidth))
	}
	return strings.Repeat("█", used) + strings.Repeat("░", barWidth-used)
}

// grid is a table. Its first row is the header.
type grid [][]string

func (g grid) lines(style Style) []string {
	widths := make([]int, len(g[0]))
	for _, row := range g {
		for n, cell := range row {
			widths[n] = max(widths[n], displayWidth(cell))
		}
	}
	lines := []string{}
	for at, row := range g {
		line := ""
		for n, cell := range row {
			line += cell + strings.Repeat(" ", widths[n]-displayWidth(cell)+2)
		}
		if line = strings.TrimRight(line, " "); at == 0 {
			line = style.paint(faint, line)
		}
		lines = append(lines, line)
	}
	return lines
}

func (s Style) paint(how, text string) string {
	if !s.Colour || how == "" {
		return text
	}
	return "\x1b[" + how + "m" + text + "\x1b[0m"
}
