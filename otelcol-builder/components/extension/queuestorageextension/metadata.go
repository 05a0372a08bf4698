package queuestorageextension

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// metadataKey is where the collector's persistent queue keeps its state; every other key of a queue is the index of an item.
const metadataKey = "qmv0"

var errMetadata = errors.New("the queue's metadata cannot be read")

// metadata is the state of a persistent queue: a protobuf message whose fields are fixed 64-bit numbers.
type metadata struct {
	itemsSize, bytesSize  uint64
	readIndex, writeIndex uint64
	dispatched            []uint64
}

const dispatchedField = 5

// single returns the fields that hold one number, by their numbers from 1 on.
func (m *metadata) single() []*uint64 {
	return []*uint64{&m.itemsSize, &m.bytesSize, &m.readIndex, &m.writeIndex}
}

func decodeMetadata(message []byte) (read metadata, err error) {
	single := read.single()
	for len(message) > 0 {
		field, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return read, errMetadata
		}
		message = message[size:]
		numbers := message[:min(8, len(message))]
		switch size = len(numbers); kind {
		case protowire.Fixed64Type:
		case protowire.BytesType: // many numbers
			numbers, size = protowire.ConsumeBytes(message)
		default:
			return read, errMetadata
		}
		if size < 0 || len(numbers)%8 != 0 || kind == protowire.Fixed64Type && size < 8 {
			return read, errMetadata
		}
		message = message[size:]
		for ; len(numbers) >= 8; numbers = numbers[8:] {
			number := binary.LittleEndian.Uint64(numbers)
			switch {
			case field == dispatchedField:
				read.dispatched = append(read.dispatched, number)
			case int(field) <= len(single):
				*single[field-1] = number
			}
		}
	}
	return read, nil
}

func (m *metadata) encode() (message []byte) {
	for index, number := range m.single() {
		message = protowire.AppendFixed64(protowire.AppendTag(message, protowire.Number(index+1), protowire.Fixed64Type), *number)
	}
	for _, index := range m.dispatched {
		message = protowire.AppendFixed64(protowire.AppendTag(message, dispatchedField, protowire.Fixed64Type), index)
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
