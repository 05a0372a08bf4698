// Package credentialfilesextension refuses a start with a certificate, key, token or password file that cannot be meant:
// missing, empty, unreadable, expired, or open to everybody on the machine.
//
// The collector itself starts with an expired certificate, with a key that everybody reads, and with an empty
// client_ca_file, which switches the check of client certificates off. It reads the other files after the start.
package credentialfilesextension

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"otel-rl.example/otelcol-rl/extension/credentialfilesextension/internal/metadata"
)

// NewFactory returns the factory of the extension credential_files. All of its work is in the validation of its
// configuration, so `validate` and a reload of the configuration do the same as a start.
func NewFactory() extension.Factory {
	return extension.NewFactory(
		metadata.Type,
		func() component.Config { return &Config{} },
		func(context.Context, extension.Settings, component.Config) (extension.Extension, error) {
			return checked{}, nil
		},
		metadata.ExtensionStability,
	)
}

// checked has nothing to run.
type checked struct {
	component.StartFunc
	component.ShutdownFunc
}
