// Package sidesinkprocessor is the processor side_sink: the last one before an exporter that has no queue of its own and stands beside others.
//
// An error of such an exporter would go back through the fan-out to the sender, which sends everything again: the others would
// store it twice, as long as the error lasts. Here the items are dropped for this exporter alone, and counted.
package sidesinkprocessor // import "otel-rl.example/otelcol-rl/processor/sidesinkprocessor"

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"otel-rl.example/otelcol-rl/processor/sidesinkprocessor/internal/metadata"
)

// What happens to items that the exporter does not take.
const (
	// Drop counts them and lets them go.
	Drop = "drop"
	// PushBack answers the sender with the error: where the exporter is the only one.
	PushBack = "push_back"
)

// Config of the processor.
type Config struct {
	// WhenFull is drop or push_back.
	WhenFull string `mapstructure:"when_full"`
}

// Validate refuses what is neither.
func (c *Config) Validate() error {
	if c.WhenFull != Drop && c.WhenFull != PushBack {
		return errors.New(`when_full must be "drop" or "push_back"`)
	}
	return nil
}

// NewFactory returns the factory of the processor side_sink.
func NewFactory() processor.Factory {
	return processor.NewFactory(
		metadata.Type,
		func() component.Config { return &Config{WhenFull: Drop} },
		processor.WithTraces(createTraces, metadata.TracesStability),
		processor.WithMetrics(createMetrics, metadata.MetricsStability),
		processor.WithLogs(createLogs, metadata.LogsStability),
	)
}

// sideSink hands on one signal.
type sideSink struct {
	component.StartFunc
	component.ShutdownFunc
	whenFull string
	logger   *zap.Logger
	dropped  metric.Int64Counter
	labels   metric.MeasurementOption
}

func newSideSink(settings processor.Settings, config component.Config, signal pipeline.Signal) (*sideSink, error) {
	telemetry, err := metadata.NewTelemetryBuilder(settings.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	labels := attribute.NewSet(attribute.String("processor", settings.ID.String()), attribute.String("data_type", signal.String()))
	return &sideSink{
		whenFull: config.(*Config).WhenFull, logger: onceAMinute(settings.Logger), dropped: telemetry.ProcessorSideSinkDroppedItems,
		labels: metric.WithAttributeSet(labels),
	}, nil
}

// onceAMinute returns a logger that says a message at most once a minute.
func onceAMinute(logger *zap.Logger) *zap.Logger {
	return logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Minute, 1, 0)
	}))
}

// Capabilities says that the data stays as it is.
func (*sideSink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// settle decides what the sender hears of what the exporter said: nothing of a drop, which is counted and said once a minute.
func (s *sideSink) settle(ctx context.Context, items int, err error) error {
	if err == nil || s.whenFull == PushBack {
		return err
	}
	s.dropped.Add(ctx, int64(items), s.labels)
	s.logger.Error("A side sink does not take items: they are dropped for it and counted, the other sinks get them."+
		" Fix: see the error; make room on the disk that it writes to.", zap.Int("dropped_items", items), zap.Error(err))
	return nil
}

// What is counted is counted before it is handed on, since the next component may take it out.

func createTraces(_ context.Context, set processor.Settings, config component.Config, next consumer.Traces) (processor.Traces, error) {
	sink, err := newSideSink(set, config, pipeline.SignalTraces)
	return struct {
		*sideSink
		consumer.ConsumeTracesFunc
	}{sink, func(ctx context.Context, data ptrace.Traces) error {
		items := data.SpanCount()
		return sink.settle(ctx, items, next.ConsumeTraces(ctx, data))
	}}, err
}

func createMetrics(_ context.Context, set processor.Settings, config component.Config, next consumer.Metrics) (processor.Metrics, error) {
	sink, err := newSideSink(set, config, pipeline.SignalMetrics)
	return struct {
		*sideSink
		consumer.ConsumeMetricsFunc
	}{sink, func(ctx context.Context, data pmetric.Metrics) error {
		items := data.DataPointCount()
		return sink.settle(ctx, items, next.ConsumeMetrics(ctx, data))
	}}, err
}

func createLogs(_ context.Context, set processor.Settings, config component.Config, next consumer.Logs) (processor.Logs, error) {
	sink, err := newSideSink(set, config, pipeline.SignalLogs)
	return struct {
		*sideSink
		consumer.ConsumeLogsFunc
	}{sink, func(ctx context.Context, data plog.Logs) error {
		items := data.LogRecordCount()
		return sink.settle(ctx, items, next.ConsumeLogs(ctx, data))
	}}, err
}
