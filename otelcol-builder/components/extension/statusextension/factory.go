// Package statusextension answers over HTTP how the collector is: whether it lives, whether it takes data, and whether
// what it took reaches its destinations. The last comes from the status that components report; the stock health check
// of this release knows the first two only.
package statusextension

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"otel-rl.example/otelcol-rl/extension/statusextension/internal/metadata"
)

// NewFactory returns the factory of the extension health_status.
func NewFactory() extension.Factory {
	return extension.NewFactory(
		metadata.Type,
		func() component.Config { return &Config{Endpoint: "127.0.0.1:13133"} },
		func(_ context.Context, settings extension.Settings, config component.Config) (extension.Extension, error) {
			return newStatusExtension(config.(*Config), settings.TelemetrySettings)
		},
		metadata.ExtensionStability,
	)
}
