package plot

import (
	"fmt"
	"math"
	"strings"
)

// Point is one point of a line.
type Point struct{ X, Y float64 }

// Line is a series of points, ordered by X.
type Line struct {
	Label  string
	Colour int
	Points []Point
}

// Axes configures a line plot.
type Axes struct {
	Title, X, Y string
	// MaxY clips the plot: values above it are drawn at its edge. Zero disables clipping.
	MaxY float64
	// Mark draws a horizontal reference level. Zero means none.
	Mark float64
}

const (
	lineWidth  = 760
	lineHeight = 340
	lineLeft   = 60
	lineRight  = 20
	lineTop    = 60
	lineBottom = 44
)

// Lines draws lines in one pair of axes. Both axes start at 0.
func Lines(axes Axes, lines []Line) string {
	highX, highY := 0.0, axes.Mark
	for _, line := range lines {
		for _, p := range line.Points {
			highX, highY = math.Max(highX, p.X), math.Max(highY, p.Y)
		}
	}
	if axes.MaxY > 0 {
		highY = math.Min(highY, axes.MaxY)
	}
	c := &canvas{width: lineWidth, height: lineHeight}
	ticksX, ticksY := Ticks(highX), Ticks(highY)
	topX, topY := ticksX[len(ticksX)-1], ticksY[len(ticksY)-1]
	x := func(v float64) float64 { return lineLeft + v/topX*(lineWidth-lineLeft-lineRight) }
	y := func(v float64) float64 {
		return lineHeight - lineBottom - math.Min(v, topY)/topY*(lineHeight-lineTop-lineBottom)
	}

	c.text(0, 18, "ink title", "start", axes.Title)
	for _, tick := range ticksY {
		c.line(lineLeft, y(tick), lineWidth-lineRight, y(tick), "grid")
		c.text(lineLeft-6, y(tick)+4, "dim", "end", Number(tick))
	}
	for _, tick := range ticksX {
		c.text(x(tick), lineHeight-lineBottom+16, "dim", "middle", Number(tick))
	}
	c.text(lineLeft-6, lineTop-14, "dim", "end", axes.Y)
	c.text(lineWidth-lineRight, lineHeight-8, "dim", "end", axes.X)
	if axes.Mark > 0 {
		c.line(lineLeft, y(axes.Mark), lineWidth-lineRight, y(axes.Mark), "bar")
	}
	for n, line := range lines {
		class := fmt.Sprintf("c%d", line.Colour%colours)
		legend := float64(lineLeft + 170*n)
		c.rect(legend, 32, 12, 12, class)
		c.text(legend+18, 42, "ink", "start", line.Label)
		var path strings.Builder
		for _, p := range line.Points {
			fmt.Fprintf(&path, "%.1f,%.1f ", x(p.X), y(p.Y))
			fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" class="%s"/>`+"\n", x(p.X), y(p.Y), class)
		}
		fmt.Fprintf(c, `<polyline points="%s" class="%s line" style="fill:none"/>`+"\n",
			strings.TrimSpace(path.String()), class)
	}
	return c.svg(axes.Title)
}
