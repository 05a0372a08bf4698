package requestguardextension

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// nestedProtobuf returns a trace request with one attribute nested in that many lists.
func nestedProtobuf(levels int) []byte {
	// From the inside outwards would copy everything at each level: the heads are written backwards instead.
	heads, size := make([][]byte, 0, 2*levels), 3
	for range levels {
		for _, field := range []protowire.Number{1, 5} { // ArrayValue.values, AnyValue.array_value
			head := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), uint64(size))
			heads = append(heads, head)
			size += len(head)
		}
	}
	value := make([]byte, 0, size)
	for index := len(heads) - 1; index >= 0; index-- {
		value = append(value, heads[index]...)
	}
	value = append(value, 0x0a, 1, 'x')
	attribute := message(nil, 1, []byte("key"))
	attribute = message(attribute, 2, value)
	span := message(nil, 1, bytes.Repeat([]byte{1}, 16))
	span = message(span, 9, attribute)
	return inSpans(span)
}

func message(into []byte, field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(into, field, protowire.BytesType), content)
}

// inSpans returns a trace request with one span of these fields.
func inSpans(fields []byte) []byte {
	return message(nil, 1, message(nil, 2, message(nil, 2, fields)))
}

func nestedJSON(levels int) []byte {
	return []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":` +
		strings.Repeat(`{"kvlistValue":{"values":[{"key":"\"{[","value":`, levels) + `{"stringValue":"x"}` +
		strings.Repeat(`}]}}`, levels) + `}]}]}]}]}`)
}

func protobufTooDeep(encoded []byte, levels int) bool {
	return weighProtobuf(tracesRequest, encoded, levels, math.MaxInt).tooDeep
}

func jsonTooDeep(text []byte, levels int) bool {
	w, _ := weighJSON(tracesRequest, text, levels, math.MaxInt)
	return w.tooDeep
}

func TestWhatIsNestedDeeperThanTheLimitIsFound(t *testing.T) {
	for _, levels := range []int{0, 10, 40} {
		if protobufTooDeep(nestedProtobuf(levels), 40) || jsonTooDeep(nestedJSON(levels), 40) {
			t.Errorf("%d levels are refused", levels)
		}
	}
	for _, levels := range []int{100, 10_000, 1_000_000} {
		if !protobufTooDeep(nestedProtobuf(levels), 40) {
			t.Errorf("%d levels of protobuf pass", levels)
		}
		if !jsonTooDeep(nestedJSON(levels), 40) {
			t.Errorf("%d levels of JSON pass", levels)
		}
	}
}

func TestTextThatLooksLikeMessagesIsNotRead(t *testing.T) {
	text := bytes.Repeat([]byte("\n\x7e"), 1<<20)
	if weighed := weighProtobuf(tracesRequest, inSpans(message(nil, 5, text)), testDepth, math.MaxInt); weighed.tooDeep || weighed.bytes > 3*len(text) {
		t.Errorf("%+v", weighed)
	}
	if jsonTooDeep([]byte(`{"a": "`+strings.Repeat(`[{\"`, 10_000)+`"}`), 40) {
		t.Error("brackets in a JSON string are counted")
	}
}
