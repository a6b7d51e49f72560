package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/view"
)

// functions are what the templates call.
var functions = template.FuncMap{
	"number": func(n any) string { return view.Number(whole(n)) }, "count": view.Count, "span": view.Span, "spanOf": view.SpanOf, "rate": view.Rate, "deadCount": view.Dead,
	"concerns": view.Concerns, "pickup": view.PickupWords, "temporal": view.Temporal, "wakes": view.Wakes, "show": view.Printable,
	"atMost": func(n int64) string { return view.AtMost(n, claim.CountLimit) },
	"sum":    func(a, b int64) int64 { return a + b },
	"at":     at, "ended": func(o claim.Overview) map[string]int64 {
		completed, failed, cancelled := o.Ended()
		return map[string]int64{"completed": completed, "failed": failed, "cancelled": cancelled}
	},
	"changes": view.Changes, "plot": plot, "lower": strings.ToLower, "remedy": remedy,
}

// remedy sets what stands between backticks as code.
func remedy(text string) template.HTML {
	var out strings.Builder
	for n, part := range strings.Split(text, "`") {
		if part = template.HTMLEscapeString(part); n%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		out.WriteString(part)
	}
	return template.HTML(out.String()) // escaped above
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

// at writes a time with its zone, for people and for machines.
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
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, when.Format(time.RFC3339Nano), when.Format("2006-01-02 15:04:05.000 MST"))) // numbers only
}

const (
	plotHeight = 80
	barStep    = 10
)

// plot draws what ended in each minute, completed below failed. All that it writes are numbers.
func plot(minutes []claim.Minute) template.HTML {
	most := int64(1)
	for _, m := range minutes {
		most = max(most, m.Completed+m.Failed)
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg class="plot" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="Items that ended in each of the last 60 minutes; at the most %s in one">`,
		max(len(minutes), 1)*barStep, plotHeight, view.Number(most))
	for n, m := range minutes {
		completed, failed := height(m.Completed, most), height(m.Failed, most)
		fmt.Fprintf(&out, `<g><title>%s UTC: %s completed, %s failed</title><rect class="hover" x="%d" y="0" width="%d" height="%d"/>`+
			`<rect class="completed" x="%d" y="%d" width="%d" height="%d"/><rect class="failed" x="%d" y="%d" width="%d" height="%d"/></g>`,
			m.At.UTC().Format("15:04"), view.Number(m.Completed), view.Number(m.Failed), n*barStep, barStep, plotHeight,
			n*barStep+1, plotHeight-completed, barStep-2, completed, n*barStep+1, plotHeight-completed-failed, barStep-2, failed)
	}
	out.WriteString("</svg>")
	return template.HTML(out.String()) // numbers only
}

// height is a bar's; what is there at all is seen.
func height(count, most int64) int {
	if count == 0 {
		return 0
	}
	return int(max(count*(plotHeight-4)/most, 2))
}
