// Package telemetry measures a replica: its parts call it with what they did.
//
// Metrics are OpenTelemetry instruments, exported by scrape, by OTLP or both. Traces are exported by OTLP. The standard
// OTEL_* variables set the endpoints.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of all metrics and spans.
const scope = "github.com/pgdispatch/pgdispatch"

// shutdownTimeout bounds the last export.
const shutdownTimeout = 3 * time.Second

// Options configures New.
type Options struct {
	// Version and Replica identify the process.
	Version, Replica string
	// Scraped enables Registry.
	Scraped bool
	// LookupEnv reads the OTEL_* variables that enable exporters. The exporters read the other OTEL_* variables
	// themselves.
	LookupEnv func(string) (string, bool)
	Log       *slog.Logger
}

// Telemetry holds a replica's metrics and traces, and the pulse that it publishes in the database. It implements
// dispatch.Observer and is safe for concurrent use.
type Telemetry struct {
	// Registry serves scrapes. Nil if metrics are not scraped.
	Registry *prometheus.Registry
	// Answered is called after each statement that Postgres has answered. Nil disables it.
	Answered func()
	// Away reports whether Temporal does not answer the replica's own probes. Nil means that this is not known.
	Away func() bool

	version     string
	meter       metric.Meter
	instruments *instruments // measure nothing if metrics are off
	gauges      []metric.Observable
	tracer      trace.Tracer // nil if tracing is off
	heldItems   heldItems
	pulse       pulse
	shutdown    []func(context.Context) error
}

// New sets up what o and the OTEL_* variables ask for. If that is nothing, only the pulse is measured. Otherwise it
// installs the global error handler of OpenTelemetry, which logs to o.Log.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	metrics, metricsErr := exporterOf(o.LookupEnv, "METRICS")
	traces, tracesErr := exporterOf(o.LookupEnv, "TRACES")
	if err := errors.Join(metricsErr, tracesErr); err != nil {
		return nil, err
	}
	t := &Telemetry{version: o.Version, pulse: pulse{starts: rate{began: time.Now()}, news: make(chan struct{}, 1),
		wakeUps: map[string]int64{}}}
	t.heldItems.dispatched = t.pulse.dispatched
	if err := t.measure(noop.Meter{}); err != nil {
		return nil, err
	}
	if !o.Scraped && metrics == offProtocol && traces == offProtocol {
		return t, nil
	}
	handleErrors(o.Log)
	about, err := describe(ctx, o)
	if err != nil {
		return nil, err
	}
	t.Registry = prometheus.NewRegistry()
	if err := t.addMetrics(ctx, o.Scraped, metrics, about); err != nil {
		return nil, err
	}
	if traces != offProtocol {
		exporter, err := newTraceExporter(ctx, traces)
		if err != nil {
			return nil, fmt.Errorf("make exporter of traces: %w", err)
		}
		t.trace(sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)))
	}
	return t, nil
}

// describe returns the resource attributes of the process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override
// them.
func describe(ctx context.Context, o Options) (*resource.Resource, error) {
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "pgdispatch"),
		attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", o.Replica),
	), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return about, nil
}

func (t *Telemetry) addMetrics(ctx context.Context, scraped bool, otlp protocol, about *resource.Resource) error {
	options := []sdkmetric.Option{sdkmetric.WithResource(about)}
	if scraped {
		reader, err := otelprometheus.New(otelprometheus.WithRegisterer(t.Registry), otelprometheus.WithoutScopeInfo(),
			otelprometheus.WithoutTargetInfo(),
			otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes))
		if err != nil {
			return fmt.Errorf("make exporter of metrics: %w", err)
		}
		t.Registry.MustRegister(collectors.NewGoCollector(),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		options = append(options, sdkmetric.WithReader(reader))
	}
	if otlp != offProtocol {
		exporter, err := newMetricExporter(ctx, otlp)
		if err != nil {
			return fmt.Errorf("make exporter of metrics: %w", err)
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	provider := sdkmetric.NewMeterProvider(options...)
	t.shutdown = append(t.shutdown, provider.Shutdown)
	return t.measure(provider.Meter(scope))
}

// measure makes the instruments with meter.
func (t *Telemetry) measure(meter metric.Meter) error {
	made, m, err := newInstruments(meter)
	t.meter, t.instruments, t.heldItems.instruments, t.gauges = meter, made, made, m.gauges
	return err
}

// trace turns tracing on.
func (t *Telemetry) trace(provider *sdktrace.TracerProvider) {
	t.tracer = provider.Tracer(scope)
	t.heldItems.tracer = t.tracer
	t.shutdown = append(t.shutdown, provider.Shutdown)
}

// Shutdown exports the remaining metrics and spans. It gives up after three seconds.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, shutdownTimeout,
		fmt.Errorf("final export timed out after %s", shutdownTimeout))
	defer cancel()
	var all []error
	for _, shutdown := range t.shutdown {
		all = append(all, shutdown(ctx))
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("export remaining telemetry: %w", err)
	}
	return nil
}

// protocol is an OTLP transport.
type protocol string

const (
	offProtocol  protocol = ""
	httpProtocol protocol = "http/protobuf"
	grpcProtocol protocol = "grpc"
)

// exporterOf reads the standard variables and returns the OTLP protocol of a signal, METRICS or TRACES. Unlike the
// standard, it exports nothing until an endpoint is set or OTEL_<signal>_EXPORTER is otlp, so a replica never tries a
// collector that is not configured.
func exporterOf(lookupEnv func(string) (string, bool), signal string) (protocol, error) {
	read := func(name string) string {
		value, _ := lookupEnv(name)
		return strings.ToLower(strings.TrimSpace(value))
	}
	name := "OTEL_" + signal + "_EXPORTER"
	wanted := read("OTEL_EXPORTER_OTLP_ENDPOINT")+read("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	switch value := read(name); {
	case read("OTEL_SDK_DISABLED") == "true" || value == "none" || value == "prometheus" && signal == "METRICS":
		return offProtocol, nil
	case value == "" && !wanted:
		return offProtocol, nil
	case value != "" && value != "otlp":
		return offProtocol, fmt.Errorf("%s is %q: it must be otlp or none", name, value)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch value := protocol(read(name)); value {
		case grpcProtocol, httpProtocol:
			return value, nil
		case "":
		default:
			return offProtocol, fmt.Errorf("%s is %q: it must be grpc or http/protobuf", name, value)
		}
	}
	return httpProtocol, nil
}

func newTraceExporter(ctx context.Context, over protocol) (sdktrace.SpanExporter, error) {
	if over == grpcProtocol {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

func newMetricExporter(ctx context.Context, over protocol) (sdkmetric.Exporter, error) {
	if over == grpcProtocol {
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetrichttp.New(ctx)
}

// complainInterval is the minimum time between two log entries for the same export error.
const complainInterval = time.Minute

// handleErrors sends OpenTelemetry's errors to log. The handler is global to the process.
func handleErrors(log *slog.Logger) {
	var mu sync.Mutex
	var last string
	var at time.Time
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if text := err.Error(); text != last || time.Since(at) >= complainInterval {
			last, at = text, time.Now()
			log.Warn("Cannot export telemetry", "error", text)
		}
	}))
}
