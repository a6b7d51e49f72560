package telemetry

import (
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
)

// BenchmarkHandOver measures the cost of telemetry per item, in a claim of ten.
func BenchmarkHandOver(b *testing.B) {
	for name, traced := range map[string]bool{"metrics": false, "metrics and traces": true} {
		b.Run(name, func(b *testing.B) {
			about, err := New(b.Context(), Options{Scraped: true, LookupEnv: environment(nil), Log: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			if traced {
				about.trace(sdktrace.NewTracerProvider())
			}
			items, ids := make([]claim.Item, 10), make([]int64, 10)
			for n := range items {
				items[n].ID, ids[n] = int64(n), int64(n)
			}
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(items) {
				now := time.Now()
				about.measureClaim(interval{now, now}, claim.Batch{Items: items}, nil)
				for _, item := range items {
					about.Starting(&item)("run", engine.Started, nil)
				}
				about.measureSettles(claim.Dispatched, ids, interval{now, now})
			}
		})
	}
}
