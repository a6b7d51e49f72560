// Package plot draws the benchmarks' plots as SVG that is readable on light and dark pages.
package plot

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// style follows the page's colour scheme: ink and grid change, the colours of the series stay.
const style = `<style>
.ink{fill:#1f2328}.dim{fill:#59636e}.grid{stroke:#d1d9e0;stroke-width:1}.axis{stroke:#59636e;stroke-width:1}
.bar{stroke:#1f2328;stroke-width:1.2}
.c0{fill:#2f81f7;stroke:#2f81f7}.c1{fill:#8b949e;stroke:#8b949e}.c2{fill:#d29922;stroke:#d29922}
.c3{fill:#db6d28;stroke:#db6d28}
.c4{fill:#a371f7;stroke:#a371f7}.c5{fill:#3fb950;stroke:#3fb950}.line{fill:none;stroke-width:2}
text{font:12px system-ui,sans-serif}.title{font-weight:600;font-size:14px}
@media (prefers-color-scheme:dark){.ink{fill:#f0f6fc}.dim{fill:#9198a1}.grid{stroke:#3d444d}.axis{stroke:#9198a1}
.bar{stroke:#f0f6fc}}
</style>`

const colours = 6

// canvas collects elements. Coordinates are in pixels, from the top left.
type canvas struct {
	strings.Builder
	width, height int
}

func (c *canvas) text(x, y float64, class, anchor, text string) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor,
		html.EscapeString(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`+"\n", x1, y1, x2, y2, class)
}

func (c *canvas) rect(x, y, width, height float64, class string) {
	fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"/>`+"\n", x, y, width, height, class)
}

// svg closes the drawing. The title is also the text for screen readers.
func (c *canvas) svg(title string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`aria-label="%s">`+"\n",
		c.width, c.height, c.width, c.height, html.EscapeString(title)) + style + "\n" + c.String() + "</svg>\n"
}

// Ticks returns about four round values from 0 to at least highest. A highest that is not a positive number counts as
// 1.
func Ticks(highest float64) []float64 {
	if !(highest > 0) || math.IsInf(highest, 0) {
		highest = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(highest/4)))
	for _, factor := range []float64{1, 2, 2.5, 5, 10} {
		if highest/(step*factor) <= 5 {
			step *= factor
			break
		}
	}
	ticks := []float64{0}
	for n := 1; ticks[len(ticks)-1] < highest; n++ {
		ticks = append(ticks, float64(n)*step)
	}
	return ticks
}

// Number formats a value for reading: three significant digits, with separated thousands.
func Number(value float64) string {
	switch magnitude := math.Abs(value); {
	case math.IsNaN(value):
		return "–"
	case magnitude >= 1000:
		return grouped(int64(math.Round(value)))
	case magnitude >= 100 || value == math.Trunc(value):
		return strconv.FormatFloat(value, 'f', 0, 64)
	case magnitude >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	case magnitude >= 0.1:
		return strconv.FormatFloat(value, 'f', 2, 64)
	default:
		return strconv.FormatFloat(value, 'g', 2, 64)
	}
}

func grouped(value int64) string {
	digits := strconv.FormatInt(value, 10)
	for n := len(digits) - 3; n > 0 && digits[n-1] != '-'; n -= 3 {
		digits = digits[:n] + "," + digits[n:]
	}
	return digits
}
