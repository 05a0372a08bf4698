package requestguardextension

import (
	"bytes"
	"encoding/binary"
)

// A value in OTLP that is nested in one more map costs three messages in protobuf (AnyValue, KeyValueList, KeyValue) and
// four brackets in JSON; what is around a value that is not nested at all is less than the constants.
const (
	messagesAroundValue, messagesPerLevel = 10, 3
	bracketsAroundValue, bracketsPerLevel = 16, 4
)

// protobufTooDeep tells whether messages in the encoded message are nested deeper than levels of values make them.
//
// It knows no schema: every length-delimited field is followed as if it were a message, text too. Text does not get
// deep: in ASCII each level takes two bytes and a length below 128, so that it ends after at most 64.
func protobufTooDeep(encoded []byte, levels int) bool {
	return deeperThan(encoded, messagesAroundValue+messagesPerLevel*levels)
}

func deeperThan(encoded []byte, remaining int) bool {
	if remaining == 0 {
		return true
	}
	for len(encoded) > 0 {
		tag, size := binary.Uvarint(encoded)
		if size <= 0 || tag>>3 == 0 {
			return false // no message; the decoder says so better
		}
		encoded = encoded[size:]
		field, rest, ok := nextField(encoded, tag&7)
		if !ok {
			return false
		}
		// Each level takes two bytes at least: what is shorter cannot hold as many. This skips nearly all text.
		if len(field) >= 2*(remaining-1) && deeperThan(field, remaining-1) {
			return true
		}
		encoded = rest
	}
	return false
}

// nextField cuts the content of one field off; the content is empty for fields of fixed size and numbers.
func nextField(encoded []byte, wireType uint64) (field, rest []byte, ok bool) {
	length := 0
	switch wireType {
	case 0:
		_, length = binary.Uvarint(encoded)
		if length <= 0 {
			return nil, nil, false
		}
	case 1:
		length = 8
	case 5:
		length = 4
	case 2:
		content, size := binary.Uvarint(encoded)
		if size <= 0 || content > uint64(len(encoded)-size) {
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

// jsonTooDeep tells whether the brackets of a JSON text are nested deeper than levels of values make them.
func jsonTooDeep(text []byte, levels int) bool {
	limit, depth := bracketsAroundValue+bracketsPerLevel*levels, 0
	for position := 0; position < len(text); position++ {
		switch text[position] {
		case '"':
			position = endOfString(text, position)
		case '{', '[':
			depth++
			if depth > limit {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

// endOfString returns where the string that begins at start has its closing quote, or the length of the text.
func endOfString(text []byte, start int) int {
	for position := start + 1; position < len(text); {
		found := bytes.IndexByte(text[position:], '"')
		if found < 0 {
			return len(text)
		}
		position += found
		escapes := 0
		for text[position-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return position
		}
		position++
	}
	return len(text)
}
