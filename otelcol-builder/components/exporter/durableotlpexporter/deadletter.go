package durableotlpexporter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	deadLetterPrefix = "dead-letter."
	deadLetterSuffix = ".jsonl"
	lockName         = ".in-use"
	maxErrorText     = 1024
)

// deadLetters is one folder of dead-letter files. Every exporter of the process that names the folder shares it.
type deadLetters struct {
	directory string
	// removed is told of a file that had to go for a newer one, with the number of its items.
	removed func(file string, items int)

	mu       sync.Mutex
	users    int
	maxBytes int64
	maxFiles int
	current  map[string]*os.File // by prefix
	lock     *os.File
	number   int
}

var (
	foldersLock sync.Mutex
	folders     = map[string]*deadLetters{}
)

// openDeadLetters returns the shared folder, and makes it when it is not there.
func openDeadLetters(config DeadLetter, removed func(string, int)) (*deadLetters, error) {
	directory, err := filepath.Abs(config.Directory)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, fmt.Errorf("dead_letter.directory: %w", err)
	}
	foldersLock.Lock()
	defer foldersLock.Unlock()
	folder, known := folders[directory]
	if !known {
		lock, err := lockFolder(directory)
		if err != nil {
			return nil, err
		}
		folder = &deadLetters{directory: directory, removed: removed, current: map[string]*os.File{}, lock: lock}
		folders[directory] = folder
	}
	folder.mu.Lock()
	defer folder.mu.Unlock()
	folder.users++
	folder.maxBytes, folder.maxFiles = config.MaxMegabytes*1_000_000, config.MaxFiles
	return folder, nil
}

// lockFolder makes the folder this process's own: two would remove each other's files.
func lockFolder(directory string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(directory, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("dead_letter.directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("dead_letter.directory: %s is another collector's; give each a folder of its own"+
			" (OTEL_RL_COLLECTOR_DEAD_LETTER_DIR): %w", directory, err)
	}
	return file, nil
}

// close ends one exporter's use; the last one closes the files.
func (d *deadLetters) close() error {
	foldersLock.Lock()
	defer foldersLock.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users > 0 {
		return nil
	}
	delete(folders, d.directory)
	failures := []error{d.lock.Close()}
	for _, file := range d.current {
		failures = append(failures, file.Close())
	}
	d.current = map[string]*os.File{}
	return errors.Join(failures...)
}

// letterNote travels in each line beside the OTLP data; readers of OTLP JSON skip fields that they do not know.
type letterNote struct {
	Exporter string `json:"exporter"`
	Reason   string `json:"reason"`
	Error    string `json:"error"`
	Time     string `json:"time"`
	Items    int    `json:"items"`
}

// letterLine returns the request's OTLP JSON as one line with the note in it.
func letterLine(request []byte, note letterNote) ([]byte, error) {
	note.Error = strings.ToValidUTF8(note.Error[:min(len(note.Error), maxErrorText)], "")
	noted, err := json.Marshal(note)
	if err != nil {
		return nil, err
	}
	body, found := bytes.CutSuffix(bytes.TrimSpace(request), []byte("}"))
	if !found || len(body) < 2 {
		return nil, errors.New("not a JSON object with items")
	}
	return slices.Concat(body, []byte(`,"deadLetter":`), noted, []byte("}\n")), nil
}

// write appends a line to the file of this prefix and returns when it is on the disk.
func (d *deadLetters) write(prefix string, line []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	file, err := d.fileFor(prefix, int64(len(line)))
	if err != nil {
		return err
	}
	before, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	_, err = file.Write(line)
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		// Half a line would spoil the one after it.
		_ = file.Truncate(before)
	}
	return err
}

// fileFor returns the open file of a prefix, or a new one when the old one is full, gone, or was never there.
func (d *deadLetters) fileFor(prefix string, size int64) (*os.File, error) {
	if file := d.current[prefix]; file != nil {
		info, err := os.Stat(file.Name())
		if err == nil && info.Size()+size <= max(d.maxBytes/int64(d.maxFiles), size) {
			return file, d.makeRoom(size, 0, file.Name())
		}
		_ = file.Close()
		delete(d.current, prefix)
	}
	if err := d.makeRoom(size, 1, ""); err != nil {
		return nil, err
	}
	d.number++
	name := fmt.Sprintf("%s%s-%s-%d-%d%s", deadLetterPrefix, prefix, time.Now().UTC().Format("20060102T150405.000"), os.Getpid(), d.number, deadLetterSuffix)
	file, err := os.OpenFile(filepath.Join(d.directory, name), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	d.current[prefix] = file
	return file, syncDirectory(d.directory)
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// makeRoom removes the oldest files until the new bytes and files fit. Each exporter has room for a file, or they would remove
// each other's last ones. A line that is larger than all the room is written all the same, alone: never is the newest lost.
func (d *deadLetters) makeRoom(size int64, files int, keep string) error {
	present, total, err := d.files()
	if err != nil {
		return err
	}
	for _, oldest := range present {
		if total+size <= d.maxBytes && len(present)+files <= max(d.maxFiles, d.users) {
			break
		}
		path := filepath.Join(d.directory, oldest.Name())
		if path == keep {
			continue
		}
		items := countItems(path)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		d.removed(path, items)
		present, total = present[1:], total-oldest.Size()
	}
	return nil
}

// files returns the dead-letter files of the folder, the oldest first, and their bytes.
func (d *deadLetters) files() ([]fs.FileInfo, int64, error) {
	entries, err := os.ReadDir(d.directory)
	if err != nil {
		return nil, 0, err
	}
	var found []fs.FileInfo
	var total int64
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && isDeadLetter(entry.Name()) {
			found = append(found, info)
			total += info.Size()
		}
	}
	slices.SortFunc(found, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	return found, total, nil
}

// isDeadLetter tells our files from what else lies in the folder, which is nobody's to remove.
func isDeadLetter(name string) bool {
	return strings.HasPrefix(name, deadLetterPrefix) && strings.HasSuffix(name, deadLetterSuffix)
}

// countItems returns how many refused items a file holds, as far as it can be read: the sum of its lines' notes.
func countItems(path string) int {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	items := 0
	for line := range bytes.Lines(content) {
		var letter struct {
			DeadLetter letterNote `json:"deadLetter"`
		}
		if json.Unmarshal(line, &letter) == nil {
			items += letter.DeadLetter.Items
		}
	}
	return items
}
