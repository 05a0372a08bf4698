package queuestorageextension

import (
	"context"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	generated "otel-rl.example/otelcol-rl/extension/queuestorageextension/internal/metadata"
)

// NewFactory returns the factory of the extension queue_storage.
func NewFactory() extension.Factory {
	return extension.NewFactory(
		generated.Type,
		createDefaultConfig,
		createExtension,
		generated.ExtensionStability,
	)
}

func createExtension(ctx context.Context, settings extension.Settings, config component.Config) (extension.Extension, error) {
	own := config.(*Config)
	stock := filestorage.NewFactory()
	inner := settings
	inner.ID = component.NewIDWithName(stock.Type(), settings.ID.Name())
	storage, err := stock.Create(ctx, inner, &own.Config)
	if err != nil {
		return nil, err
	}
	return newQueueStorage(storage, own, settings.TelemetrySettings)
}
