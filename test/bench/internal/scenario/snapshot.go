package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

// Snapshot measures what claims cost after minutes of load while an old snapshot is held, which keeps every dead row.
func Snapshot(hold time.Duration) *Scenario {
	return &Scenario{
		Name: "snapshot", Title: "Claims beside an old snapshot",
		Text: "1,000 items per second are enqueued one by one, claimed and settled ten at a time, and ended: a normal " +
			"minute, " + inMinutes(hold) + " while another transaction holds a snapshot (the last minute counts), and a " +
			"minute after it has ended (the last 15 s count). A claim " +
			"is timed together with the look before it.",
		Entrants: []Entrant{{Name: ours, Colour: blue, Run: func(ctx context.Context, t *Turn) error {
			b, err := openBacklog(ctx, t, nil)
			if err == nil {
				err = b.beside(ctx, t, hold)
			}
			if b != nil {
				err = errors.Join(err, b.close())
			}
			return err
		}}},
		Columns: []Column{{"fresh", "fresh: claim p99 ms"}, {"held", "snapshot held: p99 ms"},
			{"after", "a minute after: p99 ms"}, {"rate", "items/s kept"}},
		MaxRounds: 3,
		Limit:     hold + 5*time.Minute,
		Bars: []Bar{
			{Text: "Claim p99 after " + inMinutes(hold) + " beside an old snapshot / fresh", Value: Key{ours, "held"},
				Against: Key{ours, "fresh"}, Level: 3},
			{Text: "The same a minute after the snapshot's end", Value: Key{ours, "after"},
				Against: Key{ours, "fresh"}, Level: 1.5},
		},
	}
}

// inMinutes formats a duration.
func inMinutes(d time.Duration) string {
	switch {
	case d == time.Minute:
		return "a minute"
	case d > 0 && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + " minutes"
	default:
		return d.String()
	}
}

func (b *backlog) beside(ctx context.Context, t *Turn, hold time.Duration) error {
	minute := Quickly(t, time.Minute, 700*time.Millisecond)
	fresh, rate, err := b.busy(ctx, minute, minute*3/4)
	if err != nil {
		return err
	}
	t.Figures["fresh"] = fresh
	tx, err := b.pool.BeginTx(ctx, repeatable)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	// Without a rollback the pool would wait for the connection forever.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, lab.Query("snapshot")); err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	held, rateHeld, err := b.busy(ctx, Quickly(t, hold, minute), minute)
	if err != nil {
		return err
	}
	t.Figures["held"], t.Figures["rate"] = held, min(rate, rateHeld)
	if err := tx.Rollback(ctx); err != nil {
		return fmt.Errorf("end the snapshot: %w", err)
	}
	t.Figures["after"], _, err = b.busy(ctx, minute, minute/4)
	return err
}

// busy enqueues, claims, settles and ends a hundred batches per second. As in a running system, each of the three uses
// a session of its own. It returns the p99 of the claims in the last part of the time.
func (b *backlog) busy(ctx context.Context, duration, last time.Duration) (p99, rate float64, err error) {
	const most = 1 << 16 // batches that wait for the next session, so that a slow one does not block the others
	enqueued, running := make(chan struct{}, most), make(chan []string, most)
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(enqueued)
		for due := began; due.Sub(began) < duration && time.Since(began) < duration; due = due.Add(10 * time.Millisecond) {
			if err := errors.Join(sleepUntil(ctx, due), b.enqueue(ctx)); err != nil {
				return err
			}
			enqueued <- struct{}{}
		}
		return nil
	})
	var took []time.Duration
	claimed, ended := 0, began
	g.Go(func() error {
		defer close(running)
		for range enqueued {
			if time.Since(began) > duration {
				return nil // batches that a slow machine leaves over are dropped
			}
			batch, d, err := b.claim(ctx, claimBatch)
			if err != nil {
				return err
			}
			executions, err := b.hold(ctx, batch)
			if err != nil {
				return err
			}
			running <- executions
			claimed, ended = claimed+len(executions), time.Now()
			if time.Since(began) > duration-last {
				took = append(took, d)
			}
		}
		return nil
	})
	g.Go(func() error {
		for executions := range running {
			if _, err := b.pool.Exec(ctx, lab.Query("finish"), executions); err != nil {
				return fmt.Errorf("finish: %w", err)
			}
		}
		return nil
	})
	err = g.Wait()
	return stat.Percentile(stat.Milliseconds(took), 0.99), float64(claimed) / ended.Sub(began).Seconds(), err
}
