package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func TestEveryInstrumentIsMade(t *testing.T) {
	t.Parallel()
	about, _ := measured(t)
	fields := reflect.ValueOf(about.instruments).Elem()
	require.Len(t, Catalogue(), fields.NumField())
	for n := range fields.NumField() {
		require.False(t, fields.Field(n).IsZero(), fields.Type().Field(n).Name)
	}
}

func TestCountersAreThereBeforeTheyCount(t *testing.T) {
	t.Parallel()
	about, _ := measured(t)
	for _, m := range Catalogue() {
		for _, v := range m.Values {
			if m.Kind == "counter" {
				require.Zero(t, value(t, about.Registry, m.Name, v), "%s %s", m.Name, v)
			}
		}
		if m.Kind == "counter" && m.Label == "" {
			require.Zero(t, value(t, about.Registry, m.Name, ""), m.Name)
		}
	}
}

// fakeQueue counts its queries.
type fakeQueue struct {
	asked int
	err   error
	depth operate.Depth
	slow  bool

	limits    operate.LimitUse
	limitsErr error
}

func (f *fakeQueue) QueueDepth(ctx context.Context) (operate.Depth, error) {
	f.asked++
	if f.slow {
		<-ctx.Done()
		return operate.Depth{}, context.Cause(ctx)
	}
	return f.depth, f.err
}

func (f *fakeQueue) WorkspaceStatistics(_ context.Context, atMost int) ([]operate.WorkspaceStatistics, error) {
	return make([]operate.WorkspaceStatistics, atMost), f.err
}

func (f *fakeQueue) LimitUse(_ context.Context, atMost int) (operate.LimitUse, error) {
	f.limits.Limits = f.limits.Limits[:min(atMost, len(f.limits.Limits))]
	return f.limits, f.limitsErr
}

// observed returns a telemetry of a ready replica with seven watches, and with these gauges.
func observed(t *testing.T, gauges *Gauges) *Telemetry {
	t.Helper()
	about, _ := measured(t)
	gauges.Ready = func(context.Context) bool { return true }
	gauges.Watches = func() int { return 7 }
	require.NoError(t, about.Observe(gauges))
	return about
}

func TestTheDatabaseIsAskedOnceInAWhileHoweverManyScrape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := &fakeQueue{}
		gauges := &Gauges{Queue: queue, t: &Telemetry{}}
		for range 10 {
			gauges.recent(t.Context())
		}
		require.Equal(t, 1, queue.asked)
		time.Sleep(depthAge)
		gauges.recent(t.Context())
		require.Equal(t, 2, queue.asked)
	})
}

func TestALookThatTakesTooLongIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		about, _ := measured(t)
		began := time.Now()
		seen := (&Gauges{Queue: &fakeQueue{slow: true}, t: about}).recent(t.Context())
		require.EqualError(t, seen.err, "read queue depth timed out after 3s")
		require.Equal(t, depthTimeout, time.Since(began))
	})
}

func TestWithoutADatabaseTheQueuesGaugesAreNotThere(t *testing.T) {
	t.Parallel()
	about := observed(t, &Gauges{Queue: &fakeQueue{err: errors.New("gone")}, Workers: 3})
	about.Paused(2, true, errors.New("why"))
	for name, want := range map[string]float64{
		"pgdispatch_database_up": 0, "pgdispatch_workers": 3, "pgdispatch_ready": 1, "pgdispatch_breaker_open": 1,
		"pgdispatch_namespaces_paused":   2,
		"pgdispatch_queue_items PENDING": -1, "pgdispatch_paused": -1, "pgdispatch_listener_connected": -1,
	} {
		requireValue(t, about, name, want)
	}
	requireValue(t, about, "pgdispatch_store_errors_total depth", 1)
}

func TestUnansweredStartsHaveGaugesOfTheirOwn(t *testing.T) {
	t.Parallel()
	about := observed(t, &Gauges{Queue: &fakeQueue{depth: operate.Depth{Pending: 2, Unanswered: 3,
		OldestUnanswered: new(time.Hour), Uncertain: 4, OldestUncertain: new(time.Minute)}}})
	requireValue(t, about, "pgdispatch_queue_items PENDING", 2)
	requireValue(t, about, "pgdispatch_queue_items UNANSWERED", 3)
	requireValue(t, about, "pgdispatch_oldest_unanswered_seconds", 3600)
	requireValue(t, about, "pgdispatch_queue_items UNCERTAIN", 4)
	requireValue(t, about, "pgdispatch_oldest_uncertain_seconds", 60)
}

func TestWorkspacesAreNamedOnlyWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	for workspaces, want := range map[int]float64{0: -1, 1: 0} {
		about := observed(t, &Gauges{Queue: &fakeQueue{}, Workspaces: workspaces})
		requireValue(t, about, "pgdispatch_workspace_waiting", want)
	}
}

func TestNothingIsExportedUntilSomebodySaysWhereTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		variables string
		want      protocol
	}{
		{"", offProtocol},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", offProtocol},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", httpProtocol},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318", httpProtocol},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://c:4318", offProtocol},
		{"OTEL_TRACES_EXPORTER=otlp", httpProtocol},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc", grpcProtocol},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf",
			httpProtocol},
		{"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", offProtocol},
		{"OTEL_SDK_DISABLED=true OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", offProtocol},
	} {
		variables := map[string]string{}
		for pair := range strings.FieldsSeq(c.variables) {
			name, value, _ := strings.Cut(pair, "=")
			variables[name] = value
		}
		got, err := exporterOf(environment(variables), "TRACES")
		require.NoError(t, err, c.variables)
		require.Equal(t, c.want, got, c.variables)
	}
}

func TestAnExporterThatIsNotThereIsRefusedByName(t *testing.T) {
	t.Parallel()
	_, err := New(t.Context(), Options{Log: quiet(), LookupEnv: environment(map[string]string{
		"OTEL_METRICS_EXPORTER": "statsd", "OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
	})})
	require.EqualError(t, err, `OTEL_METRICS_EXPORTER is "statsd": it must be otlp or none
OTEL_EXPORTER_OTLP_PROTOCOL is "http/json": it must be grpc or http/protobuf`)
}

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
