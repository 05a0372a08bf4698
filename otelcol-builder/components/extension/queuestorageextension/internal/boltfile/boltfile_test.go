package boltfile_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
	"otel-rl.example/otelcol-rl/extension/queuestorageextension/internal/boltfile"
)

const items = 300

// written makes a file with entries of a few pages each, some of them deleted again.
func written(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue_file")
	store, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for number := range items + 50 {
		err := store.Update(func(transaction *bbolt.Tx) error {
			bucket, err := transaction.CreateBucketIfNotExists([]byte("default"))
			if err != nil {
				return err
			}
			if number >= items {
				return bucket.Delete(fmt.Append(nil, number-items))
			}
			return bucket.Put(fmt.Append(nil, number), value(number))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func value(number int) []byte { return bytes.Repeat([]byte{byte(number)}, 100+number*37) }

func read(t *testing.T, path string) (entries map[string][]byte, problems []error) {
	t.Helper()
	file, err := boltfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	entries = map[string][]byte{}
	return entries, file.Entries("default", into(entries))
}

func into(entries map[string][]byte) func(boltfile.Entry) {
	return func(entry boltfile.Entry) {
		if content, err := entry.Value(); err == nil {
			entries[entry.Key] = content
		}
	}
}

func leaves(t *testing.T, path string) map[string][]byte {
	t.Helper()
	file, err := boltfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	entries := map[string][]byte{}
	file.Leaves(into(entries))
	return entries
}

func requireWhole(t *testing.T, entries map[string][]byte) {
	t.Helper()
	for number := 50; number < items; number++ {
		if !bytes.Equal(entries[fmt.Sprint(number)], value(number)) {
			t.Fatalf("entry %d is not what was stored", number)
		}
	}
}

func TestAWholeFileIsReadAsBboltReadsIt(t *testing.T) {
	entries, problems := read(t, written(t))
	if len(problems) != 0 || len(entries) != items-50 {
		t.Fatalf("%d entries, %v", len(entries), problems)
	}
	requireWhole(t, entries)
}

func TestASmallBucketInsideItsParentIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small")
	store, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = store.Update(func(transaction *bbolt.Tx) error {
		bucket, err := transaction.CreateBucket([]byte("default"))
		if err != nil {
			return err
		}
		return bucket.Put([]byte("0"), []byte("only"))
	})
	if err != nil || store.Close() != nil {
		t.Fatal(err)
	}
	entries, problems := read(t, path)
	if len(problems) != 0 || string(entries["0"]) != "only" {
		t.Fatalf("%q, %v", entries, problems)
	}
}

func TestAFileThatWasCutGivesWhatIsLeft(t *testing.T) {
	path := written(t)
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, problems := read(t, path); len(problems) == 0 {
		t.Fatal("no problem")
	}
	if left := len(leaves(t, path)); left < 50 {
		t.Fatalf("%d entries are left", left)
	}
}

func TestAFileWithoutItsMetaPagesGivesEveryEntry(t *testing.T) {
	path := written(t)
	overwrite(t, path, 0, 2*os.Getpagesize())
	if _, problems := read(t, path); len(problems) == 0 {
		t.Fatal("no problem")
	}
	requireWhole(t, leaves(t, path))
}

func TestEveryOverwrittenPageIsToldOrHarmless(t *testing.T) {
	path := written(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := range int(info.Size()) / os.Getpagesize() {
		if page%7 != 0 {
			continue
		}
		overwrite(t, path, page*os.Getpagesize(), os.Getpagesize())
		entries, problems := read(t, path)
		if len(problems) == 0 && len(entries) != items-50 {
			t.Fatalf("page %d: %d entries and no problem", page, len(entries))
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func overwrite(t *testing.T, path string, at, size int) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(bytes.Repeat([]byte{0xff}, size), int64(at)); err != nil {
		t.Fatal(err)
	}
}

func FuzzEntries(f *testing.F) {
	f.Add([]byte("not a store"))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "fuzzed")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		read(t, path)
		leaves(t, path)
	})
}
