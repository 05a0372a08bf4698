package statusextension

import (
	"errors"
	"fmt"
	"net"
)

// Config of the extension.
type Config struct {
	// Endpoint is the address of the HTTP server, host:port.
	Endpoint string `mapstructure:"endpoint"`
	// Folders maps a short name to a folder whose size, and the free space of whose disk, become metrics.
	Folders map[string]string `mapstructure:"folders"`
}

// Validate says what is wrong with the configuration.
func (config *Config) Validate() error {
	if _, _, err := net.SplitHostPort(config.Endpoint); err != nil {
		return fmt.Errorf("endpoint: want host:port: %w", err)
	}
	for name, folder := range config.Folders {
		if name == "" || folder == "" {
			return errors.New("folders: a name and a path are needed")
		}
	}
	return nil
}
