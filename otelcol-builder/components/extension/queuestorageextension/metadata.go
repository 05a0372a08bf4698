package queuestorageextension

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
)

// metadataKey is where the collector's persistent queue keeps its state; every other key of a queue is the index of an item.
const metadataKey = "qmv0"

// Fields of the queue's metadata message. All of them are fixed 64-bit numbers.
const (
	itemsSizeField = 1 + iota
	bytesSizeField
	readIndexField
	writeIndexField
	dispatchedField
)

const (
	fixed64Wire = 1
	bytesWire   = 2
)

var errMetadata = errors.New("the queue's metadata cannot be read")

// metadata is the state of a persistent queue.
type metadata struct {
	itemsSize, bytesSize  uint64
	readIndex, writeIndex uint64
	dispatched            []uint64
}

func decodeMetadata(message []byte) (read metadata, err error) {
	for len(message) > 0 {
		tag, size := binary.Uvarint(message)
		if size <= 0 {
			return read, errMetadata
		}
		message = message[size:]
		var numbers []byte
		switch tag & 7 {
		case fixed64Wire:
			numbers, message, err = split(message, 8)
		case bytesWire:
			length, prefix := binary.Uvarint(message)
			numbers, message, err = split(message[max(prefix, 0):], length)
		default:
			err = errMetadata
		}
		if err != nil {
			return read, err
		}
		for ; len(numbers) >= 8; numbers = numbers[8:] {
			read.set(tag>>3, binary.LittleEndian.Uint64(numbers))
		}
	}
	return read, nil
}

func split(message []byte, length uint64) (first, rest []byte, err error) {
	if length > uint64(len(message)) {
		return nil, nil, errMetadata
	}
	return message[:length], message[length:], nil
}

func (m *metadata) set(field, number uint64) {
	switch field {
	case itemsSizeField:
		m.itemsSize = number
	case bytesSizeField:
		m.bytesSize = number
	case readIndexField:
		m.readIndex = number
	case writeIndexField:
		m.writeIndex = number
	case dispatchedField:
		m.dispatched = append(m.dispatched, number)
	}
}

func (m *metadata) encode() (message []byte) {
	for field, number := range map[uint64]uint64{
		itemsSizeField: m.itemsSize, bytesSizeField: m.bytesSize, readIndexField: m.readIndex, writeIndexField: m.writeIndex,
	} {
		message = binary.LittleEndian.AppendUint64(binary.AppendUvarint(message, field<<3|fixed64Wire), number)
	}
	for _, index := range m.dispatched {
		message = binary.LittleEndian.AppendUint64(binary.AppendUvarint(message, dispatchedField<<3|fixed64Wire), index)
	}
	return message
}

// undispatch puts items that were under way back to where they were read from. The queue itself would take them out of the
// store first and then write them anew: between the two a crash, or a full disk, loses them.
func (m *metadata) undispatch() bool {
	if len(m.dispatched) == 0 {
		return false
	}
	m.readIndex = min(m.readIndex, slices.Min(m.dispatched))
	m.dispatched = nil
	return true
}

// covering returns metadata of a queue that holds these items and perhaps others.
func (m metadata) covering(indices []uint64) metadata {
	m.undispatch()
	if len(indices) > 0 {
		m.readIndex = slices.Min(indices)
		m.writeIndex = max(m.writeIndex, slices.Max(indices)+1)
	}
	m.writeIndex = max(m.writeIndex, m.readIndex)
	return m
}

// itemIndex returns the index that a key of the queue stands for.
func itemIndex(key string) (uint64, bool) {
	index, err := strconv.ParseUint(key, 10, 64)
	return index, err == nil
}
