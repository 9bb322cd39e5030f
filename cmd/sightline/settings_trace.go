package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// traceSettings are the flags of OpenTelemetry. What else its exporter can be told (headers, certificates, compression, the sampler) comes
// from the variables that its specification names, OTEL_….
type traceSettings struct {
	endpoint string
}

// The variables that give the endpoint where no flag does, by OpenTelemetry's specification: the second is the whole address.
const (
	otlpEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otlpTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otlpTracesPath     = "/v1/traces"
)

func (t *traceSettings) flags(f *flag.FlagSet) {
	f.StringVar(&t.endpoint, "otlp-endpoint", "", "send traces of turns and switches, without what is said, to this OpenTelemetry collector: base `address` of OTLP over HTTP, such as http://localhost:4318 (also "+otlpEndpoint+")")
}

// target is where spans go, "" nowhere.
func (t *traceSettings) target(getenv func(string) string) (string, error) {
	base, path := t.endpoint, otlpTracesPath
	if base == "" {
		if base = getenv(otlpTracesEndpoint); base != "" {
			path = ""
		} else {
			base = getenv(otlpEndpoint)
		}
	}
	if base == "" {
		return "", nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("--otlp-endpoint %q: allowed is http://host[:port] or https://host[:port], with a path or without", base)
	}
	if path != "" && strings.HasSuffix(u.Path, path) {
		path = "" // somebody has given the whole address
	}
	return strings.TrimSuffix(base, "/") + path, nil
}

// traceDrain bounds how long the last spans may take at the end.
const traceDrain = 5 * time.Second

// tracer makes spans and sends them; nil: none are made. close sends what is left.
func (t *traceSettings) tracer(getenv func(string) string, log *slog.Logger) (tracer oteltrace.Tracer, closing func(), err error) {
	target, err := t.target(getenv)
	if err != nil || target == "" {
		return nil, func() {}, err
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(target))
	if err != nil {
		return nil, nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	about, err := resource.New(context.Background(), resource.WithAttributes(attribute.String("service.name", "sightline"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv()) // what the environment says goes before
	if err != nil {
		return nil, nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	told := &toldExporter{SpanExporter: exporter, log: log, often: rate.Sometimes{First: 1, Interval: time.Minute}}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(told), sdktrace.WithResource(about))
	return provider.Tracer("sightline"), func() {
		ctx, done := context.WithTimeout(context.Background(), traceDrain)
		defer done()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last traces could not be sent", "error", err)
		}
	}, nil
}

// toldExporter says in our log what goes wrong, in place of OpenTelemetry's own.
type toldExporter struct {
	sdktrace.SpanExporter
	log   *slog.Logger
	often rate.Sometimes
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *toldExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil && !errors.Is(err, context.Canceled) {
		e.often.Do(func() { e.log.Warn("traces could not be sent", "spans", len(spans), "error", err) })
	}
	return nil
}
