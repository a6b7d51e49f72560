package plot

import (
	"fmt"
	"math"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

// Bar is one value with its spread. Colour identifies the contestant and is the same in every plot.
type Bar struct {
	Label  string
	Spread stat.Spread
	Colour int
}

const (
	barWidth  = 820
	barLabels = 280
	barHeight = 20
	barGap    = 8
	barTop    = 40
	barBottom = 34
)

// Bars draws horizontal bars as long as their medians, with whiskers from minimum to maximum. Bars without a value are
// omitted.
func Bars(title, unit string, bars []Bar) string {
	var shown []Bar
	highest := 0.0
	for _, b := range bars {
		if b.Spread.Known() {
			shown = append(shown, b)
			highest = math.Max(highest, b.Spread.Max)
		}
	}
	c := &canvas{width: barWidth, height: barTop + barBottom + len(shown)*(barHeight+barGap)}
	ticks := Ticks(highest)
	scale := float64(barWidth-barLabels-90) / ticks[len(ticks)-1]
	bottom := float64(c.height - barBottom)

	c.text(0, 18, "ink title", "start", title)
	for _, tick := range ticks {
		x := barLabels + tick*scale
		c.line(x, barTop-6, x, bottom, "grid")
		c.text(x, bottom+16, "dim", "middle", Number(tick))
	}
	c.text(barWidth, bottom+16, "dim", "end", unit)
	for n, b := range shown {
		top := float64(barTop + n*(barHeight+barGap))
		middle := top + barHeight/2
		c.text(barLabels-10, middle+4, "ink", "end", b.Label)
		c.rect(barLabels, top, b.Spread.Median*scale, barHeight, fmt.Sprintf("c%d", b.Colour%colours))
		c.line(barLabels+b.Spread.Min*scale, middle, barLabels+b.Spread.Max*scale, middle, "bar")
		c.text(barLabels+b.Spread.Max*scale+6, middle+4, "ink", "start", Number(b.Spread.Median))
	}
	return c.svg(title)
}
