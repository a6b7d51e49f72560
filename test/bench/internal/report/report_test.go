package report_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/report"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/scenario"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

func example() *report.Run {
	a, b := scenario.Key{Entrant: "a", Figure: "x"}, scenario.Key{Entrant: "b", Figure: "x"}
	return &report.Run{
		Command: "bench", Began: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Took: time.Minute, Rounds: 3,
		Machine: lab.Machine{Cores: 2},
		Results: []*scenario.Result{{
			Scenario: &scenario.Scenario{
				Name: "s", Title: "Some scenario", Text: "What it is.",
				Entrants: []scenario.Entrant{{Name: "a"}, {Name: "b"}}, Columns: []scenario.Column{{Figure: "x", Title: "x/s"}},
				Charts: []scenario.Chart{{Figure: "x", Title: "x", Unit: "x/s"}},
				Lines:  &scenario.LinesChart{Title: "by load"},
				Bars: []scenario.Bar{
					{Text: "a / b", Value: a, Against: b, AtLeast: true, Level: 1.9},
					{Text: "b / a", Value: b, Against: a, Level: 0.4},
					{Text: "for the record", Value: a, Informative: true},
					{Text: "missing", Value: scenario.Key{Entrant: "a", Figure: "y"}, Level: 1},
				},
			},
			Values: map[scenario.Key][]float64{a: {2, 4, 6}, b: {1, 2, 2}},
			Curves: []scenario.Curve{{Entrant: "a", X: []float64{1, 2}, Y: []float64{3, 4}}},
			Notes:  []string{"A note."},
			Errors: []error{errors.New("it broke\nwith details")},
		}},
	}
}

func TestPageSaysWhatWasMeasuredAndReached(t *testing.T) {
	t.Parallel()
	page := example().Markdown("plots")
	for _, line := range []string{
		"| a / b | 2 (2–3) | ≥ 1.90 | yes |",
		"| b / a | 0.50 (0.33–0.50) | ≤ 0.40 | **no** |",
		"| for the record | 4 (2–6) | – | – |",
		"| missing | – | ≤ 1 | not measured |",
		"| a | 4 (2–6) |", "- A note.", "**A turn failed:** it broke\n", "![x](plots/s-x.svg)",
		"![by load](plots/s.svg)", "2 January 2026",
	} {
		require.Contains(t, page, line)
	}
	require.NotContains(t, page, "smoke run")
	require.NotContains(t, page, "with details")
}

func TestWritePutsPlotsBesideThePage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, example().Write(path))
	require.FileExists(t, path)
	for _, plot := range []string{"s-x.svg", "s.svg"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "page", plot))
		require.NoError(t, err)
		require.Contains(t, string(text), "<svg")
	}
}

func TestCell(t *testing.T) {
	t.Parallel()
	require.Equal(t, "–", report.Cell(stat.Of(nil)))
	require.Equal(t, "3", report.Cell(stat.Of([]float64{3, 3})))
	require.Equal(t, "2 (1–3)", report.Cell(stat.Of([]float64{1, 2, 3})))
}
