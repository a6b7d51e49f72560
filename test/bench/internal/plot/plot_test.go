package plot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/plot"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

// requireXML reads a drawing to its end and returns the number of elements of each name.
func requireXML(t *testing.T, drawing string) map[string]int {
	t.Helper()
	elements := map[string]int{}
	for decoder := xml.NewDecoder(strings.NewReader(drawing)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		require.NoError(t, err, drawing)
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
}

func TestBarsDrawsWhatIsKnown(t *testing.T) {
	t.Parallel()
	drawing := plot.Bars("a < b & c", "ms", []plot.Bar{
		{Label: "one", Spread: stat.Of([]float64{1, 2, 3})},
		{Label: "two", Spread: stat.Of([]float64{12000}), Colour: 9},
		{Label: "missing", Spread: stat.Of(nil)},
	})

	require.Equal(t, 2, requireXML(t, drawing)["rect"])
	require.Contains(t, drawing, "a &lt; b &amp; c")
	require.Contains(t, drawing, "12,000")
	require.NotContains(t, drawing, "missing")
	require.NotContains(t, drawing, "NaN")
	require.Contains(t, drawing, "prefers-color-scheme:dark")
}

func TestBarsWithoutAnyValueAreEmptyAndValid(t *testing.T) {
	t.Parallel()
	require.Zero(t, requireXML(t, plot.Bars("nothing", "ms", nil))["rect"])
	drawing := plot.Bars("zero", "ms", []plot.Bar{{Label: "zero", Spread: stat.Of([]float64{0})}})
	requireXML(t, drawing)
	require.NotContains(t, drawing, "NaN")
}

func TestLinesStayInsideTheirPlot(t *testing.T) {
	t.Parallel()
	drawing := plot.Lines(plot.Axes{Title: "p99", X: "items/s", Y: "ms", MaxY: 100, Mark: 50}, []plot.Line{
		{Label: "a", Points: []plot.Point{{X: 1000, Y: 5}, {X: 2000, Y: 5000}}},
		{Label: "b", Colour: 1},
	})

	elements := requireXML(t, drawing)
	require.Equal(t, 2, elements["circle"])
	require.Equal(t, 2, elements["polyline"])
	require.NotContains(t, drawing, `cy="-`)
	require.NotContains(t, drawing, "NaN")
	require.NotContains(t, plot.Lines(plot.Axes{}, nil), "NaN")
}

func TestTicksAreRoundAndReachTheTop(t *testing.T) {
	t.Parallel()
	require.Equal(t, []float64{0, 5, 10, 15, 20}, plot.Ticks(17))
}

func TestTicksOfOddInputs(t *testing.T) {
	t.Parallel()
	for _, highest := range []float64{0, -1, math.NaN(), math.Inf(1), 1, 1e-6, 99999} {
		ticks := plot.Ticks(highest)
		require.Greater(t, len(ticks), 1)
		require.Less(t, len(ticks), 12)
		if highest > 0 && !math.IsInf(highest, 0) {
			require.GreaterOrEqual(t, ticks[len(ticks)-1], highest)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{
		0: "0", 1234567: "1,234,567", -1234: "-1,234", 999.6: "1000", 123.4: "123", 42.04: "42.0", 1.234: "1.23", 0.5: "0.50",
		0.0123: "0.012", 3: "3",
	} {
		require.Equal(t, want, plot.Number(value))
	}
	require.Equal(t, "–", plot.Number(math.NaN()))
}
