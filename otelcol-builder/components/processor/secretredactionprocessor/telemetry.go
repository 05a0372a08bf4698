package secretredactionprocessor

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	scopeName    = "otel-rl.example/otelcol-rl/processor/secretredactionprocessor"
	metricPrefix = "otelcol_processor_secret_redaction_"
)

// Why a value, an item or a data point was dropped.
const (
	reasonError    = "detector_error"
	reasonUnstable = "unstable"
	reasonSize     = "size"
	reasonDepth    = "depth"
	reasonBinary   = "binary"
	reasonPanic    = "panic"
	reasonSummary  = "summary_collision"
)

// tally counts what happened in one batch, and bounds what its texts cost.
type tally struct {
	work                *work
	classes             map[string]int64
	dropped             map[string]int64
	merged              map[string]int64
	content, repaired   int64
	hits, misses, bytes int64
}

func increment(counts *map[string]int64, name string) {
	if *counts == nil {
		*counts = map[string]int64{}
	}
	(*counts)[name]++
}

func (t *tally) class(name string)  { increment(&t.classes, name) }
func (t *tally) drop(reason string) { increment(&t.dropped, reason) }
func (t *tally) merge(kind string)  { increment(&t.merged, kind) }

// instruments are the processor's own metrics for one signal.
type instruments struct {
	signal                                                                      string
	findings, dropped, merged, content, repaired, cacheHits, cacheMisses, bytes metric.Int64Counter
	onlySignal                                                                  metric.MeasurementOption
}

func newInstruments(settings component.TelemetrySettings, signal string) (*instruments, error) {
	meter := settings.MeterProvider.Meter(scopeName)
	var problems error
	counter := func(name, unit, description string) metric.Int64Counter {
		made, err := meter.Int64Counter(metricPrefix+name, metric.WithUnit(unit), metric.WithDescription(description))
		problems = errors.Join(problems, err)
		return made
	}
	made := &instruments{
		signal:      signal,
		findings:    counter("findings", "{finding}", "Secrets and personal data that were masked, by class."),
		content:     counter("content_removed", "{value}", "Values that were removed or shortened because they are content."),
		dropped:     counter("dropped", "{value}", "Values, items or data points that were dropped, by reason."),
		merged:      counter("merged_data_points", "{data_point}", "Data points that became alike by masking and were merged, by kind."),
		repaired:    counter("repaired_texts", "{text}", "Texts with bytes that are no UTF-8, which were replaced."),
		cacheHits:   counter("cache_hits", "{text}", "Texts whose outcome was remembered."),
		cacheMisses: counter("cache_misses", "{text}", "Texts that were scanned."),
		bytes:       counter("scanned_bytes", "By", "Bytes of the texts that were scanned."),
		onlySignal:  metric.WithAttributeSet(attribute.NewSet(attribute.String("signal", signal))),
	}
	return made, problems
}

func (i *instruments) record(ctx context.Context, counts *tally) {
	i.recordEach(ctx, i.findings, "class", counts.classes)
	i.recordEach(ctx, i.dropped, "reason", counts.dropped)
	i.recordEach(ctx, i.merged, "kind", counts.merged)
	for _, each := range []struct {
		counter metric.Int64Counter
		number  int64
	}{{i.content, counts.content}, {i.repaired, counts.repaired}, {i.cacheHits, counts.hits}, {i.cacheMisses, counts.misses}, {i.bytes, counts.bytes}} {
		if each.number > 0 {
			each.counter.Add(ctx, each.number, i.onlySignal)
		}
	}
}

func (i *instruments) recordEach(ctx context.Context, counter metric.Int64Counter, name string, counts map[string]int64) {
	for value, number := range counts {
		counter.Add(ctx, number, metric.WithAttributes(attribute.String("signal", i.signal), attribute.String(name, value)))
	}
}
