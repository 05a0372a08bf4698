package linefileexporter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.uber.org/zap"
)

// lockSuffix ends the name of the file beside a data file that its writer holds a lock of. `otel-rl collector run` knows it too.
const lockSuffix = ".in-use"

// takeLock makes a data file this exporter's own, until the returned file is closed or the process ends, however it ends.
// Two writers would move and cut each other's lines.
func takeLock(path string, logger *zap.Logger) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+lockSuffix), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, unwritable(err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		noteOwner(file)
		return file, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("%s is in use by %s: stop that one, or give each collector a folder of its own"+
			" (OTEL_RL_COLLECTOR_DATA_DIR)", path, owner(file))
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOLCK):
		logger.Warn("The file system of the data has no locks, so nobody would notice a second collector in the same folder, which spoils"+
			" the files. Fix: give each collector a folder of its own.", zap.String("file", path), zap.Error(err))
		return file, nil
	}
	return nil, errors.Join(err, file.Close())
}

func unwritable(err error) error {
	return fmt.Errorf("%w; set OTEL_RL_COLLECTOR_DATA_DIR to a folder that can be written", err)
}

// noteOwner writes down who holds the lock. On a full disk the lock holds without it.
func noteOwner(file *os.File) {
	host, _ := os.Hostname()
	_ = file.Truncate(0)
	_, _ = file.WriteAt(fmt.Appendf(nil, "process %d on %s", os.Getpid(), host), 0)
}

func owner(file *os.File) string {
	note := make([]byte, 512)
	length, _ := file.ReadAt(note, 0)
	if length == 0 {
		return "another process"
	}
	return strings.TrimSpace(string(note[:length]))
}
