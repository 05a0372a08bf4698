package linefileexporter

import "errors"

// Config of the exporter. The keys are among those of the stock exporter file.
type Config struct {
	// Path of the file. Its folder is made with mode 0700 where it is not there.
	Path string `mapstructure:"path"`
	// Rotation bounds the file and its predecessors.
	Rotation Rotation `mapstructure:"rotation"`
}

// Rotation says when a file is closed, and how many closed ones stay.
type Rotation struct {
	// MaxMegabytes is the size in MiB at which a file is closed; a single longer line is written all the same, alone.
	MaxMegabytes int64 `mapstructure:"max_megabytes"`
	// MaxBackups is the number of closed files that are kept; then the oldest is removed.
	MaxBackups int `mapstructure:"max_backups"`
}

// Validate says what is wrong with the configuration.
func (c *Config) Validate() error {
	switch {
	case c.Path == "":
		return errors.New("path must name the file")
	case c.Rotation.MaxMegabytes < 1 || c.Rotation.MaxBackups < 1:
		return errors.New("rotation.max_megabytes and rotation.max_backups must be at least 1")
	}
	return nil
}
