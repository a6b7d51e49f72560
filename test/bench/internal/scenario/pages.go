package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

// viewedPages are pages of the web view, most with the filter that looks at the most rows.
var viewedPages = []string{
	"items", "items?status=PENDING", "items?status=SCHEDULED", "items?status=COMPLETED", "items?status=FAILED",
	"items?key=none", "items?params=orderId%3D7", "items?workspace=full+7", "items?workspace=nobody",
	"workspaces", "workspaces?sort=running", "workspaces?sort=failures", "workspaces?q=9", "limits", "dead",
	"dead/letters", "dead/letters?error=refused", "find?q=full", "settings",
}

// unseen is a pause after which the overview is read again.
const unseen = 1100 * time.Millisecond

// pages measures each page of a replica until its last byte: the overview when nobody has looked for a while, and the
// slowest of the others.
func (b *backlog) pages(ctx context.Context, t *Turn) error {
	server, err := frontend.Start(frontend.Options{})
	if err != nil {
		return err
	}
	defer server.Stop()
	replica, err := t.Lab.Replica(b.db, server.Address(), lab.Replica{})
	if err != nil {
		return err
	}
	read := func(path string) error { _, err := replica.Read(ctx, "/ui/"+path); return err }
	err = replica.Await(ctx, func() error { return read("") })
	measure := func(path string, pause time.Duration) float64 {
		samples := []float64{}
		for range Quickly(t, 20, 3) {
			<-time.After(pause)
			var took []float64
			if err == nil {
				took, err = timed(1, func() error { return read(path) })
			}
			samples = append(samples, took...)
		}
		return stat.Percentile(samples, .5)
	}
	t.Figures["first"] = measure("", unseen)
	for _, path := range viewedPages {
		t.Figures["page"] = max(t.Figures["page"], measure(path, 0))
	}
	return errors.Join(err, replica.Kill())
}
