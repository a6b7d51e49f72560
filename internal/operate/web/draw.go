package web

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// functions are the functions of the templates.
var functions = template.FuncMap{
	"number": func(n any) string {
		return view.Number(whole(n))
	},
	"slots": view.Slots, "atLeast": view.AtLeast, "count": view.Count,
	"span": view.Span, "spanOf": view.SpanOf, "rate": view.Rate, "deadCount": view.Dead,
	"concerns": view.Concerns, "latency": view.LatencyWords, "temporal": view.Temporal, "wakes": view.Wakes,
	"stallKind": view.StallKind, "show": view.Printable,
	"atMost":  func(n int64) string { return view.AtMost(n, operate.CountLimit) },
	"inDoubt": view.InDoubt, "sub1": func(n int) int { return n - 1 },
	"at": at, "ended": func(o operate.Overview) map[string]int64 {
		completed, failed, cancelled := o.Ended()
		return map[string]int64{"completed": completed, "failed": failed, "cancelled": cancelled}
	},
	"changes": view.Changes, "charts": chartsOf, "plot": plot, "partClass": partClass, "minute": minuteElement,
	"join": func(words []string) string { return strings.Join(words, " ") }, "remedy": remedy,
	"topPages": func() []topPage { return topPages }, "bandClass": bandClass, "ago": ago, "initial": initial,
	"static": func(file string) string { return staticPath + file }, "bar": bar, "anyError": anyError, "short": short,
}

func whole(n any) int64 {
	switch n := n.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case *int:
		return int64(*n)
	}
	return 0
}

// topPages are the pages that the header links to, each by its template, its name and its path.
var topPages = []topPage{{"overview", "Overview", Prefix}, {"items", "Items", Prefix + "items"},
	{"workspaces", "Workspaces", Prefix + "workspaces"}, {"limits", "Limits", Prefix + "limits"},
	{"dead", "Dead letters", Prefix + "dead"}, {"settings", "Settings", Prefix + "settings"}}

type topPage struct{ Title, Name, Path string }

// initial returns the first letter of a name, for the button of the menu.
func initial(name string) string {
	r, _ := utf8.DecodeRuneInString(name)
	return strings.ToUpper(view.Printable(string(r)))
}

// bandClass returns the CSS class of the overview's state.
func bandClass(all []view.Concern) string {
	class := "good"
	for _, c := range all {
		if c.Severity == view.Critical {
			return "bad"
		}
		if !c.Later() {
			class = "warn"
		}
	}
	return class
}

// ago renders how long ago something happened, with the time.
func ago(t any) template.HTML {
	when, is := moment(t)
	if !is {
		return at(t)
	}
	return template.HTML( // numbers only
		fmt.Sprintf(`<time datetime="%s" title="%s" data-ago>%s</time>`, when.Format(time.RFC3339Nano),
			when.Format(stampLayout), view.Ago(time.Since(when))))
}

