package telemetry

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pgdispatch/pgdispatch/claim"
)

// quiet is a log that nobody reads.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// environment is what a process finds in its variables.
func environment(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { value, ok := variables[name]; return value, ok }
}

// measured returns a telemetry that is scraped, and whose spans are kept.
func measured(t *testing.T) (*Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	about, err := New(t.Context(), Options{Version: "v1", Replica: "r1", Scraped: true, LookupEnv: environment(nil), Log: quiet()})
	require.NoError(t, err)
	spans := tracetest.NewSpanRecorder()
	about.trace(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	t.Cleanup(func() { require.NoError(t, about.Shutdown(context.Background())) })
	return about, spans
}

// value reads a counter or gauge, or how often a histogram was recorded; label is its label's value, if it has one.
func value(t *testing.T, from prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

// sum is of everything that a histogram was told.
func sum(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	return -1
}

// fakeStore answers what it is told to. The functions that a test does not need are nil, and others is the error of the rest.
type fakeStore struct {
	claim  func() (claim.Batch, []int64, error)
	settle func() ([]int64, error)
	others error
}

func (f *fakeStore) SettleAndClaim(context.Context, []claim.Settlement, claim.Wanted) (claim.Batch, []int64, error) {
	return f.claim()
}

func (f *fakeStore) Settle(context.Context, claim.Verb, []claim.Settlement) ([]int64, error) {
	return f.settle()
}

func (f *fakeStore) Heartbeat(context.Context, []claim.Held) ([]int64, error) { return nil, f.others }

func (f *fakeStore) Sweep(context.Context, int) (claim.Swept, error) {
	return claim.Swept{Requeued: 3}, f.others
}

func (f *fakeStore) Finish(context.Context, string, string, string, string) (bool, error) {
	return f.others == nil, f.others
}

// FinishAll says of the first that it is the first to say so, and of the last that it is left.
func (f *fakeStore) FinishAll(_ context.Context, ends []claim.Ended) (map[string]bool, error) {
	if f.others != nil {
		return nil, f.others
	}
	return map[string]bool{ends[0].ExecutionID: true, ends[1].ExecutionID: false}, nil
}

func (f *fakeStore) Adopt(context.Context, int, []string) ([]claim.Execution, error) {
	return []claim.Execution{{}}, f.others
}

func (f *fakeStore) DeleteFinished(context.Context, int) (claim.Deleted, error) {
	return claim.Deleted{Items: 5, DeadLetters: 6, Executions: 7}, f.others
}

// fakeStarter starts what it is asked to, and remembers it.
type fakeStarter struct {
	err   error
	items []claim.Item
}

func (f *fakeStarter) Start(_ context.Context, item claim.Item) (string, error) {
	f.items = append(f.items, item)
	return "run", f.err
}

func (f *fakeStarter) Find(context.Context, claim.Item) (string, bool, error) { return "", false, nil }

// nowhere starts nothing, and succeeds.
type nowhere struct{}

func (nowhere) Start(context.Context, claim.Item) (string, error) { return "", nil }

func (nowhere) Find(context.Context, claim.Item) (string, bool, error) { return "", false, nil }
