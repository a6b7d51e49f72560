package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// fillFree limits the keys of the measured items, with room for them.
func fillFree(ctx context.Context, _ *Turn, b *backlog) error {
	b.statement = "enqueue_keyed"
	if _, err := b.pool.Exec(ctx, lab.Query("keys_free")); err != nil {
		return fmt.Errorf("add limits: %w", err)
	}
	return nil
}

// fillKeys also creates many full keys, each with an item that runs and one that waits.
func fillKeys(ctx context.Context, t *Turn, b *backlog) error {
	keyed, err := AddTeams(ctx, b.pool, "keyed", 1, 100_000)
	if err != nil {
		return err
	}
	if _, err := b.pool.Exec(ctx, lab.Query("keys_full"), keyed[0].Workspace, keyed[0].Definition,
		Quickly(t, 100_000, 500), lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	if err := b.claimAll(ctx); err != nil {
		return err
	}
	return fillFree(ctx, t, b)
}

// Keys measures what limits by key cost a claim.
func Keys() *Scenario {
	open := backlogs{}
	const none, keyed, full = "no keys", "a key each", "a key each, beside 100,000 full keys"
	return &Scenario{
		Name: "keys", Title: "What a claim costs, by limit keys",
		Text: "As the claims by what is waiting, once without limit keys, once with a random one of 1,000 keys for " +
			"each item, " +
			"and once beside 100,000 keys of another workspace that are full, with an item that waits for each.",
		Entrants: []Entrant{open.entrant(none, grey, nil, (*backlog).measure),
			open.entrant(keyed, blue, fillFree, (*backlog).measure), open.entrant(full, green, fillKeys, (*backlog).measure)},
		Columns: []Column{{"p50", "ten items: p50 ms"}, {"p99", "p99 ms"}, {"claims", "claims for ten"},
			{"one", "one claim: p50 ms"}},
		Bars: []Bar{
			{Text: "Claim p50 beside 100,000 keys in use / no keys", Value: Key{full, "p50"}, Against: Key{none, "p50"},
				Level: 1.2},
			{Text: "Claim p50 beside 100,000 full keys / a key each", Value: Key{full, "p50"}, Against: Key{keyed, "p50"},
				Informative: true},
		},
		Limit: 6 * time.Minute,
		Close: open.close,
	}
}
