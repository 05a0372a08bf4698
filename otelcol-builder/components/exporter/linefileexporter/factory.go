// Package linefileexporter is the exporter line_file: OTLP JSON, one request a line, in a file that no other collector writes.
//
// What a sender got an answer for stands in the file as a whole line. A request that does not fit on the disk leaves nothing
// there, and its sender is told.
package linefileexporter // import "otel-rl.example/otelcol-rl/exporter/linefileexporter"

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"otel-rl.example/otelcol-rl/exporter/linefileexporter/internal/metadata"
)

// NewFactory returns the factory of the exporter line_file.
func NewFactory() exporter.Factory {
	return exporter.NewFactory(
		metadata.Type,
		func() component.Config { return &Config{Rotation: Rotation{MaxMegabytes: 256, MaxBackups: 20}} },
		exporter.WithTraces(createTraces, metadata.TracesStability),
		exporter.WithMetrics(createMetrics, metadata.MetricsStability),
		exporter.WithLogs(createLogs, metadata.LogsStability),
	)
}

func createTraces(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Traces, error) {
	file := fileOf(config.(*Config), set.Logger)
	write := writing(file, (&ptrace.JSONMarshaler{}).MarshalTraces)
	return exporterhelper.NewTraces(ctx, set, config, write, exporterhelper.WithStart(file.start), exporterhelper.WithShutdown(file.shutdown))
}

func createMetrics(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Metrics, error) {
	file := fileOf(config.(*Config), set.Logger)
	write := writing(file, (&pmetric.JSONMarshaler{}).MarshalMetrics)
	return exporterhelper.NewMetrics(ctx, set, config, write, exporterhelper.WithStart(file.start), exporterhelper.WithShutdown(file.shutdown))
}

func createLogs(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Logs, error) {
	file := fileOf(config.(*Config), set.Logger)
	write := writing(file, (&plog.JSONMarshaler{}).MarshalLogs)
	return exporterhelper.NewLogs(ctx, set, config, write, exporterhelper.WithStart(file.start), exporterhelper.WithShutdown(file.shutdown))
}

// writing returns the function that writes one request as a line.
func writing[T any](file *lineFile, marshal func(T) ([]byte, error)) func(context.Context, T) error {
	return func(_ context.Context, data T) error {
		line, err := marshal(data)
		if err != nil {
			return consumererror.NewPermanent(err)
		}
		return file.write(append(line, '\n'))
	}
}
