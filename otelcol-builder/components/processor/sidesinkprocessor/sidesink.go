// Package sidesinkprocessor is the processor side_sink: the last one before an exporter that has no queue of its own and stands beside others.
//
// An error of such an exporter would go back through the fan-out to the sender, which sends everything again: the others would
// store it twice, as long as the error lasts. Here the items are dropped for this exporter alone, and counted.
package sidesinkprocessor // import "otel-rl.example/otelcol-rl/processor/sidesinkprocessor"

import (
	"context"
	"errors"
	"sync"
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

	"otel-rl.example/otelcol-rl/processor/sidesinkprocessor/internal/metadata"
)

// What happens to items that the exporter does not take.
const (
	// Drop counts them and lets them go.
	Drop = "drop"
	// PushBack answers the sender with the error: where the exporter is the only one.
	PushBack = "push_back"
)

// repeatAfter is how long a further loss is only counted after one was logged.
const repeatAfter = time.Minute

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

	mu     sync.Mutex
	spoken time.Time
}

func newSideSink(settings processor.Settings, config component.Config, signal pipeline.Signal) (*sideSink, error) {
	telemetry, err := metadata.NewTelemetryBuilder(settings.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	labels := attribute.NewSet(attribute.String("processor", settings.ID.String()), attribute.String("data_type", signal.String()))
	return &sideSink{
		whenFull: config.(*Config).WhenFull, logger: settings.Logger, dropped: telemetry.ProcessorSideSinkDroppedItems,
		labels: metric.WithAttributeSet(labels),
	}, nil
}

// Capabilities says that the data stays as it is.
func (*sideSink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// settle decides what the sender hears of what the exporter said: nothing of a drop, which is counted and said once a minute.
func (s *sideSink) settle(ctx context.Context, items int, err error) error {
	if err == nil || s.whenFull == PushBack {
		return err
	}
	s.dropped.Add(ctx, int64(items), s.labels)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spoken.IsZero() || time.Since(s.spoken) >= repeatAfter {
		s.spoken = time.Now()
		s.logger.Error("A side sink does not take items: they are dropped for it and counted, the other sinks get them."+
			" Fix: see the error; make room on the disk that it writes to.", zap.Int("dropped_items", items), zap.Error(err))
	}
	return nil
}

type tracesSink struct {
	*sideSink
	next consumer.Traces
}

func createTraces(_ context.Context, set processor.Settings, config component.Config, next consumer.Traces) (processor.Traces, error) {
	made, err := newSideSink(set, config, pipeline.SignalTraces)
	return tracesSink{made, next}, err
}

// ConsumeTraces hands on; what is counted is counted before, since the next component may take it out.
func (s tracesSink) ConsumeTraces(ctx context.Context, data ptrace.Traces) error {
	items := data.SpanCount()
	return s.settle(ctx, items, s.next.ConsumeTraces(ctx, data))
}

type metricsSink struct {
	*sideSink
	next consumer.Metrics
}

func createMetrics(_ context.Context, set processor.Settings, config component.Config, next consumer.Metrics) (processor.Metrics, error) {
	made, err := newSideSink(set, config, pipeline.SignalMetrics)
	return metricsSink{made, next}, err
}

// ConsumeMetrics hands on; what is counted is counted before, since the next component may take it out.
func (s metricsSink) ConsumeMetrics(ctx context.Context, data pmetric.Metrics) error {
	items := data.DataPointCount()
	return s.settle(ctx, items, s.next.ConsumeMetrics(ctx, data))
}

type logsSink struct {
	*sideSink
	next consumer.Logs
}

func createLogs(_ context.Context, set processor.Settings, config component.Config, next consumer.Logs) (processor.Logs, error) {
	made, err := newSideSink(set, config, pipeline.SignalLogs)
	return logsSink{made, next}, err
}

// ConsumeLogs hands on; what is counted is counted before, since the next component may take it out.
func (s logsSink) ConsumeLogs(ctx context.Context, data plog.Logs) error {
	items := data.LogRecordCount()
	return s.settle(ctx, items, s.next.ConsumeLogs(ctx, data))
}
