// Package run performs one run of the harness: measured faults one after another, random faults together, faults that
// stay, and then the check of everything that happened.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/fault"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/schedule"
)

const (
	// warmUp is the undisturbed time before the first fault.
	warmUp = 2 * time.Second
	// rest is the undisturbed time between two measured faults.
	rest = 400 * time.Millisecond
	// healTimeout bounds the wait until work proceeds after a fault.
	healTimeout = 30 * time.Second
	// shortestSafety is the minimum duration of the random faults.
	shortestSafety = 20 * time.Second
	// forTheRest is the part of a run's time for startup, quiescence and the check.
	forTheRest = 40 * time.Second
)

// Options configures a run.
type Options struct {
	lab.Options
	// Length is the approximate total duration of the run.
	Length time.Duration
	// Faults are the faults to measure.
	Faults []*fault.Fault
	// Shard of Shards selects the part of the measured faults that this run takes.
	Shard, Shards int
	// Partial leaves out random faults. Stay includes the faults that stay.
	Partial, Stay bool
	// Out receives the schedule and the progress.
	Out io.Writer
}

// Do performs one run.
func Do(ctx context.Context, o Options) (*Outcome, error) {
	began := time.Now()
	out := &Outcome{Seed: o.Seed}
	measured := schedule.Shard(schedule.Measured(o.Seed, fault.Kinds(o.Faults)), o.Shard, o.Shards)
	safety := max(o.Length-estimate(measured)-forTheRest, shortestSafety)
	random := schedule.Safety(o.Seed+uint64(o.Shard), fault.Kinds(together()), safety)
	if o.Partial {
		random = nil
	}
	printSchedule(o, measured, random)

	l, err := lab.Open(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	err = work(ctx, l, o, out, measured, random)
	out.Length = time.Since(began)
	return out, errors.Join(err, l.Close())
}

func work(ctx context.Context, l *lab.Lab, o Options, out *Outcome, measured, random []schedule.Entry) error {
	baseline, err := Baseline(ctx, l)
	if err != nil {
		return err
	}
	l.Load.Begin(ctx, o.Seed)
	if err := lab.Sleep(ctx, warmUp); err != nil {
		return err
	}
	byName := map[string]*fault.Fault{}
	for _, f := range fault.All() {
		byName[f.Name] = f
	}
	for n, e := range measured {
		r := fault.Run(ctx, l, byName[e.Fault], e, true)
		verdict := "ok"
		if !r.OK() {
			verdict = "NOT OK"
		} else if !r.Measured {
			verdict = "not measured"
		}
		l.Logf("%s: %s: %s: %s [%d of %d]", e.Fault, r.Fault.Figure, r, verdict, n+1, len(measured))
		out.Results = append(out.Results, r)
		if err := heal(ctx, l); err != nil {
			return fmt.Errorf("after %s: %w", e.Fault, err)
		}
	}
	if len(random) > 0 {
		l.Logf("random faults, several at once")
		together := overlap(ctx, l, byName, random)
		out.Random = len(together)
		for _, r := range together {
			if r.Err != nil {
				out.Failed++
			}
		}
		if err := heal(ctx, l); err != nil {
			return fmt.Errorf("after the random faults: %w", err)
		}
	}
	if o.Stay {
		if err := liveness(ctx, l, out); err != nil {
			return err
		}
	}
	out.Check, err = Examine(ctx, l, baseline)
	return err
}

// heal lifts what a fault may have left behind and waits until work proceeds, so that the next figure measures only
// the next fault. Workflows must end as well: the worker reconnects to Temporal seconds after the replicas, and until
// then every slot fills up and nothing starts.
func heal(ctx context.Context, l *lab.Lab) error {
	for _, r := range l.Replicas {
		r.Heal()
		if err := errors.Join(r.Start(), r.Ready(ctx)); err != nil {
			return err
		}
	}
	at := time.Now()
	err := lab.Await(ctx, healTimeout, "work continues", func() (bool, error) {
		var started, ended *time.Time
		err := errors.Join(l.Row(ctx, "first_move", []any{"DISPATCHED", at}, &started),
			l.Row(ctx, "first_move", []any{"COMPLETED", at}, &ended))
		return started != nil && ended != nil, err
	})
	return errors.Join(err, lab.Sleep(ctx, rest))
}

// overlap injects faults at their scheduled times, without waiting for one another.
func overlap(ctx context.Context, l *lab.Lab, byName map[string]*fault.Fault, entries []schedule.Entry) []fault.Result {
	began := time.Now()
	results := make([]fault.Result, len(entries))
	domains := map[string]*sync.Mutex{} // a slow lift delays the next fault of its domain
	for _, e := range entries {
		domains[byName[e.Fault].Domain] = &sync.Mutex{}
	}
	var group sync.WaitGroup
	for i, e := range entries {
		_ = lab.Sleep(ctx, time.Until(began.Add(e.At)))
		f := byName[e.Fault]
		group.Go(func() {
			domains[f.Domain].Lock()
			defer domains[f.Domain].Unlock()
			results[i] = fault.Run(ctx, l, f, e, false)
			if results[i].Err != nil {
				l.Logf("%s: %s", e.Fault, results[i])
			} else {
				l.Logf("%s: lifted", e.Fault)
			}
		})
	}
	group.Wait()
	return results
}

// together returns the faults that may overlap.
func together() []*fault.Fault {
	var faults []*fault.Fault
	for _, f := range fault.All() {
		if !f.Alone {
			faults = append(faults, f)
		}
	}
	return faults
}

// estimate returns the approximate duration of measured faults.
func estimate(entries []schedule.Entry) time.Duration {
	const each = 2 * time.Second
	total := time.Duration(0)
	for _, e := range entries {
		total += e.Hold + each
	}
	return total
}

func printSchedule(o Options, measured, random []schedule.Entry) {
	_, _ = fmt.Fprintf(o.Out, "seed %[1]d (repeat with -seed %[1]d)\n\nfaults that are measured, one after another:\n",
		o.Seed)
	for _, e := range measured {
		_, _ = fmt.Fprintln(o.Out, e)
	}
	if len(random) > 0 {
		_, _ = fmt.Fprintln(o.Out, "\nrandom faults, several at once:")
	}
	for _, e := range random {
		_, _ = fmt.Fprintln(o.Out, e)
	}
	_, _ = fmt.Fprintln(o.Out)
}
