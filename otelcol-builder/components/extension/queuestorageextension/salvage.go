package queuestorageextension

import (
	"errors"
	"os"
	"time"

	"go.etcd.io/bbolt"
	"otel-rl.example/otelcol-rl/extension/queuestorageextension/internal/boltfile"
)

const (
	bucketName = "default"
	// bytesPerWrite bounds what a transaction of the new file holds in memory.
	bytesPerWrite = 16 << 20
	newSuffix     = ".salvaged"
)

// examine returns what is wrong with a queue file. It reads keys, not items, so that a queue of gigabytes does not hold up the
// start.
func examine(path string) ([]error, error) {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return nil, err // the store makes it anew
	}
	file, err := boltfile.Open(path)
	if err != nil {
		return []error{err}, nil
	}
	defer file.Close()
	return file.Entries(bucketName, func(boltfile.Entry) {}), nil
}

// salvage moves the items that can still be read into a new file and keeps the damaged one beside it. Where the new one cannot be
// written, on a full disk for one, the queue starts empty: better than no collector.
func salvage(path string, now time.Time) (keptAs string, items int, err error) {
	_ = os.Remove(path + newSuffix) // of a salvage that was not finished
	items, failure := rescue(path, path+newSuffix)
	keptAs = path + ".damaged-" + now.UTC().Format("20060102T150405.000")
	if err := os.Rename(path, keptAs); err != nil {
		return "", 0, err
	}
	if failure != nil {
		return keptAs, 0, os.Remove(path + newSuffix)
	}
	return keptAs, items, os.Rename(path+newSuffix, path)
}

// rescue copies what is whole into a new store and writes metadata that fits it. What no tree leads to is taken too: some of it
// may have been delivered before and comes again.
func rescue(from, to string) (items int, err error) {
	store, err := bbolt.Open(to, 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return 0, err
	}
	defer func() {
		if closed := store.Close(); err == nil {
			err = closed
		}
	}()
	copied := &copying{store: store, taken: map[string]bool{}}
	if file, opened := boltfile.Open(from); opened == nil {
		defer file.Close()
		file.Entries(bucketName, copied.take)
		file.Leaves(copied.take)
	}
	return len(copied.indices), copied.finish()
}

// copying is a salvage under way.
type copying struct {
	store   *bbolt.DB
	state   metadata
	indices []uint64
	taken   map[string]bool
	waiting []pair
	bytes   int
	failure error // to write
}

type pair struct{ key, value []byte }

func (c *copying) take(entry boltfile.Entry) {
	value, err := entry.Value()
	if err != nil {
		return // it is not whole: left behind in the damaged file
	}
	content, intact := unseal(value)
	if isSealed(entry.Key) && !intact || c.taken[entry.Key] {
		return
	}
	if entry.Key == metadataKey {
		if read, err := decodeMetadata(content); err == nil {
			c.state = read
		}
		return
	}
	c.taken[entry.Key] = true
	if index, isItem := itemIndex(entry.Key); isItem {
		c.indices = append(c.indices, index)
	}
	c.waiting = append(c.waiting, pair{[]byte(entry.Key), value})
	if c.bytes += len(value); c.bytes > bytesPerWrite {
		c.write()
	}
}

func (c *copying) write() {
	err := c.store.Update(func(transaction *bbolt.Tx) error {
		bucket, err := transaction.CreateBucketIfNotExists([]byte(bucketName))
		for _, each := range c.waiting {
			if err != nil {
				return err
			}
			err = bucket.Put(each.key, each.value)
		}
		return err
	})
	c.waiting, c.bytes, c.failure = nil, 0, errors.Join(c.failure, err)
}

func (c *copying) finish() error {
	if len(c.indices) > 0 {
		state := c.state.covering(c.indices)
		c.waiting = append(c.waiting, pair{[]byte(metadataKey), state.encode()})
	}
	c.write()
	return c.failure
}
