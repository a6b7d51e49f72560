package telemetry

import (
	"context"
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
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

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