// moment returns a time in UTC, unless it is nil.
func moment(t any) (time.Time, bool) {
	switch t := t.(type) {
	case time.Time:
		return t.UTC(), true
	case *time.Time:
		if t != nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// bar draws the share of a limit in use.
func bar(active, limit any) template.HTML {
	most, used := max(whole(limit), 1), min(whole(active), whole(limit))
	class := "bar"
	if used >= most {
		class += " full"
	}
	return template.HTML( // numbers only
		fmt.Sprintf(`<svg class="%s" viewBox="0 0 %d 8" aria-hidden="true">`+
			`<rect class="track" width="%[2]d" height="8" rx="4"/><rect width="%d" height="8" rx="4"/></svg>`,
			class, barWidth, used*barWidth/most))
}

// anyError reports whether an item of a table has an error.
func anyError(rows []listed) bool {
	return slices.ContainsFunc(rows, func(l listed) bool { return l.LastError != "" })
}

// short formats a duration in one unit, or a dash for nil.
func short(d *time.Duration) string {
	if d == nil || *d < time.Second {
		return view.SpanOf(d)
	}
	return strings.TrimSuffix(view.Ago(*d), " ago")
}

const stampLayout = "2006-01-02 15:04:05.000 MST"

// at renders a time in UTC as a time element, or a dash for nil.
func at(t any) template.HTML {
	when, is := moment(t)
	if !is {
		return "–"
	}
	return template.HTML( // numbers only
		fmt.Sprintf(`<time datetime="%s">%s</time>`, when.Format(time.RFC3339Nano), when.Format(stampLayout)))
}

// charted is the figures of a page: each is a plot, or several to choose from. Table has what is shown as a table.
type charted struct {
	Words   string
	Figures [][]view.Plot
	Table   []view.Plot
}

// chartsOf returns the figures of an overview, or nil if nothing is known.
func chartsOf(g glance) *charted {
	all := view.Plots(g.Charted)
	if all == nil {
		return nil
	}
	waiting, running, due, startable := all[0], all[2], all[4], all[5]
	due.Name, startable.Name = "Including waits for capacity", "Time to start"
	figures := []view.Plot{view.Throughput(g.Charted), startable, due, waiting, running}
	figures = view.Marked(figures, g.Stops, g.Charted.Minutes)
	return &charted{g.Period.Words, [][]view.Plot{figures[:1], figures[1:]}, all}
}

const (
	plotHeight = 180
	barStep    = 10
	barWidth   = 96
	axisLabels = 4 // below a plot, and one more
)

// plot draws one figure as SVG, a stacked bar a minute, with its axes. It does not escape: its input is numbers and
// texts of package view, and escaped texts.
func plot(over string, p view.Plot) template.HTML {
	var out, line strings.Builder
	top, width := axisTop(p), len(p.Bars)*barStep
	fmt.Fprintf(&out, `<div class="frame"><svg class="plot" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" `+
		`aria-label="%s, over the last %s: %s now, maximum %s"><path class="grid" d="M0 0h%dM0 %dh%dM0 %dh%d"/>`,
		width, plotHeight, p.Name, over, p.Bars[len(p.Bars)-1].Words, p.Top(), width, plotHeight/2, width, plotHeight, width)
	for n, bar := range p.Bars {
		words := bar.Words
		fmt.Fprintf(&out, `<g data-at="%s">`, bar.At.UTC().Format(time.RFC3339))
		if bar.Stop != "" {
			words += "; " + template.HTMLEscapeString(bar.Stop)
			fmt.Fprintf(&out, `<path class="shade" d="M%d 0h%dv%dh-%dz"/>`, n*barStep, barStep, plotHeight, barStep)
		}
		fmt.Fprintf(&out, `<title>%s: %s</title><path class="hover" d="M%d 0h%dv%dh-%dz"/>`, minute(bar.At), words,
			n*barStep, barStep, plotHeight, barStep)
		below := 0
		for part, end := range bar.Tops {
			if height := max(scaled(end, top)-below, 0); height > 0 {
				below += height
				fmt.Fprintf(&out, `<path class="%s" d="M%d %dh%dv%dh-%dz"/>`, partClass(p, part), n*barStep+1,
					plotHeight-below, barStep-2, height, barStep-2)
			}
		}
		out.WriteString("</g>")
		if len(bar.Tops) > 0 && p.Line != "" {
			step := "L"
			if n == 0 || len(p.Bars[n-1].Tops) == 0 {
				step = "M"
			}
			fmt.Fprintf(&line, "%s%d %d", step, n*barStep+barStep/2, plotHeight-scaled(bar.Line, top))
		}
	}
	fmt.Fprintf(&out, `<path class="line" d="%s"/></svg><span class="y" aria-hidden="true">`, line.String())
	for _, at := range []float64{top, top / 2, 0} {
		fmt.Fprintf(&out, "<span>%s</span>", axisWords(p, at))
	}
	out.WriteString(`</span><span class="x" aria-hidden="true">`)
	for n := range axisLabels + 1 {
		out.WriteString(string(minuteElement(p.Bars[n*(len(p.Bars)-1)/axisLabels].At)))
	}
	out.WriteString("</span></div>")
	return template.HTML(out.String()) // see above
}

// axisTop returns the upper end of a plot's axis: 1, 2 or 5 times a power of ten or, of times above a minute, whole
// minutes or hours.
func axisTop(p view.Plot) float64 {
	most := p.Most
	if most <= 0 {
		return 1
	}
	if most > 60 && p.Timed() {
		for _, top := range []float64{120, 300, 600, 1200, 3600, 7200, 6 * 3600, 12 * 3600, 24 * 3600, 48 * 3600} {
			if top >= most {
				return top
			}
		}
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, step := range []float64{1, 2, 5} {
		if step*power >= most {
			return step * power
		}
	}
	return 10 * power
}

// axisWords formats a height beside the axis.
func axisWords(p view.Plot, at float64) string {
	return strings.TrimSuffix(strings.TrimPrefix(strings.Replace(p.Write(at), ".0 ", " ", 1), "about "), " 0 s")
}

// scaled returns the height of value on the plot. Any positive value is at least 2 high, so that it is visible.
func scaled(value, most float64) int {
	if value <= 0 {
		return 0
	}
	return int(max(value*plotHeight/most, 2))
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
