package main

import (
	"encoding/binary"
	"errors"
	"iter"
)

// Wire types of protocol buffers.
const (
	varintType  = 0
	fixed64Type = 1
	bytesType   = 2
	fixed32Type = 5
)

var errWire = errors.New("not a protocol buffers message")

// field is one field of a message: number carries a varint or fixed value, content a nested message, string or bytes.
type field struct {
	id      int
	number  uint64
	content []byte
}

// fields iterates over the fields of a message; a broken message ends it with an error.
func fields(message []byte) iter.Seq2[field, error] {
	return func(yield func(field, error) bool) {
		for len(message) > 0 {
			next, rest, err := readField(message)
			if !yield(next, err) || err != nil {
				return
			}
			message = rest
		}
	}
}

func readField(message []byte) (read field, rest []byte, err error) {
	tag, size := binary.Uvarint(message)
	if size <= 0 {
		return read, nil, errWire
	}
	read.id, rest = int(tag>>3), message[size:]
	switch tag & 7 {
	case varintType:
		read.number, size = binary.Uvarint(rest)
		if size <= 0 {
			return read, nil, errWire
		}
	case fixed64Type:
		size = 8
		if len(rest) < size {
			return read, nil, errWire
		}
		read.number = binary.LittleEndian.Uint64(rest)
	case fixed32Type:
		size = 4
		if len(rest) < size {
			return read, nil, errWire
		}
		read.number = uint64(binary.LittleEndian.Uint32(rest))
	case bytesType:
		length, prefix := binary.Uvarint(rest)
		if prefix <= 0 || length > uint64(len(rest)-prefix) {
			return read, nil, errWire
		}
		size = prefix + int(length)
		read.content = rest[prefix:size]
	default:
		return read, nil, errWire
	}
	return read, rest[size:], nil
}

func appendVarint(to []byte, id int, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(to, uint64(id)<<3|varintType), value)
}

func appendFixed64(to []byte, id int, value uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.AppendUvarint(to, uint64(id)<<3|fixed64Type), value)
}

func appendBytes[content []byte | string](to []byte, id int, value content) []byte {
	to = binary.AppendUvarint(to, uint64(id)<<3|bytesType)
	return append(binary.AppendUvarint(to, uint64(len(value))), value...)
}
