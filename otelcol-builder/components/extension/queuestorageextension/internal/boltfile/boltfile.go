// Package boltfile reads the files of bbolt, the store under the queues, without trusting them.
//
// bbolt maps a file into memory and follows what its pages say: a file that was cut kills the process. Here every page is read
// with its bounds checked, so that a damaged file can be told, and whatever is whole in it can be taken out.
package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
)

const (
	headerSize   = 16
	metaSize     = 64
	elementSize  = 16
	magic        = 0xED0CDAED
	version      = 2
	branchPage   = 0x01
	leafPage     = 0x02
	bucketEntry  = 0x01
	smallestPage = 1024
	largestPage  = 64 << 10
)

var errNoMeta = errors.New("neither of its two meta pages is whole")

// File is an open file of bbolt.
type File struct {
	file      *os.File
	size      int64
	pageSize  int64
	root      uint64 // 0: no meta page is whole
	highWater uint64
	seen      map[uint64]bool
	problems  []error
}

// defaultPage is what bbolt takes where nothing else is known: the page of the operating system.
var defaultPage = int64(os.Getpagesize())

// Entry is a key of a bucket.
type Entry struct {
	Key      string
	isBucket bool
	in       *File
	at, size int64
}

// Value reads what belongs to the key.
func (e Entry) Value() ([]byte, error) { return e.in.read(e.at, e.size) }

// Open opens a file and reads the newer meta page that is whole.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	opened := &File{file: file, size: info.Size(), pageSize: defaultPage, highWater: uint64(info.Size() / defaultPage)}
	opened.readMetas()
	return opened, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// readMetas takes the meta page of the newest transaction. The second one lies one page behind the first, whatever a page is.
func (f *File) readMetas() {
	newest := uint64(0)
	for offset := int64(0); offset <= largestPage; offset = max(2*offset, smallestPage) {
		meta := make([]byte, metaSize)
		if _, err := f.file.ReadAt(meta, offset+headerSize); err != nil {
			break
		}
		word := func(at int) uint64 { return binary.LittleEndian.Uint64(meta[at:]) }
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:56])
		pageSize := int64(binary.LittleEndian.Uint32(meta[8:]))
		whole := binary.LittleEndian.Uint32(meta) == magic && binary.LittleEndian.Uint32(meta[4:]) == version &&
			word(56) == sum.Sum64() && pageSize >= smallestPage && (offset == 0 || offset == pageSize)
		if transaction := word(48); whole && (f.root == 0 || transaction > newest) {
			newest = transaction
			f.pageSize, f.root, f.highWater = pageSize, word(16), word(40)
		}
	}
}

// Entries calls visit for each entry of a top-level bucket that is whole, and returns what is not.
func (f *File) Entries(bucket string, visit func(Entry)) []error {
	if f.root == 0 {
		return []error{errNoMeta}
	}
	f.seen, f.problems = map[uint64]bool{}, nil
	if need := int64(f.highWater) * f.pageSize; need > f.size {
		f.problem("the file has %d bytes, its pages need %d", f.size, need)
	}
	f.page(f.root, func(root Entry) {
		if !root.isBucket || root.Key != bucket {
			return
		}
		header, err := f.read(root.at, min(root.size, headerSize))
		if err != nil || len(header) < headerSize {
			f.problem("the bucket %s cannot be read", bucket)
		} else if page := binary.LittleEndian.Uint64(header); page != 0 {
			f.page(page, visit)
		} else { // a small bucket lies inside
			f.elements(root.at+headerSize, root.size-headerSize, visit)
		}
	})
	return f.problems
}

// Leaves visits the entries of every leaf page, whether a tree leads to it or not: those of a tree that is broken, and those of
// pages that were given free and still hold what was deleted.
func (f *File) Leaves(visit func(Entry)) {
	f.seen = map[uint64]bool{}
	for id := range uint64(f.size / f.pageSize) {
		header, err := f.read(int64(id)*f.pageSize, headerSize)
		if err == nil && binary.LittleEndian.Uint64(header) == id && binary.LittleEndian.Uint16(header[8:]) == leafPage {
			f.page(id, func(found Entry) {
				if !found.isBucket {
					visit(found)
				}
			})
		}
	}
}

// page visits the entries below a page.
func (f *File) page(id uint64, visit func(Entry)) {
	at := int64(id) * f.pageSize
	header, err := f.read(at, headerSize)
	switch {
	case f.seen[id]:
		f.problem("page %d belongs to more than one place", id)
	case err != nil || id >= f.highWater || binary.LittleEndian.Uint64(header) != id:
		f.problem("page %d cannot be read", id)
	default:
		f.seen[id] = true
		f.elements(at, (int64(binary.LittleEndian.Uint32(header[12:]))+1)*f.pageSize, visit)
	}
}

// elements visits the elements of a page that lies at an offset: those of a leaf, or the pages below a branch.
func (f *File) elements(at, size int64, visit func(Entry)) {
	header, err := f.read(at, headerSize)
	if err != nil {
		f.problem("the page at byte %d cannot be read", at)
		return
	}
	kind, count := binary.LittleEndian.Uint16(header[8:]), int64(binary.LittleEndian.Uint16(header[10:]))
	table, err := f.read(at+headerSize, count*elementSize)
	if err != nil || kind != leafPage && kind != branchPage || headerSize+count*elementSize > size {
		f.problem("the page at byte %d is no page of a tree", at)
		return
	}
	previous := ""
	for index := range count {
		element := table[index*elementSize:][:elementSize]
		if kind == branchPage {
			f.page(binary.LittleEndian.Uint64(element[8:]), visit)
			continue
		}
		number := func(at int) int64 { return int64(binary.LittleEndian.Uint32(element[at:])) }
		keyAt, keySize, valueSize := at+headerSize+index*elementSize+number(4), number(8), number(12)
		key, err := f.read(keyAt, keySize)
		if err != nil || keyAt+keySize+valueSize > min(at+size, f.size) || string(key) <= previous { // keys ascend
			f.problem("the entry at byte %d is none, or reaches beyond its page", keyAt)
			continue
		}
		previous = string(key)
		visit(Entry{previous, number(0)&bucketEntry != 0, f, keyAt + keySize, valueSize})
	}
}

func (f *File) read(at, size int64) ([]byte, error) {
	if at < 0 || size < 0 || at+size > f.size {
		return nil, fmt.Errorf("bytes %d to %d of %d", at, at+size, f.size)
	}
	content := make([]byte, size)
	_, err := f.file.ReadAt(content, at)
	return content, err
}

func (f *File) problem(format string, values ...any) {
	f.problems = append(f.problems, fmt.Errorf(format, values...))
}
