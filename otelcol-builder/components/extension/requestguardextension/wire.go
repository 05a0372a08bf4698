package requestguardextension

import "math"

// The wire types of protobuf.
const (
	wireVarint, wireFixed64, wireBytes, wireStartGroup, wireEndGroup, wireFixed32 = 0, 1, 2, 3, 4, 5
)

// nextField cuts the content of one field off; the content is empty for fields of fixed size and numbers.
//
// The tags around a group are passed over, and what is in it is read as if it stood outside: pdata v1.64.0 does so
// (internal/proto.ConsumeUnknown ends a group at its first field), so ending the scan here would let the rest pass unseen.
func nextField(encoded []byte, wireType uint64) (field, rest []byte, ok bool) {
	length := 0
	switch wireType {
	case wireVarint:
		if _, length = varint(encoded); length == 0 {
			return nil, nil, false
		}
	case wireFixed64:
		length = 8
	case wireFixed32:
		length = 4
	case wireStartGroup, wireEndGroup:
	case wireBytes:
		content, size := varint(encoded)
		if size == 0 || content > uint64(len(encoded)-size) {
			return nil, nil, false
		}
		end := size + int(content)
		return encoded[size:end], encoded[end:], true
	default:
		return nil, nil, false
	}
	if length > len(encoded) {
		return nil, nil, false
	}
	return nil, encoded[length:], true
}

// holdsGroup tells whether a request has a field of the wire types of groups at its top, where no text can look like one.
// OTLP has no groups, and pdata v1.64.0 reads what is in an unknown one as fields of its own.
func holdsGroup(encoded []byte) bool {
	for len(encoded) > 0 {
		tag, size := varint(encoded)
		if size == 0 {
			return false
		}
		if wireType := tag & 7; wireType == wireStartGroup || wireType == wireEndGroup {
			return true
		}
		_, rest, ok := nextField(encoded[size:], tag&7)
		if !ok {
			return false
		}
		encoded = rest
	}
	return false
}

// varint reads a number as pdata v1.64.0 does (internal/proto.ConsumeVarint): bits beyond the 64th are cut off, where
// encoding/binary sees an error. The size is 0 where it ends too late or not at all.
func varint(encoded []byte) (number uint64, size int) {
	for shift := 0; shift < 64; shift += 7 {
		if size >= len(encoded) {
			return 0, 0
		}
		each := encoded[size]
		size++
		number |= uint64(each&math.MaxInt8) << shift
		if each <= math.MaxInt8 {
			return number, size
		}
	}
	return 0, 0
}
