package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

const (
	// stalled is the latency in ms from which a start counts as late. Only claims that stop should cost that.
	stalled = 50.0
	// keptUp is the median latency in ms below which the machine keeps up with the load. Otherwise a quick run says
	// nothing of stalls.
	keptUp = stalled / 2
)

// singleRates are the offered rates, each with the maximum ratios of the percentiles.
var singleRates = []struct{ rate, p50, p99, p999 float64 }{{300, 1, 1.2, 2}, {1000, 1.4, 1.2, 2}, {2000, 1.1, 1.2, 2}}

// Single measures the time from an item's commit to its start if all items are of one workspace, as most users begin.
// Nothing that one workspace waits for can then hide behind the others.
func Single() *Scenario {
	s := &Scenario{
		Name: "single", Title: "From commit to start, one workspace",
		Text: "As in the scenario before, but all items are of one workspace. `late` is how many starts took more than " +
			"50 ms, and `stalls` how many claims of an item came more than 50 ms after they could have " +
			"(`pgdispatch_claim_stalls_total`); `singles` is the share of claims that the statement for one key queue served.",
		Columns: []Column{{"p50", "p50 ms"}, {"p99", "p99 ms"}, {"p999", "p99.9 ms"}, {"most", "max ms"}, {"late", "late"},
			{"stalls", "stalls"}, {"singles", "singles %"}, {"cpu", "database CPU µs an item"},
			{"rate", "items/s kept"}},
		Charts: []Chart{{"p99", "One workspace: commit to start, p99", "ms"}},
		Limit:  4 * time.Minute,
	}
	for _, r := range singleRates {
		offered := grouped(r.rate) + "/s"
		own, other := offered+": "+ours, offered+": "+tuned
		s.Entrants = append(s.Entrants, singleEntrant(own, blue, busy(), r.rate),
			singleEntrant(other, yellow, rivers(tunedCooldown), r.rate))
		against := func(figure string, level float64) Bar {
			return Bar{Text: "One workspace, " + offered + ": commit to start " + figure + " / tuned River",
				Value: Key{own, figure}, Against: Key{other, figure}, Level: level}
		}
		s.Bars = append(s.Bars, against("p50", r.p50), against("p99", r.p99), against("p999", r.p999),
			Bar{Text: "One workspace, " + offered + ": stalls", Value: Key{own, "stalls"}, Level: 0})
	}
	return s
}

func singleEntrant(name string, colour int, c contestant, rate float64) Entrant {
	return Entrant{Name: name, Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		s, err := t.run(ctx, c, frontend.Options{CloseAfter: frontend.Never}, warmUps(t))
		if err != nil {
			return err
		}
		return s.close(single(ctx, t, s, rate))
	}}
}

func single(ctx context.Context, t *Turn, s *stage, rate float64) error {
	if len(s.teams) > 0 {
		s.teams = s.teams[:1]
	}
	if _, err := pacedOnce(ctx, s, rate, Quickly(t, 2*time.Second, 300*time.Millisecond)); err != nil {
		return err
	}
	began, err := s.claimCounts(ctx)
	if err != nil {
		return err
	}
	cpu, err := s.lab.ServerCPU()
	if err != nil {
		return err
	}
	o, err := pacedOnce(ctx, s, rate, Quickly(t, 10*time.Second, 2*time.Second))
	if err == nil {
		err = s.awaitSettled(ctx)
	}
	if err != nil {
		return err
	}
	used, err := s.lab.ServerCPU()
	if err != nil {
		return err
	}
	t.Figures["cpu"] = float64((used - cpu).Microseconds()) / float64(len(o.milliseconds))
	ended, err := s.claimCounts(ctx)
	if err != nil {
		return err
	}
	t.Figures["p50"], t.Figures["p99"] = stat.Percentile(o.milliseconds, 0.5), stat.Percentile(o.milliseconds, 0.99)
	t.Figures["p999"], t.Figures["most"] = stat.Percentile(o.milliseconds, 0.999), slices.Max(o.milliseconds)
	late := 0
	for _, took := range o.milliseconds {
		if took > stalled {
			late++
		}
	}
	t.Figures["late"], t.Figures["rate"] = float64(late), o.kept
	if s.template != lab.Ours {
		return nil
	}
	t.Figures["stalls"] = ended.stalls - began.stalls
	t.Figures["singles"] = 100 * (ended.singles - began.singles) / max(ended.all-began.all, 1)
	if t.Lab.Quick && t.Figures["stalls"] > 1 && t.Figures["p50"] < keptUp {
		return fmt.Errorf("claims stalled %.0f times in 2 s while items were startable", t.Figures["stalls"])
	}
	return nil
}

// claimCounts are counts of the product's claims.
type claimCounts struct{ all, singles, stalls float64 }

func (s *stage) claimCounts(ctx context.Context) (c claimCounts, err error) {
	if s.template != lab.Ours {
		return c, nil
	}
	for _, p := range s.processes {
		metrics, err := p.Metrics(ctx)
		if err != nil {
			return c, err
		}
		c.all += metrics["pgdispatch_claim_statements_total"] - metrics["pgdispatch_claim_statements_total declined"]
		c.singles += metrics["pgdispatch_claim_statements_total single"]
		c.stalls += metrics["pgdispatch_claim_stalls_total"]
	}
	return c, nil
}
