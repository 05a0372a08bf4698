package queuestorageextension

import (
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component"
)

// Config has the keys of file_storage with safer defaults: fsync, and a folder that only its owner can read.
type Config struct {
	filestorage.Config `mapstructure:",squash"`
}

func createDefaultConfig() component.Config {
	stock := *filestorage.NewFactory().CreateDefaultConfig().(*filestorage.Config)
	stock.FSync = true
	stock.CreateDirectory = true
	stock.DirectoryPermissions = "0700"
	stock.Timeout = 5 * time.Second // a predecessor may still be closing its files
	return &Config{Config: stock}
}
