package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// quiet discards the log.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// environment is a process's environment variables.
func environment(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { value, ok := variables[name]; return value, ok }
}

// measured returns a telemetry with a scraped registry and recorded spans.
func measured(t *testing.T) (*Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	about := must.Get(New(t.Context(),
		Options{Version: "v1", Replica: "r1", Scraped: true, LookupEnv: environment(nil), Log: quiet()})).In(t)
	spans := tracetest.NewSpanRecorder()
	about.trace(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	t.Cleanup(func() { require.NoError(t, about.Shutdown(context.Background())) })
	return about, spans
}

// value reads a counter or gauge, or the count of a histogram; label is its label's value, if it has one.
func value(t *testing.T, from prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families := must.Get(from.Gather()).In(t)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

// sum returns the sum of a histogram's values.
func sum(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families := must.Get(from.Gather()).In(t)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	return -1
}

// start starts an item with this outcome, and returns the request as it was sent.
func start(about *Telemetry, item claim.Item, outcome engine.Outcome) claim.Item {
	var err error
	if outcome != engine.Started {
		err = errors.New(outcome.String())
	}
	about.Starting(&item)("run", outcome, err)
	return item
}
