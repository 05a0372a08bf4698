// Package requestguardextension looks at OTLP requests before they are decoded, over HTTP and over gRPC.
//
// The OTLP receiver decodes nested values by recursion without a bound: one request of a few megabytes that nests a value
// a million times takes gigabytes of stack, which no memory limiter sees, and ends the process. And it skips what it
// does not know, as the specification asks: OTLP JSON of another signal, or of OTLP before 1.0, is answered with success
// and lost. After an error in JSON it goes on, and recurses where no bracket stands. What does this is refused here,
// counted, and answered with what to do about it.
//
// Two bytes of an empty message become a struct of 200, which a memory limiter sees when it is too late. So the guard counts
// what the decoder will take, and reserves that for as long as a request is under way. What does not fit is refused, so
// that the sender tries again; what can never fit is refused for good. While memory is short it decodes nothing.
package requestguardextension

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"otel-rl.example/otelcol-rl/extension/requestguardextension/internal/metadata"
)

// Config of the extension.
type Config struct {
	// MaxDepth is how many maps and lists a value may be nested in.
	MaxDepth int `mapstructure:"max_depth"`
	// MemoryLimiter names the extension that says when memory is short. Requests are refused then and not decoded.
	MemoryLimiter *component.ID `mapstructure:"memory_limiter"`
}

// Validate says what is wrong with the configuration.
func (c *Config) Validate() error {
	if c.MaxDepth < 1 || c.MaxDepth > 1000 {
		return errors.New("max_depth: write a number from 1 to 1000")
	}
	return nil
}

// NewFactory returns the factory of the extension request_guard.
func NewFactory() extension.Factory {
	return extension.NewFactory(
		metadata.Type,
		func() component.Config { return &Config{MaxDepth: 40} },
		func(_ context.Context, settings extension.Settings, config component.Config) (extension.Extension, error) {
			return newGuard(config.(*Config), settings.TelemetrySettings)
		},
		metadata.ExtensionStability,
	)
}
