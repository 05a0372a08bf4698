package statusextension

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sys/unix"

	"otel-rl.example/otelcol-rl/extension/statusextension/internal/metadata"
)

// observe registers the metrics: size of each folder and the free space of its disk.
func observe(settings component.TelemetrySettings, folders map[string]string) (*metadata.TelemetryBuilder, error) {
	builder, err := metadata.NewTelemetryBuilder(settings)
	if err != nil {
		return nil, err
	}
	return builder, errors.Join(
		builder.RegisterFolderSizeCallback(measureEach(folders, folderSize)),
		builder.RegisterFolderFreeCallback(measureEach(folders, freeSpace)),
	)
}

// measureEach observes one number of each folder. It leaves out a folder that cannot be measured: nothing may be written yet.
func measureEach(folders map[string]string, measure func(string) (int64, error)) metric.Int64Callback {
	return func(_ context.Context, observer metric.Int64Observer) error {
		for name, folder := range folders {
			if value, err := measure(folder); err == nil {
				observer.Observe(value, metric.WithAttributes(attribute.String("folder", name)))
			}
		}
		return nil
	}
}

// folderSize sums the files below a folder; one that vanishes meanwhile counts nothing.
func folderSize(folder string) (int64, error) {
	total := int64(0)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if path != folder && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total, err
}

// freeSpace returns the bytes that the collector may still write to the disk of a folder.
func freeSpace(folder string) (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(folder, &disk); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", folder, err)
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil //nolint:gosec,unconvert // the types differ between systems
}
