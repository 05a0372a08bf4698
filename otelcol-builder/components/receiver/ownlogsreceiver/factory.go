// Package ownlogsreceiver is a receiver of what the collector itself logs. The OTLP exporter of service.telemetry.logs cannot do
// this to a receiver of the same process: at the end of the process that receiver is already gone, so that each stop took
// twenty seconds and ended with exit code 1.
package ownlogsreceiver

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"

	"otel-rl.example/otelcol-rl/receiver/ownlogsreceiver/internal/metadata"
)

// Config of the receiver: there is nothing to set.
type Config struct{}

// NewFactory returns the factory of the receiver own_logs.
func NewFactory() receiver.Factory {
	return receiver.NewFactory(
		metadata.Type,
		func() component.Config { return &Config{} },
		receiver.WithLogs(create, metadata.LogsStability),
	)
}

func create(_ context.Context, settings receiver.Settings, _ component.Config, next consumer.Logs) (receiver.Logs, error) {
	return newReceiver(settings.TelemetrySettings, next, processLines)
}
