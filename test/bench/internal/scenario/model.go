// Package scenario defines the measurements. A scenario is a list of entrants that take turns. A round is one turn of
// each.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

// Figures are the results of one turn of an entrant, by the names of the scenario's columns.
type Figures map[string]float64

// Curve is a line of a plot: an entrant's result at each load that it was measured at.
type Curve struct {
	Entrant string
	X, Y    []float64
}

// Turn is one turn: the lab and the results.
type Turn struct {
	*lab.Lab
	Figures Figures
	// Curve is drawn in the scenario's line plot. It may be empty.
	Curve Curve
	// Notes are printed below the scenario's table, each once.
	Notes []string
}

// Quickly returns full, or quick in a quick run.
func Quickly[T any](t *Turn, full, quick T) T {
	if t.Quick {
		return quick
	}
	return full
}

// Entrant is one of the participants that take turns.
type Entrant struct {
	Name   string
	Colour int
	Run    func(ctx context.Context, t *Turn) error
	// Slow entrants are left out of quick runs.
	Slow bool
}

func (e Entrant) slow() Entrant {
	e.Slow = true
	return e
}

// Column is a figure of a scenario's table.
type Column struct{ Figure, Title string }

// Key names a figure of an entrant.
type Key struct{ Entrant, Figure string }

// Bar is the target for a figure or for a ratio of two figures.
type Bar struct {
	Text        string
	Value       Key
	Against     Key // the divisor; if zero, Value itself is compared
	AtLeast     bool
	Level       float64
	Constant    float64 // a fixed divisor in place of Against, for a figure that needs no measuring
	Informative bool    // shown, but not a target
}

// Chart is a bar plot of one figure.
type Chart struct{ Figure, Title, Unit string }

// Scenario is a set of measurements that are compared with each other.
type Scenario struct {
	Name, Title, Text string
	Entrants          []Entrant
	Columns           []Column
	Bars              []Bar
	Charts            []Chart
	Lines             *LinesChart
	// MaxRounds bounds the number of rounds of a slow scenario. Zero means as many as the run has.
	MaxRounds int
	// Close is called after all rounds. It may be nil.
	Close func() error
	// Limit bounds one turn. Zero means two minutes.
	Limit time.Duration
}

// LinesChart is a plot of the entrants' curves.
type LinesChart struct {
	Title, X, Y string
	MaxY, Mark  float64
}

// Result holds the results of all turns of a scenario. Values have one entry per round, NaN where the turn failed.
type Result struct {
	*Scenario
	Values map[Key][]float64
	Curves []Curve // of the last round that had one; one per entrant
	Notes  []string
	Errors []error
}

const defaultLimit = 2 * time.Minute

// Run runs the rounds, with the entrants taking turns: A B C, A B C. A failed turn is recorded as an error, and the
// others continue.
func (s *Scenario) Run(ctx context.Context, l *lab.Lab, rounds int, say func(string, ...any)) *Result {
	result := &Result{Scenario: s, Values: map[Key][]float64{}}
	if s.MaxRounds > 0 {
		rounds = min(rounds, s.MaxRounds)
	}
	if s.Close != nil {
		defer func() {
			if err := s.Close(); err != nil {
				result.Errors = append(result.Errors, err)
			}
		}()
	}
	for round := range rounds {
		for _, entrant := range s.Entrants {
			if ctx.Err() != nil {
				return result
			}
			if entrant.Slow && l.Quick {
				continue
			}
			began := time.Now()
			t := &Turn{Lab: l, Figures: Figures{}}
			err := s.turn(ctx, t, entrant)
			if err != nil {
				err = fmt.Errorf("%s, round %d, %s: %w", s.Name, round+1, entrant.Name, err)
				result.Errors = append(result.Errors, err)
				say("%v", err)
			}
			result.take(t, entrant, round)
			say("%-10s %d/%d %-34s %5.1f s  %s", s.Name, round+1, rounds, entrant.Name,
				time.Since(began).Seconds(), s.line(t.Figures))
		}
	}
	return result
}

func (s *Scenario) turn(ctx context.Context, t *Turn, entrant Entrant) error {
	limit := s.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the turn timed out after %s", limit))
	defer cancel()
	err := entrant.Run(ctx, t)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

func (r *Result) take(t *Turn, entrant Entrant, round int) {
	for _, column := range r.Columns {
		key := Key{entrant.Name, column.Figure}
		value, ok := t.Figures[column.Figure]
		if !ok {
			value = math.NaN()
		}
		for len(r.Values[key]) < round {
			r.Values[key] = append(r.Values[key], math.NaN())
		}
		r.Values[key] = append(r.Values[key], value)
	}
	if len(t.Curve.X) > 0 {
		t.Curve.Entrant = entrant.Name
		r.Curves = append(dropCurve(r.Curves, entrant.Name), t.Curve)
	}
	for _, note := range t.Notes {
		if !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
	}
}

func dropCurve(curves []Curve, entrant string) []Curve {
	var kept []Curve
	for _, c := range curves {
		if c.Entrant != entrant {
			kept = append(kept, c)
		}
	}
	return kept
}

// Spread returns a figure's spread over the rounds.
func (r *Result) Spread(key Key) stat.Spread {
	var known []float64
	for _, value := range r.Values[key] {
		if !math.IsNaN(value) {
			known = append(known, value)
		}
	}
	return stat.Of(known)
}

// Of returns the spread of a bar's value over the rounds, and reports whether its median meets the target.
func (r *Result) Of(bar Bar) (stat.Spread, bool) {
	var spread stat.Spread
	switch {
	case bar.Against != Key{}:
		spread = stat.Of(stat.Ratios(r.Values[bar.Value], r.Values[bar.Against]))
	default:
		spread = r.Spread(bar.Value)
		if bar.Constant != 0 {
			spread = stat.Spread{Median: spread.Median / bar.Constant, Min: spread.Min / bar.Constant,
				Max: spread.Max / bar.Constant}
		}
	}
	if bar.AtLeast {
		return spread, spread.Median >= bar.Level
	}
	return spread, spread.Median <= bar.Level
}

func (s *Scenario) line(figures Figures) string {
	text := ""
	for _, column := range s.Columns {
		if value, ok := figures[column.Figure]; ok {
			text += fmt.Sprintf("  %s %.4g", column.Figure, value)
		}
	}
	return text
}
