package requestguardextension

import (
	"bytes"
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
	return message(nil, 1, message(nil, 2, message(nil, 2, span)))
}

func message(into []byte, field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(into, field, protowire.BytesType), content)
}

func nestedJSON(levels int) []byte {
	return []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":` +
		strings.Repeat(`{"kvlistValue":{"values":[{"key":"\"{[","value":`, levels) + `{"stringValue":"x"}` +
		strings.Repeat(`}]}}`, levels) + `}]}]}]}]}`)
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

func TestTextThatLooksLikeMessagesPasses(t *testing.T) {
	// Each pair is a tag and a length that leaves two bytes less: the deepest that ASCII text can look like.
	var deepest []byte
	for length := byte(126); length >= 2; length -= 2 {
		deepest = append(deepest, 0x0a, length)
	}
	for _, text := range [][]byte{deepest, bytes.Repeat([]byte("\n\n"), 1<<20), bytes.Repeat([]byte("zz"), 1<<20), []byte(strings.Repeat("é{[\"\n", 1<<18))} {
		if protobufTooDeep(message(nil, 1, message(nil, 2, message(nil, 2, text))), 40) {
			t.Errorf("text that begins with %q is refused", text[:8])
		}
	}
	if jsonTooDeep([]byte(`{"a": "`+strings.Repeat(`[{\"`, 10_000)+`"}`), 40) {
		t.Error("brackets in a JSON string are counted")
	}
}

func BenchmarkProtobufDepth(b *testing.B) {
	spans := bytes.Repeat(nestedProtobuf(5), 5000)
	b.SetBytes(int64(len(spans)))
	for b.Loop() {
		protobufTooDeep(spans, 40)
	}
}
