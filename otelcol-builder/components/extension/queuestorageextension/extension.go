package queuestorageextension

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	generated "otel-rl.example/otelcol-rl/extension/queuestorageextension/internal/metadata"
)

// queueStorage guards the folder of a stock file_storage and the clients that it gives away.
type queueStorage struct {
	extension.Extension
	stock  storage.Extension
	config *Config
	logger *zap.Logger
	lock   *os.File

	telemetry *generated.TelemetryBuilder
}

func newQueueStorage(stock extension.Extension, config *Config, telemetry component.TelemetrySettings) (*queueStorage, error) {
	store, isStorage := stock.(storage.Extension)
	if !isStorage {
		return nil, errors.New("file_storage is no storage extension")
	}
	builder, err := generated.NewTelemetryBuilder(telemetry)
	if err != nil {
		return nil, err
	}
	return &queueStorage{Extension: stock, stock: store, config: config, logger: telemetry.Logger, telemetry: builder}, nil
}

// Start takes the folder and looks at its files before anything opens them.
func (q *queueStorage) Start(ctx context.Context, host component.Host) error {
	folder, err := filepath.Abs(q.config.Directory)
	if err != nil {
		return err
	}
	if q.lock, err = lockFolder(folder, q.config.Timeout); err != nil {
		return err
	}
	if err := q.repairAll(ctx, folder); err != nil {
		return errors.Join(err, q.lock.Close())
	}
	return q.Extension.Start(ctx, host)
}

// Shutdown gives the folder free.
func (q *queueStorage) Shutdown(ctx context.Context) error {
	err := q.Extension.Shutdown(ctx)
	if q.lock != nil {
		err = errors.Join(err, q.lock.Close())
		q.lock = nil
	}
	return err
}

func (q *queueStorage) repairAll(ctx context.Context, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !isQueue(entry.Name()) {
			continue
		}
		if err := q.repair(ctx, folder, filepath.Join(folder, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// isQueue tells queue files from what else lies in the folder: the lock, files kept aside, and those of a compaction.
func isQueue(name string) bool {
	return strings.Contains(name, "_") && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "tempdb") &&
		!strings.Contains(name, ".damaged-") && !strings.HasSuffix(name, ".backup") && !strings.HasSuffix(name, newSuffix)
}

func (q *queueStorage) repair(ctx context.Context, folder, path string) error {
	file, err := lock(path, folder, q.config.Timeout)
	if err != nil || file.Close() != nil {
		return err
	}
	problems, err := examine(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(problems) == 0 {
		return nil
	}
	keptAs, items, err := salvage(path, time.Now())
	if err != nil {
		return err
	}
	q.telemetry.QueueStorageDamagedFiles.Add(ctx, 1)
	q.logger.Error("A queue file was damaged: what could be read was taken over into a new one, the rest is lost to this collector."+
		" Fix: look at the disk; the damaged file is kept and may be removed.", zap.String("file", path), zap.String("kept_as", keptAs),
		zap.Int("items_taken_over", items), zap.Int("problems", len(problems)), zap.Error(problems[0]))
	return nil
}

// GetClient returns the storage of one component.
func (q *queueStorage) GetClient(ctx context.Context, kind component.Kind, owner component.ID, name string) (storage.Client, error) {
	inner, err := q.stock.GetClient(ctx, kind, owner, name)
	if err != nil {
		return nil, fmt.Errorf("queue %s in %s: %w", owner, q.config.Directory, err)
	}
	if kind != component.KindExporter {
		return inner, nil
	}
	made := q.guard(inner, owner, name)
	if err := made.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("queue %s in %s: %w", owner, q.config.Directory, err), inner.Close(ctx))
	}
	return made, nil
}

// guard returns the storage of a queue around the stock one.
func (q *queueStorage) guard(inner storage.Client, owner component.ID, name string) *client {
	return &client{
		Client: inner,
		unstored: func(err error) {
			q.telemetry.QueueStorageUnstoredStates.Add(context.Background(), 1)
			q.logger.Warn("The state of a queue cannot be written: what leaves it now comes again after a restart."+
				" Fix: make room on the disk.", zap.Stringer("queue", owner), zap.Error(err))
		},
		damaged: func(key string, value []byte) {
			q.telemetry.QueueStorageDamagedItems.Add(context.Background(), 1)
			kept := filepath.Join(q.config.Directory, fmt.Sprintf("%s_%s.damaged-item-%s", strings.ReplaceAll(owner.String(), "/", "~"), name, key))
			err := os.WriteFile(kept, value, 0o600)
			q.logger.Error("A queued request is not what was stored and is not sent. Fix: look at the disk; its bytes are kept.",
				zap.Stringer("queue", owner), zap.String("kept_as", kept), zap.Error(err))
		},
	}
}
