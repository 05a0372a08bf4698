package requestguardextension

import "math"

// weight adds up the memory that a request takes when it is decoded, and stops where it is more than most.
type weight struct {
	bytes, most int
	// levels is how deep messages or brackets may still nest.
	levels  int
	tooDeep bool
}

func (w *weight) tooMuch() bool { return w.bytes > w.most }

// done tells whether nothing that follows can change the answer.
func (w *weight) done() bool { return w.tooDeep || w.tooMuch() }

// addText adds a copy of a text. What the allocator rounds up is 1/8 at most, or 16 bytes.
func (w *weight) addText(length int) {
	if length > 0 {
		w.bytes += length + length/8 + 16
	}
}

// enter goes one level deeper. It returns false where that is too deep.
func (w *weight) enter() bool {
	if w.levels == 0 {
		w.tooDeep = true
		return false
	}
	w.levels--
	return true
}

func (w *weight) leave() { w.levels++ }

// A value in OTLP that is nested in one more map costs three messages in protobuf (AnyValue, KeyValueList, KeyValue) and
// four brackets in JSON; what is around a value that is not nested at all is less than the constants.
const (
	messagesAroundValue, messagesPerLevel = 10, 3
	bracketsAroundValue, bracketsPerLevel = 16, 4
)

// aroundRequest is what the decoder takes for an empty request.
const aroundRequest = 64

// weighProtobuf weighs an encoded message of this type. It reads as pdata v1.64.0 does, and ends where that would.
func weighProtobuf(of *messageType, encoded []byte, maxDepth, most int) weight {
	w := weight{bytes: aroundRequest, most: most, levels: messagesAroundValue + messagesPerLevel*maxDepth}
	w.addMessage(of, encoded)
	return w
}

func (w *weight) addMessage(of *messageType, encoded []byte) {
	if !w.enter() {
		return
	}
	defer w.leave()
	for len(encoded) > 0 && !w.done() {
		tag, size := varint(encoded)
		if size == 0 {
			return // no message; the decoder says so better
		}
		content, rest, ok := nextField(encoded[size:], tag&7)
		if !ok {
			return
		}
		// The decoder cuts the number to 32 bits.
		if known := of.field(int32(tag >> 3)); known != nil {
			w.addField(known, content, tag&7)
		}
		encoded = rest
	}
}

func (w *weight) addField(f *field, content []byte, wireType uint64) {
	switch {
	case f.kind == nested:
		w.bytes += f.each
		w.addMessage(f.of, content)
	case f.kind == text || f.kind == octets:
		w.bytes += f.each
		w.addText(len(content))
	case f.varints && wireType == wireBytes:
		w.bytes += f.each * countVarints(content)
	case f.isList() && wireType == wireBytes:
		w.addText(len(content)) // made at once, of as many bytes
	default:
		w.bytes += f.each
	}
}

// countVarints counts the bytes that end a number.
func countVarints(content []byte) (count int) {
	for _, each := range content {
		if each <= math.MaxInt8 {
			count++
		}
	}
	return count
}
