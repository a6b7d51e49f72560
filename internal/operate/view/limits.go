package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// fullNamed is how many full limits are named.
const fullNamed = 3

// FullLimits says how many limits of keys are full, how many items wait for them, and names those for which the most
// wait. It is empty if none is full.
func FullLimits(u operate.LimitUse) string {
	full := u.Full()
	if len(full) == 0 {
		return ""
	}
	text := Number(int64(len(full)))
	if len(full) == operate.MostLimits {
		text += "+"
	}
	it := "them"
	if len(full) == 1 {
		it = "it"
	}
	waiting := AtLeast(u.Behind, u.BehindExact) + plural(u.Behind, " item waits", " items wait")
	text += fmt.Sprintf(", %s for %s: ", waiting, it)
	named := []string{}
	for _, l := range full[:min(len(full), fullNamed)] {
		named = append(named, fmt.Sprintf("%s (%s)", KeyLimitName(l), AtLeast(l.Waiting, l.WaitingExact)))
	}
	text += strings.Join(named, ", ")
	if more := len(full) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// KeyLimitName names a limit by its key and what it covers.
func KeyLimitName(l operate.KeyLimit) string { return Printable(l.Key) + " " + whereLimited(l) }

// whereLimited says what a limit covers.
func whereLimited(l operate.KeyLimit) string {
	if l.WorkspaceID == "" {
		return "over all workspaces"
	}
	return "in " + Printable(l.Workspace)
}

// historyBar is how many minutes one character of a limit's history shows, and historyBars how many there are.
const historyBar, historyBars = 3, 20

// KeyLimitHistory draws the last hour of a limit: how many items with its key held slots, and how many waited. The
// highest of three minutes counts. Both are empty if it was not used.
func KeyLimitHistory(l operate.KeyLimit, now time.Time) (use, waiting Plot) {
	if len(l.History) == 0 {
		return Plot{}, Plot{}
	}
	first := now.Truncate(time.Minute).Add(-(historyBar*historyBars - 1) * time.Minute)
	stretches := make([]operate.LimitMinute, historyBars)
	for n := range stretches {
		stretches[n].At = first.Add(time.Duration(n) * historyBar * time.Minute)
	}
	for _, m := range l.History {
		if n := int(m.At.Sub(first) / (historyBar * time.Minute)); !m.At.Before(first) && n < historyBars {
			s := &stretches[n]
			s.Active, s.Waiting = max(s.Active, m.Active), max(s.Waiting, m.Waiting)
		}
	}
	plot := func(name string, of func(operate.LimitMinute) int64) Plot {
		return plotOf(stretches, name, []string{"items"}, whole, func(m operate.LimitMinute) Bar {
			return Bar{Tops: []float64{float64(of(m))}, Words: Number(of(m))}
		})
	}
	return plot("Running", func(m operate.LimitMinute) int64 { return m.Active }),
		plot("Waiting", func(m operate.LimitMinute) int64 { return m.Waiting })
}
