// Package ownlogs is a receiver of what the collector itself logs. The OTLP exporter of service.telemetry.logs cannot do
// this to a receiver of the same process: at the end of the process that receiver is already gone, so that each stop took
// twenty seconds and ended with exit code 1.
package ownlogs

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"
)

// Config of the receiver: there is nothing to set.
type Config struct{}

// NewFactory returns the factory of the receiver own_logs.
func NewFactory() receiver.Factory {
	return receiver.NewFactory(
		component.MustNewType("own_logs"),
		func() component.Config { return &Config{} },
		receiver.WithLogs(create, component.StabilityLevelDevelopment),
	)
}

func create(_ context.Context, settings receiver.Settings, _ component.Config, next consumer.Logs) (receiver.Logs, error) {
	return newReceiver(settings.TelemetrySettings, next, processLines)
}
