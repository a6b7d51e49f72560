package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// functions are the functions of the templates.
var functions = template.FuncMap{
	"number": func(n any) string {
		return view.Number(whole(n))
	},
	"slots": view.Slots, "count": view.Count,
	"span": view.Span, "spanOf": view.SpanOf, "rate": view.Rate, "deadCount": view.Dead,
	"concerns": view.Concerns, "latency": view.LatencyWords, "temporal": view.Temporal, "wakes": view.Wakes,
	"stallKind": view.StallKind, "show": view.Printable,
	"atMost": func(n int64) string { return view.AtMost(n, operate.CountLimit) },
	"bulkVerbs": func() map[string]string {
		return map[string]string{"cancel": "Cancel", "replay": "Replay", "retry": "Retry now"}
	},
	"unanswered": view.Unanswered, "sub1": func(n int) int { return n - 1 },
	"at": at, "ended": func(o operate.Overview) map[string]int64 {
		completed, failed, cancelled := o.Ended()
		return map[string]int64{"completed": completed, "failed": failed, "cancelled": cancelled}
	},
	"changes": view.Changes, "plots": view.Plots, "plot": plot, "charted": newCharted,
	"fullLimits": view.FullLimits, "partClass": partClass, "minute": minuteElement,
	"join": func(words []string) string { return strings.Join(words, " ") }, "lower": strings.ToLower, "remedy": remedy,
}

func whole(n any) int64 {
	switch n := n.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	}
	return 0
}

// at renders a time in UTC as a time element, or a dash for nil.
func at(t any) template.HTML {
	var when time.Time
	switch t := t.(type) {
	case time.Time:
		when = t
	case *time.Time:
		if t == nil {
			return "–"
		}
		when = *t
	}
	when = when.UTC()
	// numbers only
	return template.HTML(
		fmt.Sprintf(`<time datetime="%s">%s</time>`, when.Format(time.RFC3339Nano),
			when.Format("2006-01-02 15:04:05.000 MST")))
}

// charted is plots over a period in words.
type charted struct {
	Words string
	Plots []view.Plot
}

func newCharted(words string, plots []view.Plot) charted { return charted{words, plots} }

const (
	plotHeight = 80
	barStep    = 10
)

// plot draws one figure as SVG, a stacked bar a minute. It does not escape: its input is numbers and texts of package
// view.
func plot(over string, p view.Plot) template.HTML {
	var out strings.Builder
	fmt.Fprintf(&out,
		`<svg class="plot" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" `+
			`aria-label="%s, over the last %s: %s now, maximum %s">`,
		len(p.Bars)*barStep, plotHeight, p.Name, over, p.Bars[len(p.Bars)-1].Words, p.Top())
	for n, bar := range p.Bars {
		fmt.Fprintf(&out, `<g data-at="%s"><title>%s: %s</title><path class="hover" d="M%d 0h%dv%dh-%dz"/>`,
			bar.At.UTC().Format(time.RFC3339), minute(bar.At), bar.Words, n*barStep, barStep, plotHeight, barStep)
		below := 0
		for part, top := range bar.Tops {
			if height := max(scaled(top, p.Most)-below, 0); height > 0 {
				below += height
				fmt.Fprintf(&out, `<path class="%s" d="M%d %dh%dv%dh-%dz"/>`, partClass(p, part), n*barStep+1, plotHeight-below,
					barStep-2, height, barStep-2)
			}
		}
		out.WriteString("</g>")
	}
	out.WriteString("</svg>")
	return template.HTML(out.String()) // see above
}

// scaled returns the height of value on the plot. Any positive value is at least 2 high, so that it is visible.
func scaled(value, most float64) int {
	if value <= 0 {
		return 0
	}
	return int(max(value*(plotHeight-4)/most, 2))
}

// partClass returns the CSS class of a part, which sets its colour.
func partClass(p view.Plot, part int) string {
	if len(p.Parts) == 1 {
		return "whole"
	}
	return p.Parts[part]
}

// minute formats the minute of the day in UTC.
func minute(at time.Time) string { return at.UTC().Format("15:04 MST") }

// minuteElement renders the minute of the day in UTC as a time element.
func minuteElement(at time.Time) template.HTML {
	return template.HTML( // numbers only
		fmt.Sprintf(`<time datetime="%s" data-minute>%s</time>`, at.UTC().Format(time.RFC3339), minute(at)))
}
