package durableotlpexporter

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"otel-rl.example/otelcol-rl/exporter/durableotlpexporter/internal/metadata"
)

// counters are the exporter's own metrics. They carry the same two labels as those of the collector's exporterhelper.
type counters struct {
	*metadata.TelemetryBuilder
	exporter attribute.KeyValue
	signal   attribute.KeyValue
	base     metric.MeasurementOption
	lag      atomic.Int64 // nanoseconds
}

func newCounters(telemetry component.TelemetrySettings, exporter component.ID, signalName string) (*counters, error) {
	builder, err := metadata.NewTelemetryBuilder(telemetry)
	c := &counters{
		TelemetryBuilder: builder,
		exporter:         attribute.String("exporter", exporter.String()), signal: attribute.String("data_type", signalName),
	}
	c.base = metric.WithAttributeSet(attribute.NewSet(c.exporter, c.signal))
	return c, err
}

// observe registers the gauges.
func (c *counters) observe(ages func() (oldest, sinceSuccess float64, unhealthy bool), letters func() (files, bytes int64)) error {
	gauge := func(read func() float64) metric.Float64Callback {
		return func(_ context.Context, observer metric.Float64Observer) error {
			observer.Observe(read(), c.base)
			return nil
		}
	}
	return errors.Join(
		c.RegisterExporterOldestUndeliveredAgeCallback(gauge(func() float64 { oldest, _, _ := ages(); return oldest })),
		c.RegisterExporterTimeSinceSuccessCallback(gauge(func() float64 { _, since, _ := ages(); return since })),
		c.RegisterExporterUnhealthyCallback(gauge(func() float64 { _, _, sick := ages(); return map[bool]float64{true: 1}[sick] })),
		c.RegisterExporterDeadLetterFilesCallback(gauge(func() float64 { files, _ := letters(); return float64(files) })),
		c.RegisterExporterDeadLetterSizeCallback(gauge(func() float64 { _, bytes := letters(); return float64(bytes) })),
		c.RegisterExporterSendLagCallback(gauge(func() float64 { return float64(c.lag.Load()) / 1e9 })),
	)
}

// add counts items or requests.
func (c *counters) add(counter metric.Int64Counter, number int) {
	counter.Add(context.Background(), int64(number), c.base)
}

// addBecause counts items or requests by the reason that a verdict is.
func (c *counters) addBecause(counter metric.Int64Counter, number int, kind verdict) {
	labels := attribute.NewSet(c.exporter, c.signal, attribute.String("reason", string(kind)))
	counter.Add(context.Background(), int64(number), metric.WithAttributeSet(labels))
}

// noteLag notes how old a newest item was when it was delivered, and returns that; 0 when nothing tells.
func (c *counters) noteLag(newest pcommon.Timestamp, now time.Time) time.Duration {
	if newest == 0 {
		return 0
	}
	age := max(0, now.Sub(newest.AsTime()))
	c.lag.Store(int64(age))
	return age
}
