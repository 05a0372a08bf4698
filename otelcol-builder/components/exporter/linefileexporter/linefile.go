package linefileexporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"
)

const (
	// closedAt is the time in the name of a closed file: traces-2006-01-02T15-04-05.000.jsonl. That of the stock exporter begins so too.
	closedAt = "2006-01-02T15-04-05.000"
	mebibyte = 1 << 20
	// readBackwards is how much is read at once to find the last line's end.
	readBackwards = 64 << 10
)

// lineFile appends whole lines to one file and begins a new one when it is full.
type lineFile struct {
	config *Config
	logger *zap.Logger

	mu    sync.Mutex
	users int
	lock  *os.File
	file  *os.File
	// torn: behind the last whole line stands the rest of a write that failed.
	torn bool
}

var (
	filesLock sync.Mutex
	files     = map[*Config]*lineFile{}
)

// fileOf returns the file of an exporter: the same one for each signal that its pipelines bring it.
func fileOf(config *Config, logger *zap.Logger) *lineFile {
	filesLock.Lock()
	defer filesLock.Unlock()
	if files[config] == nil {
		files[config] = &lineFile{config: config, logger: logger}
	}
	return files[config]
}

func (f *lineFile) start(context.Context, component.Host) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users++; f.users > 1 {
		return nil
	}
	return f.claim()
}

// shutdown ends the use by one signal; the last one closes the file.
func (f *lineFile) shutdown(context.Context) error {
	filesLock.Lock()
	defer filesLock.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users > 0 {
		return nil
	}
	delete(files, f.config)
	return f.release()
}

// claim makes the folder and takes the lock.
func (f *lineFile) claim() error {
	if err := os.MkdirAll(filepath.Dir(f.config.Path), 0o700); err != nil {
		return unwritable(err)
	}
	var err error
	f.lock, err = takeLock(f.config.Path, f.logger)
	return err
}

func (f *lineFile) release() error {
	var failures []error
	for _, file := range []*os.File{f.file, f.lock} {
		if file != nil {
			failures = append(failures, file.Close())
		}
	}
	f.file, f.lock = nil, nil
	return errors.Join(failures...)
}

// write appends a line. When it fails, nothing of the line is in the file.
func (f *lineFile) write(line []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	size, err := f.prepare(int64(len(line)))
	if err != nil {
		return err
	}
	if _, err = f.file.Write(line); err != nil {
		err = errors.Join(err, f.cut(size))
	}
	return err
}

