package scenario

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

const (
	// patience is the maximum p99, in milliseconds, at which an offered rate counts as kept.
	patience = 50.0
	// keeps is the minimum share of an offered rate that the writers must have achieved.
	keeps = 0.97
)

// searchStep is the result of one offered rate.
type searchStep struct {
	rate, p99 float64
	good      bool
}

// search finds the greatest rate that try calls good. It raises the rate by a quarter until one is not good, then
// bisects.
func search(
	from, limit float64, halvings int, try func(rate float64) (searchStep, error),
) (float64, []searchStep, error) {
	var steps []searchStep
	attempt := func(rate float64) (bool, error) {
		step, err := try(rate)
		if err == nil {
			steps = append(steps, step)
		}
		return step.good, err
	}
	best, bad := 0.0, limit
	for rate := from; rate < limit; rate *= 1.25 {
		good, err := attempt(rate)
		if err != nil {
			return best, steps, err
		}
		if !good {
			bad = rate
			break
		}
		best = rate
	}
	for range halvings {
		middle := (best + bad) / 2
		good, err := attempt(middle)
		if err != nil {
			return best, steps, err
		}
		if good {
			best = middle
		} else {
			bad = middle
		}
	}
	return best, steps, nil
}

func rateEntrant(name string, colour int, c contestant) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.run(ctx, c, frontend.Options{CloseAfter: frontend.Never}, warmUps(t))
		if err != nil {
			return err
		}
		duration := Quickly(t, 4*time.Second, 300*time.Millisecond)
		best, steps, err := search(Quickly(t, 1000.0, 200), Quickly(t, 20000.0, 300), Quickly(t, 3, 0),
			func(rate float64) (searchStep, error) {
				o, err := pacedOnce(ctx, s, rate, duration)
				if err != nil {
					return searchStep{}, fmt.Errorf("offer %.0f items/s: %w", rate, err)
				}
				p99 := stat.Percentile(o.milliseconds, 0.99)
				return searchStep{rate, p99, p99 <= patience && o.kept >= keeps*rate}, s.awaitSettled(ctx)
			})
		t.Figures["best"] = best
		for _, step := range inOrder(steps) {
			t.Curve.X, t.Curve.Y = append(t.Curve.X, step.rate), append(t.Curve.Y, step.p99)
		}
		return s.close(err)
	}}
}

// Greatest measures the highest rate that can be offered before items wait.
func Greatest() *Scenario {
	return &Scenario{
		Name: "rate", Title: "The highest offered rate with a p99 of 50 ms",
		Text: "16 writers raise the rate, 4 s at each step, and then search around the highest good rate: a rate is " +
			"good if the writers kept 97 % of it and the p99 from commit to start stayed within 50 ms.",
		Entrants: []Entrant{rateEntrant("pgdispatch", blue, busy()),
			rateEntrant("River tuned", yellow, rivers(tunedCooldown))},
		Columns: []Column{{"best", "items/s"}},
		Charts:  []Chart{{"best", "The highest offered rate with a p99 of 50 ms", "items/s"}},
		Lines: &LinesChart{Title: "Commit to start, p99, by offered rate", X: "items/s offered", Y: "ms",
			MaxY: 100, Mark: patience},
		Bars: []Bar{
			{Text: "Highest offered rate with p99 of 50 ms / tuned River's", Value: Key{"pgdispatch", "best"},
				Against: Key{"River tuned", "best"}, AtLeast: true, Level: 1.4},
		},
		Limit: 6 * time.Minute,
	}
}

func inOrder(steps []searchStep) []searchStep {
	return slices.SortedFunc(slices.Values(steps), func(a, b searchStep) int { return cmp.Compare(a.rate, b.rate) })
}
