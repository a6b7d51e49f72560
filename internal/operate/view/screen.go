package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

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
	// Scroll is how many lines below the first are scrolled away, and Across how many columns of the tables beside their
	// first. More than MaxScroll and MaxAcross count as these.
	Scroll, Across int
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
	ellipsis                        = "…"
)

// Lines draws the screen within the width and height of style.
func (s Screen) Lines(style Style) []string {
	lines := s.all(style)
	if scroll := min(s.Scroll, s.overflow(lines, style)); scroll > 0 {
		lines = slices.Delete(lines, 1, 1+scroll)
	}
	if room := s.room(style); style.Height > 0 && len(lines) > room {
		lines = append(lines[:max(room-1, 0)], style.paint(faint, fmt.Sprintf("… %d more lines: scroll or enlarge "+
			"the terminal to see them", len(lines)-room+1)))
	}
	if s.Footer != "" {
		lines = append(lines, style.paint(faint, s.Footer))
	}
	for n := range lines {
		lines[n] = style.cut(lines[n], 0)
	}
	return lines
}

// all returns all lines but the footer.
func (s Screen) all(style Style) []string {
	head := s.head(style)
	if len(s.Instead) > 0 {
		return append(head[:1:1], s.Instead...)
	}
	lines := slices.Clone(head)
	for _, table := range s.tables(style) {
		lines = append(lines, table.lines(style, s.Across)...)
	}
	return lines
}

func (s Screen) tables(style Style) []grid {
	return []grid{s.plots(style), s.replicas(), s.stalled(), s.workspaces()}
}

// MaxAcross returns how many columns can be scrolled away until the end of the widest table is shown.
func (s Screen) MaxAcross(style Style) int {
	most := 0
	for _, table := range s.tables(style) {
		most = max(most, table.overflow(style))
	}
	return most
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
	add := func(text string) { lines = append(lines, style.wrapped("", "", text)...) }
	if s.Err != nil {
		lines = append(lines, style.wrapped(red, "! ", "cannot read the database: "+Printable(s.Err.Error()))...)
	}
	for _, c := range Concerns(s.Overview) {
		lines = append(lines, style.concern(c)...)
	}
	if d.Signals > 0 {
		add("")
		add(fmt.Sprintf("undelivered signals %s, the oldest for %s", Count(d.Signals), SpanOf(d.OldestSignal)))
	}
	if full := FullLimits(s.Limits); full != "" {
		add("")
		add("full limits " + full)
	}
	completed, failed, cancelled := s.Ended()
	add("")
	add(fmt.Sprintf("waiting %s   unanswered %s   claimed %s of %s   running %s   dead letters %s", Count(d.Pending),
		Unanswered(d.Unanswered, d.OldestUnanswered), Number(d.Claimed), Number(int64(d.MaxClaims)), Count(d.Dispatched),
		Dead(d)))
	add(fmt.Sprintf("oldest waiting %s   uncertain %s   scheduled %s   starts %s", SpanOf(d.OldestWaiting),
		Unanswered(d.Uncertain, d.OldestUncertain), AtLeast(d.Scheduled, d.ScheduledExact), Rate(s.StartsPerSecond())))
	add("due to started: " + LatencyWords(s.DueToStarted()))
	add("startable to started: " + LatencyWords(s.StartableToStarted()))
	add(fmt.Sprintf("last hour: %s completed, %s failed, %s cancelled", Number(completed), Number(failed),
		Number(cancelled)))
	add("")
	return lines
}