// prepare opens the file that takes the next line, and returns its size.
func (f *lineFile) prepare(length int64) (int64, error) {
	if isGone(f.lock) || isGone(f.file) {
		f.logger.Warn("The file that is written has been moved or removed: a new one is begun.", zap.String("file", f.config.Path))
		_ = f.release()
	}
	if f.lock == nil {
		if err := f.claim(); err != nil {
			return 0, err
		}
	}
	if f.file == nil || f.torn {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	info, err := f.file.Stat()
	if err != nil {
		return 0, err
	}
	size := sizeOf(info)
	if size == 0 || size+length <= f.config.Rotation.MaxMegabytes*mebibyte {
		return size, nil
	}
	return 0, f.rotate()
}

// sizeOf returns the size of a file, and 0 for a device.
func sizeOf(info os.FileInfo) int64 {
	if !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// isGone says whether the path of an open file leads to another one now, or to none.
func isGone(file *os.File) bool {
	if file == nil {
		return false
	}
	open, err := file.Stat()
	if err != nil {
		return true
	}
	found, err := os.Stat(file.Name())
	return err != nil || !os.SameFile(open, found)
}

// ourLines is what each of our lines with records begins with.
var ourLines = []byte(`{"resource`)

// open opens the file, anew where it is open. Half a line of ours at its end is cut off: nobody got an answer for that.
// Half a line of another program may be all that it has of a record: that stays, and is ended.
func (f *lineFile) open() error {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
	// To append: what another program added stays.
	file, err := os.OpenFile(f.config.Path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.mendEnd(file); err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.torn = file, false
	return nil
}

// mendEnd makes the file end with a whole line.
func (f *lineFile) mendEnd(file *os.File) error {
	whole, size, err := wholeLines(file)
	if err != nil || whole == size {
		return err
	}
	begin := make([]byte, min(size-whole, int64(len(ourLines))))
	if _, err := file.ReadAt(begin, whole); err != nil {
		return err
	}
	where := []zap.Field{zap.String("file", f.config.Path), zap.Int64("bytes", size-whole)}
	if bytes.HasPrefix(ourLines, begin) {
		f.logger.Warn("Half a line at the end of the file, which a full disk or a killed process left, is cut off.", where...)
		return file.Truncate(whole)
	}
	f.logger.Warn("The last line of the file, which another program wrote, has no end: it gets one.", where...)
	_, err = file.Write([]byte{'\n'})
	return err
}

// cut shortens the file to its whole lines.
func (f *lineFile) cut(size int64) error {
	info, err := f.file.Stat()
	if err == nil && sizeOf(info) > size {
		err = f.file.Truncate(size)
	}
	f.torn = err != nil
	return err
}

// wholeLines returns where the last whole line of a file ends, and the file's size; both are 0 for a device.
func wholeLines(file *os.File) (whole, size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	size = sizeOf(info)
	buffer := make([]byte, readBackwards)
	for end := size; end > 0; {
		begin := max(0, end-readBackwards)
		part := buffer[:end-begin]
		if _, err := file.ReadAt(part, begin); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		if last := bytes.LastIndexByte(part, '\n'); last >= 0 {
			return begin + int64(last) + 1, size, nil
		}
		end = begin
	}
	return 0, size, nil
}

// rotate moves the full file aside, begins a new one, and removes the oldest that are too many.
func (f *lineFile) rotate() error {
	aside := f.aside(time.Now())
	if err := os.Rename(f.config.Path, aside); err != nil {
		return fmt.Errorf("the full file cannot be moved aside: %w", err)
	}
	if err := f.open(); err != nil {
		return err
	}
	f.prune()
	return nil
}

// aside returns the name of a closed file, which no other one has: a clock can go back.
func (f *lineFile) aside(now time.Time) string {
	stem, suffix := f.nameParts()
	for ; ; now = now.Add(time.Millisecond) {
		name := stem + now.UTC().Format(closedAt) + suffix
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			return name
		}
	}
}

// nameParts returns what stands before and after the time in the name of a closed file.
func (f *lineFile) nameParts() (stem, suffix string) {
	suffix = filepath.Ext(f.config.Path)
	return strings.TrimSuffix(f.config.Path, suffix) + "-", suffix
}

func (f *lineFile) prune() {
	closed, err := f.closed()
	for _, file := range closed[:max(0, len(closed)-f.config.Rotation.MaxBackups)] {
		if failed := os.Remove(file); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		f.logger.Warn("The oldest file is removed to make room, as rotation.max_backups says.", zap.String("file", file))
	}
	if err != nil {
		f.logger.Error("Old files cannot be removed: the folder grows. Fix: see the error.", zap.Error(err))
	}
}

// closed returns the closed files, the oldest first; those of the stock exporter are among them.
func (f *lineFile) closed() ([]string, error) {
	stem, suffix := f.nameParts()
	entries, err := os.ReadDir(filepath.Dir(f.config.Path))
	var found []string
	for _, entry := range entries {
		path := filepath.Join(filepath.Dir(f.config.Path), entry.Name())
		moment, isOurs := strings.CutPrefix(path, filepath.Clean(stem))
		if !isOurs || !strings.HasSuffix(moment, suffix) || len(moment) < len(closedAt) {
			continue
		}
		if _, err := time.Parse(closedAt, moment[:len(closedAt)]); err == nil {
			found = append(found, path)
		}
	}
	return found, err
}
