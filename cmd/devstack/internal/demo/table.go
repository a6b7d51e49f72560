package demo

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// tableLayout formats one line of the table: workspace, plan, pending, running, peak, completed, failed, pickup.
const tableLayout = "  %-16s %-11s %8s %9s %9s %10s %7s %10s %10s"

// tableNotes explain the less obvious columns.
var tableNotes = []string{
	"  running: now / limit of the plan. peak: the most seen running at once.",
	"  pickup: from the moment an item could start (inserted, due, and a slot of its workspace free)",
	"          until Temporal had accepted its workflow.",
}

// lines renders the board as text.
func (b board) lines() []string {
	out := []string{fmt.Sprintf(tableLayout,
		"workspace", "plan", "pending", "running", "peak", "completed", "failed", "pickup p50", "pickup p99")}
	for _, w := range b.Workspaces {
		out = append(out, fmt.Sprintf(tableLayout, shorten(w.Name, 16), w.Plan,
			fmt.Sprint(w.Pending), fmt.Sprintf("%d/%d", w.Running, w.Slots), fmt.Sprintf("%d/%d", b.Peaks[w.ID], w.Slots),
			fmt.Sprint(w.Completed), fmt.Sprint(w.Failed), milliseconds(w.P50), milliseconds(w.P99)))
	}
	for _, f := range b.Failures {
		out = append(out, fmt.Sprintf("  failed: item %d of %s: %s", f.ItemID, f.Workspace, firstLine(f.Error)))
	}
	return out
}

// milliseconds formats a latency, or a dash if there is none yet.
func milliseconds(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", *ms)
}

// firstLine returns text up to its first line break.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// shorten truncates text that is longer than width characters.
func shorten(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}
