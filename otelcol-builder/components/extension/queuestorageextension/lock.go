package queuestorageextension

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	lockName  = ".in-use"
	lockPause = 50 * time.Millisecond
)

// lockFolder makes the folder this process's own until the returned file is closed or the process ends.
func lockFolder(folder string, patience time.Duration) (*os.File, error) {
	file, err := lock(filepath.Join(folder, lockName), folder, patience)
	if err == nil {
		// It notes the owner; on a full disk the lock holds without it.
		_ = file.Truncate(0)
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return file, err
}

// lock locks a file of a queue folder. A collector that knows no folder lock has the files of its queues locked.
func lock(path, folder string, patience time.Duration) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(lockPause) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if isHeld := errors.Is(err, syscall.EWOULDBLOCK); !isHeld || time.Now().After(deadline) {
			_ = file.Close()
			if !isHeld {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			return nil, inUse(folder, path)
		}
	}
}

func inUse(folder, path string) error {
	owner := ""
	if content, err := os.ReadFile(path); err == nil && filepath.Base(path) == lockName && len(content) > 0 {
		owner = " (process " + strings.TrimSpace(string(content)) + ")"
	}
	return fmt.Errorf("the queue folder %s is in use by another collector%s: stop that one, or give this one a folder of its own"+
		" (directory of queue_storage, OTEL_RL_COLLECTOR_QUEUE_DIR)", folder, owner)
}
