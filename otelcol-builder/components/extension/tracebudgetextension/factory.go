// Package tracebudgetextension is a policy of the tail_sampling processor that keeps a share of the traces by their trace id,
// and lowers that share where the traces kept would exceed a budget of spans per second.
package tracebudgetextension

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"otel-rl.example/otelcol-rl/extension/tracebudgetextension/internal/metadata"
)

const defaultWindow = 10 * time.Second

// NewFactory returns the factory of the extension trace_budget.
func NewFactory() extension.Factory {
	return extension.NewFactory(
		metadata.Type,
		func() component.Config { return &Config{Gateways: 1, Window: defaultWindow} },
		func(_ context.Context, settings extension.Settings, config component.Config) (extension.Extension, error) {
			return newTraceBudget(settings.TelemetrySettings, config.(*Config), time.Now)
		},
		metadata.ExtensionStability,
	)
}