// plots draws the last hour. On a small terminal it draws nothing and leaves the room to the tables.
func (s Screen) plots(style Style) grid {
	plots := Plots(s.Overview)
	if len(plots) == 0 || style.Height > 0 && style.Height < plotsFrom {
		return nil
	}
	table := grid{{"LAST HOUR", "PER MINUTE, UNTIL " + plots[0].Bars[len(plots[0].Bars)-1].At.Format("15:04 MST"), "MAX"}}
	for _, p := range plots {
		table = append(table, []string{strings.ToLower(p.Name), p.Sparkline(), p.Top()})
	}
	return append(table, nil)
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

func (s Screen) replicas() grid {
	table := grid{
		{"REPLICA", "VERSION", "UP", "BUSY", "LEASED", "WATCHING", "STARTS", "TEMPORAL", "WAKE-UPS", "LAST SEEN"}}
	for _, r := range s.Replicas {
		table = append(table,
			[]string{Printable(r.ID), Printable(r.Version), Span(r.Up), fmt.Sprintf("%d/%d", r.State.Busy, r.Workers),
				Number(r.Leased),
				Number(r.Watching), Rate(r.State.StartsPerSecond), Temporal(r.State), Wakes(r.State), Span(r.Heard) + " ago"})
	}
	if len(s.Replicas) == 0 {
		table = append(table, []string{"no replicas: start one with `pgdispatch run`"})
	}
	return append(table, nil)
}

// stalled draws the table of stalled task queues and executions, if there are any.
func (s Screen) stalled() grid {
	if len(s.Stalled) == 0 {
		return nil
	}
	table := grid{{"STALLED", "NAMESPACE", "NAME", "EXECUTIONS", "SINCE", "REASON"}}
	for _, stall := range s.Stalled {
		table = append(table,
			[]string{StallKind(stall.Kind), OrNone(Printable(stall.Namespace)), Printable(stall.Name),
				Number(int64(stall.Executions)), Span(stall.Since), Printable(stall.Detail)})
	}
	return append(table, nil)
}

func (s Screen) workspaces() grid {
	table := grid{
		{"WORKSPACE", "PLAN", "RUNNING/LIMIT", "", "WAITING", "OLDEST WAITING", "SCHEDULED", "UNANSWERED",
			"FAILED LAST DAY", ""}}
	for _, w := range s.Workspaces {
		active := w.Active()
		table = append(table,
			[]string{ansi.Truncate(Printable(w.Name), nameWidth, ellipsis), w.Plan, bar(active, int64(w.Limit)),
				fmt.Sprintf("%s/%s", AtMost(active, operate.CountLimit), Slots(w.Limit, w.Burst)),
				AtLeast(w.Waiting, w.WaitingExact), SpanOf(w.OldestWaiting), AtLeast(w.Scheduled, w.ScheduledExact),
				InDoubt(w.Unanswered, w.OldestUnanswered, w.Uncertain), Number(w.Failures),
				map[bool]string{true: "PAUSED"}[w.Paused]})
	}
	if len(s.Workspaces) == 0 {
		table = append(table, []string{"no workspaces: insert one into pgdispatch.workspaces"})
	}
	return table
}

// bar draws the share of a limit in use. Any use shows at least one block.
func bar(active, limit int64) string {
	used := 0
	if limit > 0 {
		used = int(min((active*barWidth+limit-1)/limit, barWidth))
	}
	return strings.Repeat("█", used) + strings.Repeat("░", barWidth-used)
}

// grid is a table. Its first row is the header. A row of one cell may be wider than its column, and an empty one is an
// empty line.
type grid [][]string

// columns returns the width of each column.
func (g grid) columns() []int {
	widths := []int{}
	for _, row := range g {
		for n, cell := range row {
			if n == len(widths) {
				widths = append(widths, 0)
			}
			if len(row) > 1 {
				widths[n] = max(widths[n], ansi.StringWidth(cell))
			}
		}
	}
	return widths
}

// overflow returns how many columns of the terminal are missing.
func (g grid) overflow(style Style) int {
	missing := -2 - style.Width
	for _, columns := range g.columns() {
		missing += columns + 2
	}
	if style.Width <= 0 {
		return 0
	}
	return max(missing, 0)
}

// lines draws the table. The first column stays while the others are scrolled, at most until the table's end.
func (g grid) lines(style Style, across int) []string {
	widths, lines := g.columns(), []string{}
	across = min(across, g.overflow(style))
	for at, row := range g {
		first, others := "", ""
		for n, cell := range row {
			if cell += strings.Repeat(" ", max(widths[n]-ansi.StringWidth(cell), 0)+2); n == 0 {
				first = cell
			} else {
				others += cell
			}
		}
		if rest := style.Width - ansi.StringWidth(first); style.Width > 0 && rest > 0 {
			others = Style{Width: rest}.cut(strings.TrimRight(others, " "), across)
		}
		line := strings.TrimRight(first+others, " ")
		if at == 0 {
			line = style.paint(faint, line)
		}
		lines = append(lines, line)
	}
	return lines
}

// cut returns what a line shows from a column on, with an ellipsis at each end where something is hidden.
func (s Style) cut(line string, from int) string {
	if from > 0 {
		line = ansi.TruncateLeft(line, from+1, ellipsis)
	}
	if s.Width <= 0 {
		return line
	}
	return ansi.Truncate(line, s.Width, ellipsis)
}

// wrapped paints text in as many lines as the width needs. The first begins with a mark, and the others are indented.
func (s Style) wrapped(how, mark, text string) []string {
	if s.Width > len(mark)+1 {
		text = ansi.Wrap(text, s.Width-ansi.StringWidth(mark), "")
	}
	lines := strings.Split(text, "\n")
	for n, line := range lines {
		lines[n] = s.paint(how, mark+strings.TrimRight(line, " "))
		mark = strings.Repeat(" ", ansi.StringWidth(mark))
	}
	return lines
}

// concern draws a concern with its remedy, on one line if it fits.
func (s Style) concern(c Concern) []string {
	how := map[Severity]string{Critical: red, Warning: yellow}[c.Severity]
	if begun := c.Begun(); begun != "" {
		c.What += " " + begun
	}
	if s.Width <= 0 || ansi.StringWidth("! "+c.What+" → "+c.Remedy) <= s.Width {
		return []string{s.paint(how, "! "+c.What) + s.paint(faint, " → "+c.Remedy)}
	}
	return append(s.wrapped(how, "! ", c.What), s.wrapped(faint, "→ ", c.Remedy)...)
}

func (s Style) paint(how, text string) string {
	if !s.Colour || how == "" {
		return text
	}
	return "\x1b[" + how + "m" + text + "\x1b[0m"
}
