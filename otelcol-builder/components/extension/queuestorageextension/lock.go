package queuestorageextension

import (
	"errors"
	"fmt"
	"io"
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

var errLocked = errors.New("locked")

// lockFolder makes the folder this process's own until the returned file is closed or the process ends.
func lockFolder(folder string, patience time.Duration) (io.Closer, error) {
	path := filepath.Join(folder, lockName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = waitForLock(file, patience)
	if errors.Is(err, errLocked) {
		owner, _ := io.ReadAll(io.LimitReader(file, 32))
		_ = file.Close()
		return nil, inUse(folder, strings.TrimSpace(string(owner)))
	}
	if err == nil {
		err = errors.Join(file.Truncate(0), writeAt(file, strconv.Itoa(os.Getpid())+"\n"))
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// writeAt notes the owner; on a full disk the lock holds without it.
func writeAt(file *os.File, text string) error {
	if _, err := file.WriteAt([]byte(text), 0); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

// probeFile says whether a collector that knows no folder lock has the file open.
func probeFile(folder, path string, patience time.Duration) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := waitForLock(file, patience); errors.Is(err, errLocked) {
		return inUse(folder, "")
	} else if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func waitForLock(file *os.File, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(lockPause) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if time.Now().After(deadline) {
			return errLocked
		}
	}
}

func inUse(folder, owner string) error {
	if owner != "" {
		owner = " (process " + owner + ")"
	}
	return fmt.Errorf("the queue folder %s is in use by another collector%s: stop that one, or give this one a folder of its own"+
		" (directory of queue_storage, OTEL_RL_COLLECTOR_QUEUE_DIR)", folder, owner)
}
