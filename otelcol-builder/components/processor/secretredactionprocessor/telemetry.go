package secretredactionprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/metadata"
)

// Why a value, an item or a data point was dropped.
const (
	reasonError    = "detector_error"
	reasonUnstable = "unstable"
	reasonSize     = "size"
	reasonCost     = "cost"
	reasonDepth    = "depth"
	reasonBinary   = "binary"
	reasonPanic    = "panic"
	reasonSummary  = "summary_collision"
)

// tally counts what happened in one batch.
type tally struct {
	request             *request
	work                *detect.Work
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
	*metadata.TelemetryBuilder
	signal     string
	onlySignal metric.MeasurementOption
	alarm      *alarm
}

func newInstruments(settings component.TelemetrySettings, signal string) (*instruments, error) {
	builder, err := metadata.NewTelemetryBuilder(settings)
	onlySignal := metric.WithAttributeSet(attribute.NewSet(attribute.String("signal", signal)))
	return &instruments{builder, signal, onlySignal, newAlarm(settings.Logger)}, err
}

func (i *instruments) record(ctx context.Context, counts *tally) {
	i.recordEach(ctx, i.ProcessorSecretRedactionFindings, "class", counts.classes)
	i.recordEach(ctx, i.ProcessorSecretRedactionDropped, "reason", counts.dropped)
	i.alarm.raise(counts.dropped)
	i.recordEach(ctx, i.ProcessorSecretRedactionMergedDataPoints, "kind", counts.merged)
	i.recordOne(ctx, i.ProcessorSecretRedactionContentRemoved, counts.content)
	i.recordOne(ctx, i.ProcessorSecretRedactionRepairedTexts, counts.repaired)
	i.recordOne(ctx, i.ProcessorSecretRedactionCacheHits, counts.hits)
	i.recordOne(ctx, i.ProcessorSecretRedactionCacheMisses, counts.misses)
	i.recordOne(ctx, i.ProcessorSecretRedactionScannedBytes, counts.bytes)
}

func (i *instruments) recordOne(ctx context.Context, counter metric.Int64Counter, number int64) {
	if number > 0 {
		counter.Add(ctx, number, i.onlySignal)
	}
}

func (i *instruments) recordEach(ctx context.Context, counter metric.Int64Counter, name string, counts map[string]int64) {
	for value, number := range counts {
		counter.Add(ctx, number, metric.WithAttributes(attribute.String("signal", i.signal), attribute.String(name, value)))
	}
}
