package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// vainRate is how many items per second are offered in addition.
const vainRate = 300.0

// Vain measures how often replicas that race for the same items request items that another has already taken.
func Vain() *Scenario {
	two, twenty := vainEntrant(2, blue), vainEntrant(20, green)
	return &Scenario{
		Name: "vain", Title: "Claims in vain",
		Text: "Replicas with their defaults (ten workers each) and no W race for the items of 20 workspaces. Under full " +
			"load 32 writers insert as fast as they can for 5 s, one row per commit, until all are started; then 16 " +
			"writers offer 300 items per second for 10 s. `in vain` is the share of the entries of all claims that " +
			"yielded no item (`pgdispatch_claims_vain_total` over `pgdispatch_claim_entries_total`).",
		Entrants: []Entrant{two, twenty},
		Columns: []Column{{"vain", "in vain %"}, {"entries", "entries an item"}, {"starts", "starts/s"},
			{"paced", "300/s offered: in vain %"}, {"pacedentries", "entries an item"}},
		Bars: []Bar{
			{Text: "Claims in vain under full load, 2 replicas, %", Value: Key{two.Name, "vain"}, Level: 5},
			{Text: "Claims in vain under full load, 20 replicas, %", Value: Key{twenty.Name, "vain"}, Level: 15},
			{Text: "The same at 300 items/s offered, 20 replicas, %", Value: Key{twenty.Name, "paced"}, Informative: true},
		},
		MaxRounds: 3,
		Limit:     4 * time.Minute,
	}
}

func vainEntrant(count, colour int) Entrant {
	return Entrant{Name: strconv.Itoa(count) + " replicas", Colour: colour, Run: func(ctx context.Context, t *Turn) error {
		c := replicas(Quickly(t, count, min(count, 4)), lab.Replica{}, Alone("enqueue"))
		c.maxClaims = lab.NoLimit
		s, err := t.run(ctx, c, frontend.Options{CloseAfter: frontend.Never}, warmUps(t))
		if err != nil {
			return err
		}
		return s.close(vain(ctx, t, s))
	}}
}

func vain(ctx context.Context, t *Turn, s *stage) error {
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	before, err := s.entries(ctx)
	if err != nil {
		return err
	}
	began, warm := time.Now(), s.server.Counts().Starts
	_, sent, err := s.load(enqueueWriters).Flood(ctx, 0, Quickly(t, 5*time.Second, 300*time.Millisecond))
	if err == nil {
		err = s.awaitSettled(ctx)
	}
	if err != nil {
		return errors.Join(err, s.alive())
	}
	t.Figures["starts"] = float64(len(sent)) / time.Since(began).Seconds()
	flooded, err := s.entries(ctx)
	if err != nil {
		return err
	}
	paced, err := s.load(pacedWriters).Paced(ctx, vainRate, Quickly(t, 10*time.Second, 300*time.Millisecond))
	if err == nil {
		err = s.awaitSettled(ctx)
	}
	if err != nil {
		return errors.Join(err, s.alive())
	}
	after, err := s.entries(ctx)
	if err != nil {
		return err
	}
	t.Figures["vain"], t.Figures["entries"] = before.until(flooded, len(sent))
	t.Figures["paced"], t.Figures["pacedentries"] = flooded.until(after, len(paced))
	return s.requireStarts(warm + len(sent) + len(paced))
}

// entries counts the entries that all replicas have requested so far, and those requested in vain.
type entries struct{ all, vain float64 }

// until compares two counts. It returns the percentage of entries between them that were in vain, and the entries per
// item.
func (e entries) until(later entries, items int) (vain, each float64) {
	all := later.all - e.all
	return 100 * (later.vain - e.vain) / max(all, 1), all / float64(max(items, 1))
}

func (s *stage) entries(ctx context.Context) (e entries, err error) {
	for _, p := range s.processes {
		metrics, err := p.Metrics(ctx)
		if err != nil {
			return e, err
		}
		all, ok := metrics["pgdispatch_claim_entries_total"]
		if !ok {
			return e, fmt.Errorf("read metrics: this pgdispatch does not count what its claims ask for")
		}
		e.all += all
		e.vain += metrics["pgdispatch_claims_vain_total"]
	}
	return e, nil
}

// awaitReady waits until every replica serves its metrics.
func (s *stage) awaitReady(ctx context.Context) error {
	for _, p := range s.processes {
		for {
			_, err := p.Metrics(ctx)
			if err == nil {
				break
			}
			if wait := errors.Join(s.alive(), sleepUntil(ctx, time.Now().Add(20*time.Millisecond))); wait != nil {
				return errors.Join(err, wait)
			}
		}
	}
	return nil
}
