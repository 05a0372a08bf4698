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
)

const meterName = "otel-rl.example/otelcol-rl/exporter/durableotlpexporter"

// counters are the exporter's own metrics. They carry the same two labels as those of the collector's exporterhelper.
type counters struct {
	base           attribute.Set
	exporter       attribute.KeyValue
	signal         attribute.KeyValue
	items          metric.Int64Counter
	dropped        metric.Int64Counter
	back           metric.Int64Counter
	removed        metric.Int64Counter
	rejected       metric.Int64Counter
	failures       metric.Int64Counter
	unwritten      metric.Int64Counter
	lagNanoseconds atomic.Int64
	observation    metric.Registration
}

// gauges are what the collector asks for when it is scraped.
type gauges struct {
	ages    func() (oldest, sinceSuccess float64, unhealthy bool)
	letters func() (files int64, bytes int64)
}

func newCounters(telemetry component.TelemetrySettings, exporter component.ID, signalName string) (*counters, error) {
	meter := telemetry.MeterProvider.Meter(meterName)
	c := &counters{exporter: attribute.String("exporter", exporter.String()), signal: attribute.String("data_type", signalName)}
	c.base = attribute.NewSet(c.exporter, c.signal)
	var failures []error
	counter := func(name, unit, description string) metric.Int64Counter {
		made, err := meter.Int64Counter("otelcol_exporter_"+name, metric.WithUnit(unit), metric.WithDescription(description))
		failures = append(failures, err)
		return made
	}
	c.items = counter("dead_letter_items", "{items}", "Items that the endpoint refused for good, written to the dead letters; by reason.")
	c.removed = counter("dead_letter_removed_items", "{items}", "Items of the oldest dead-letter files that had to go for newer ones: these are lost.")
	c.unwritten = counter("dead_letter_failures", "{failures}", "Attempts to write a dead letter that failed; the items wait in the queue.")
	c.rejected = counter("partial_success_rejected_items", "{items}", "Items that the endpoint said it dropped out of requests that it took. It does not say which.")
	c.dropped = counter("overflow_dropped_items", "{items}", "Items dropped because the queue was full and the exporter has when_full: drop.")
	c.back = counter("pushed_back_items", "{items}", "Items that senders have to send again because the queue of another exporter of the signal is full.")
	c.failures = counter("failed_requests", "{requests}", "Requests that the endpoint did not take; by reason.")
	return c, errors.Join(failures...)
}

// observe registers the gauges.
func (c *counters) observe(telemetry component.TelemetrySettings, from gauges) error {
	meter := telemetry.MeterProvider.Meter(meterName)
	var failures []error
	gauge := func(name, unit, description string) metric.Float64ObservableGauge {
		made, err := meter.Float64ObservableGauge("otelcol_exporter_"+name, metric.WithUnit(unit), metric.WithDescription(description))
		failures = append(failures, err)
		return made
	}
	oldest := gauge("oldest_undelivered_age", "s", "Seconds since the request that has been tried longest without success was first tried; 0 when none waits.")
	silent := gauge("time_since_success", "s", "Seconds since the last request that the endpoint took, while others wait; 0 when none waits.")
	unhealthy := gauge("unhealthy", "1", "1 while nothing has got through for unhealthy_after.")
	files := gauge("dead_letter_files", "{files}", "Dead-letter files in the exporter's folder, those of other exporters included.")
	bytes := gauge("dead_letter_size", "By", "Bytes of the dead-letter files in the exporter's folder, those of other exporters included.")
	lag := gauge("send_lag", "s", "Seconds between the time of a newest item of the last delivered request and its delivery.")
	registration, err := meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		with := metric.WithAttributeSet(c.base)
		age, since, sick := from.ages()
		number, size := from.letters()
		observer.ObserveFloat64(oldest, age, with)
		observer.ObserveFloat64(silent, since, with)
		observer.ObserveFloat64(unhealthy, map[bool]float64{true: 1}[sick], with)
		observer.ObserveFloat64(files, float64(number), with)
		observer.ObserveFloat64(bytes, float64(size), with)
		observer.ObserveFloat64(lag, float64(c.lagNanoseconds.Load())/1e9, with)
		return nil
	}, oldest, silent, unhealthy, files, bytes, lag)
	c.observation = registration
	return errors.Join(append(failures, err)...)
}

func (c *counters) stop() error {
	if c.observation == nil {
		return nil
	}
	return c.observation.Unregister()
}

func (c *counters) add(counter metric.Int64Counter, number int64, more ...attribute.KeyValue) {
	set := c.base
	if len(more) > 0 {
		set = attribute.NewSet(append(more, c.exporter, c.signal)...)
	}
	counter.Add(context.Background(), number, metric.WithAttributeSet(set))
}

func (c *counters) buried(items int, kind verdict) {
	c.add(c.items, int64(items), attribute.String("reason", string(kind)))
}

func (c *counters) failed(kind verdict) {
	c.add(c.failures, 1, attribute.String("reason", string(kind)))
}

func (c *counters) overflowed(items int)      { c.add(c.dropped, int64(items)) }
func (c *counters) pushedBack(items int)      { c.add(c.back, int64(items)) }
func (c *counters) removedItems(items int)    { c.add(c.removed, int64(items)) }
func (c *counters) letterFailed()             { c.add(c.unwritten, 1) }
func (c *counters) rejectedItems(items int64) { c.add(c.rejected, items) }

// lag notes how old a newest item was when it was delivered, and returns that; 0 when nothing tells.
func (c *counters) lag(newest pcommon.Timestamp, now time.Time) time.Duration {
	if newest == 0 {
		return 0
	}
	age := max(0, now.Sub(newest.AsTime()))
	c.lagNanoseconds.Store(int64(age))
	return age
}
