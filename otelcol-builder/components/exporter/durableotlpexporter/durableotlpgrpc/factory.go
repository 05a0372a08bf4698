// Package durableotlpgrpc is the exporter durable_otlp_grpc.
package durableotlpgrpc // import "otel-rl.example/otelcol-rl/exporter/durableotlpexporter/durableotlpgrpc"

import (
	"slices"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/otlpexporter"

	durable "otel-rl.example/otelcol-rl/exporter/durableotlpexporter"
	"otel-rl.example/otelcol-rl/exporter/durableotlpexporter/durableotlpgrpc/internal/metadata"
)

// Config is that of the stock exporter otlp_grpc and the keys of durability.
type Config struct {
	Exporter   otlpexporter.Config `mapstructure:",squash"`
	Durability durable.Durability  `mapstructure:",squash"`
}

// Validate refuses what could drop data; the embedded parts are validated by themselves.
func (c *Config) Validate() error {
	return durable.ValidateDelivery(&c.Exporter.QueueConfig, c.Exporter.RetryConfig)
}

// NewFactory returns the factory of the exporter.
func NewFactory() exporter.Factory {
	return durable.NewFactory(metadata.Type, createDefaultConfig, metadata.TracesStability, settings)
}

func createDefaultConfig() component.Config {
	config := &Config{Exporter: *otlpexporter.NewFactory().CreateDefaultConfig().(*otlpexporter.Config), Durability: durable.NewDurability()}
	config.Exporter.RetryConfig = durable.NewRetry()
	return config
}

func settings(set exporter.Settings, generic component.Config) durable.Settings {
	config := generic.(*Config)
	inner := config.Exporter
	inner.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]()
	inner.RetryConfig = configretry.BackOffConfig{}
	inner.ClientConfig.Middlewares = append(slices.Clone(inner.ClientConfig.Middlewares), durable.WatchAnswers())
	return durable.Settings{
		Exporter: set, Config: config, Durability: config.Durability,
		Queue: config.Exporter.QueueConfig, Retry: config.Exporter.RetryConfig,
		Inner: otlpexporter.NewFactory(), InnerConfig: &inner,
	}
}
