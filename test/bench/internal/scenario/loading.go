package scenario

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// Loading measures the memory and time that a replica needs to load all waiting items.
func Loading() *Scenario {
	const workspaces = "100,000 workspaces, 1,000,000 items"
	open := backlogs{}
	return &Scenario{
		Name: "load", Title: "Learning what waits",
		Text: "Ten items wait in each of 100,000 workspaces. An empty store on its own connection claims no " +
			"items, and so loads all waiting items. `kept` is the growth of this process's heap after a " +
			"collection, including the store, and `allocated` is everything allocated meanwhile.",
		Entrants: []Entrant{open.entrant(workspaces, blue, fillWorkspaces, (*backlog).load)},
		Columns:  []Column{{"seconds", "seconds"}, {"kept", "kept MB"}, {"allocated", "allocated MB"}},
		Bars: []Bar{
			{Text: "Loading 100,000 workspaces with 1,000,000 items waiting, s", Value: Key{workspaces, "seconds"}, Level: 2},
			{Text: "The same, MB kept", Value: Key{workspaces, "kept"}, Level: 50},
		},
		Limit: 6 * time.Minute,
		Close: open.close,
	}
}

func fillWorkspaces(ctx context.Context, t *Turn, b *backlog) error {
	if _, err := AddTeams(ctx, b.pool, "workspace", Quickly(t, 100_000, 500), 5); err != nil {
		return err
	}
	if _, err := b.pool.Exec(ctx, lab.Query("enqueue_everywhere"), "workspace", 10, lab.Params); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return nil
}

// load has a new store load all waiting items.
func (b *backlog) load(ctx context.Context, t *Turn) error {
	pool, err := storePool(ctx, b.db.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Ping(ctx); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	before := heap()
	store := &claim.Store{Pool: pool, Owner: "bench", Lease: time.Minute}
	began := time.Now()
	batch, err := store.Claim(ctx, 0)
	if err != nil {
		return err
	}
	t.Figures["seconds"] = time.Since(began).Seconds()
	after := heap()
	runtime.KeepAlive(store)
	t.Figures["kept"] = max(float64(after.HeapAlloc)-float64(before.HeapAlloc), 0) / (1 << 20)
	t.Figures["allocated"] = float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20)
	if !batch.More || len(batch.Items) > 0 {
		return fmt.Errorf("the store found %d items and does not say that more wait: %+v", len(batch.Items), batch)
	}
	return nil
}

// heap returns this process's memory statistics after a garbage collection.
func heap() (stats runtime.MemStats) {
	runtime.GC()
	runtime.GC() // sync.Pools keep their content for one collection
	runtime.ReadMemStats(&stats)
	return stats
}
