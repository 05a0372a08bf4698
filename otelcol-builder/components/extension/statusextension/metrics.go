package statusextension

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const scope = "otel-rl.example/otelcol-rl/extension/statusextension"

// instruments of the extension; they are read when the collector's own metrics are.
type instruments struct {
	size, free metric.Int64ObservableGauge
}

func newInstruments(meter metric.Meter) (instruments, error) {
	size, errSize := meter.Int64ObservableGauge("otelcol_folder_size",
		metric.WithUnit("By"), metric.WithDescription("Size of the files in a folder that the collector writes to"))
	free, errFree := meter.Int64ObservableGauge("otelcol_folder_free",
		metric.WithUnit("By"), metric.WithDescription("Free space of the disk that a folder of the collector is on"))
	return instruments{size, free}, errors.Join(errSize, errFree)
}

// observe registers the metrics: size of each folder and the free space of its disk.
func observe(provider metric.MeterProvider, folders map[string]string) (metric.Registration, error) {
	meter := provider.Meter(scope)
	created, err := newInstruments(meter)
	if err != nil {
		return nil, err
	}
	callback := func(_ context.Context, observer metric.Observer) error {
		return created.observeFolders(observer, folders)
	}
	return meter.RegisterCallback(callback, created.size, created.free)
}

func (i instruments) observeFolders(observer metric.Observer, folders map[string]string) error {
	var errs error
	for name, folder := range folders {
		label := metric.WithAttributes(attribute.String("folder", name))
		size, err := folderSize(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing was written yet
		}
		free, errFree := freeSpace(folder)
		if err = errors.Join(err, errFree); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		observer.ObserveInt64(i.size, size, label)
		observer.ObserveInt64(i.free, free, label)
	}
	return errs
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
