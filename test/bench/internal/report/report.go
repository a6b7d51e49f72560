// Package report writes the results of a run as a Markdown page with plots beside it.
package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/plot"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/scenario"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

// Run holds what is reported of a run.
type Run struct {
	Command string
	Began   time.Time
	Took    time.Duration
	Rounds  int
	Quick   bool
	Machine lab.Machine
	Results []*scenario.Result
}

// Markdown returns the page. Plots are linked relative to it, in a directory with the given name.
func (r *Run) Markdown(plots string) string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\n")
	if r.Quick {
		b.WriteString("**A smoke run: it shows that everything works. Its numbers mean nothing.**\n\n")
	}
	fmt.Fprintf(&b, "Written by the benchmarks themselves on %s, after %s, by\n\n```sh\n%s\n```\n\n",
		r.Began.UTC().Format("2 January 2006"), r.Took.Round(time.Second), r.Command)
	r.machine(&b)
	r.bars(&b)
	for _, result := range r.Results {
		section(&b, result, plots)
	}
	return b.String()
}

func (r *Run) machine(b *strings.Builder) {
	m := r.Machine
	fmt.Fprintf(b, "%d cores (%s), %.0f GB, %s, Postgres %s, %s, River %s. An 8 kB write and fsync took %s in the "+
		"median; the load average was %s as the run began.\n\n",
		m.Cores, m.CPU, m.MemoryGB, m.Kernel, m.Postgres, m.Go, m.River, m.Fsync.Round(time.Microsecond), m.LoadAverage)
	var settings []string
	for name, value := range lab.Settings {
		settings = append(settings, "`"+name+" = "+value+"`")
	}
	slices.Sort(settings)
	fmt.Fprintf(b, "One private cluster for all: %s. Everything runs on this machine and shares its cores: Postgres, the "+
		"writers, one process per contestant, and a Temporal frontend that accepts a start, records its arrival, "+
		"and answers. Each turn of a contestant has a fresh database and begins with a checkpoint. River's workers "+
		"start workflows with Temporal's SDK and its defaults, which compress requests with gzip; `gzip off` is the same "+
		"without that. A run that starts a workflow twice, or not at all, fails.\n\n", strings.Join(settings, ", "))
	fmt.Fprintf(b, "The contestants of a scenario take turns, A B C A B C, for %d rounds (fewer where noted). A "+
		"figure is the median over the rounds, with minimum and maximum in brackets; a ratio is computed within each "+
		"round.\n\n", r.Rounds)
}

// bars writes the table of targets and whether each was met.
func (r *Run) bars(b *strings.Builder) {
	b.WriteString("## What was to be reached\n\n| what | measured | bar | reached |\n|---|---|---|---|\n")
	for _, result := range r.Results {
		for _, bar := range result.Bars {
			spread, reached := result.Of(bar)
			level, verdict := "–", "–"
			if !bar.Informative {
				level = map[bool]string{true: "≥ ", false: "≤ "}[bar.AtLeast] + plot.Number(bar.Level)
				verdict = map[bool]string{true: "yes", false: "**no**"}[reached]
			}
			if !spread.Known() {
				verdict = "not measured"
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", bar.Text, Cell(spread), level, verdict)
		}
	}
	b.WriteString("\n")
}

// Cell formats a figure with its spread for a table. A single value has no spread.
func Cell(s stat.Spread) string {
	switch {
	case !s.Known():
		return "–"
	case s.Min == s.Max:
		return plot.Number(s.Median)
	default:
		return fmt.Sprintf("%s (%s–%s)", plot.Number(s.Median), plot.Number(s.Min), plot.Number(s.Max))
	}
}

func section(b *strings.Builder, result *scenario.Result, plots string) {
	fmt.Fprintf(b, "## %s\n\n%s\n\n", result.Title, result.Text)
	b.WriteString("| |")
	for _, column := range result.Columns {
		fmt.Fprintf(b, " %s |", column.Title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(result.Columns)) + "\n")
	rounds := 0
	for _, entrant := range result.Entrants {
		fmt.Fprintf(b, "| %s |", entrant.Name)
		for _, column := range result.Columns {
			key := scenario.Key{Entrant: entrant.Name, Figure: column.Figure}
			rounds = max(rounds, len(result.Values[key]))
			fmt.Fprintf(b, " %s |", Cell(result.Spread(key)))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "\nRounds: %d.\n\n", rounds)
	for _, note := range result.Notes {
		fmt.Fprintf(b, "- %s\n", note)
	}
	if len(result.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, err := range result.Errors {
		fmt.Fprintf(b, "**A turn failed:** %s\n\n", strings.SplitN(err.Error(), "\n", 2)[0])
	}
	for name, title := range Plots(result) {
		fmt.Fprintf(b, "![%s](%s/%s)\n\n", title.Title, plots, name)
	}
}

// Drawing is a plot and its title.
type Drawing struct{ Title, SVG string }

// Plots yields a result's plots by file name, in order.
func Plots(result *scenario.Result) func(yield func(string, Drawing) bool) {
	return func(yield func(string, Drawing) bool) {
		for _, chart := range result.Charts {
			if !yield(result.Name+"-"+chart.Figure+".svg", Drawing{chart.Title, barsOf(result, chart)}) {
				return
			}
		}
		if result.Lines != nil && len(result.Curves) > 0 {
			yield(result.Name+".svg", Drawing{result.Lines.Title, linesOf(result)})
		}
	}
}

func barsOf(result *scenario.Result, chart scenario.Chart) string {
	var bars []plot.Bar
	for _, entrant := range result.Entrants {
		bars = append(bars, plot.Bar{Label: entrant.Name, Colour: entrant.Colour,
			Spread: result.Spread(scenario.Key{Entrant: entrant.Name, Figure: chart.Figure})})
	}
	return plot.Bars(chart.Title, chart.Unit, bars)
}

func linesOf(result *scenario.Result) string {
	var lines []plot.Line
	for _, entrant := range result.Entrants {
		for _, curve := range result.Curves {
			if curve.Entrant != entrant.Name {
				continue
			}
			line := plot.Line{Label: entrant.Name, Colour: entrant.Colour}
			for n := range curve.X {
				line.Points = append(line.Points, plot.Point{X: curve.X[n], Y: curve.Y[n]})
			}
			lines = append(lines, line)
		}
	}
	l := result.Lines
	return plot.Lines(plot.Axes{Title: l.Title, X: l.X, Y: l.Y, MaxY: l.MaxY, Mark: l.Mark}, lines)
}

// Write writes the page to path, and the plots to a directory beside it that is named after the page.
func (r *Run) Write(path string) error {
	dir := strings.TrimSuffix(path, filepath.Ext(path))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the plots' directory: %w", err)
	}
	for _, result := range r.Results {
		for name, drawing := range Plots(result) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(drawing.SVG), 0o644); err != nil {
				return fmt.Errorf("write plot: %w", err)
			}
		}
	}
	if err := os.WriteFile(path, []byte(r.Markdown(filepath.Base(dir))), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
