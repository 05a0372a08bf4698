package requestguardextension

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	testDepth = 40
	// smallStack lets the decoder read what the guard passes, and ends the test process where it recurses deeper.
	smallStack = 512 << 10
	// mostLevels of nesting take several times smallStack in the decoder.
	mostLevels = 8192
	// mostRepeated bytes of JSON come from a piece: longer bodies would leave a fuzz test time for a dozen of them.
	mostRepeated = 256 << 10
)

// limitStack is called by TestMain, which is generated.
func limitStack() { debug.SetMaxStack(smallStack) }

// disguised nests a span's attribute in lists, and puts the same fields before the nested one at each level.
func disguised(before []byte, levels int) []byte {
	heads, size := make([][]byte, 0, 2*levels), 3
	for range levels {
		for _, field := range []protowire.Number{1, 5} { // ArrayValue.values, AnyValue.array_value
			head := protowire.AppendTag(bytes.Clone(before), field, protowire.BytesType)
			head = protowire.AppendVarint(head, uint64(size))
			heads = append(heads, head)
			size += len(head)
		}
	}
	value := make([]byte, 0, size)
	for index := len(heads) - 1; index >= 0; index-- {
		value = append(value, heads[index]...)
	}
	value = append(value, 0x0a, 1, 'x')
	body := append(bytes.Clone(before), message(nil, 2, value)...)
	for _, field := range []protowire.Number{9, 2, 2, 1} { // Span.attributes, ScopeSpans.spans, ResourceSpans.scope_spans
		body = append(bytes.Clone(before), message(nil, field, body)...)
	}
	return body
}

func TestNestingIsFoundBehindFieldsThatHideItFromAStricterReader(t *testing.T) {
	for name, before := range map[string][]byte{
		"an empty group":                     {0x7b, 0x7c},
		"a group that does not end":          {0x7b},
		"a group with a field":               {0x7b, 0x10, 1, 0x7c},
		"a group in a group":                 {0x7b, 0x7b, 0x7c, 0x7c},
		"a number of more than 64 bits":      {0x78, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f},
		"a tag of more than 64 bits":         {0xf8, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 0},
		"a field number of more than 32":     {0x88, 0x80, 0x80, 0x80, 0x80, 0x01, 0},
		"fixed numbers":                      {0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7d, 1, 2, 3, 4},
		"a length in more bytes than needed": {0x7a, 0x81, 0x80, 0x00, 'x'},
	} {
		for _, levels := range []int{200, mostLevels} {
			if !protobufTooDeep(disguised(before, levels), testDepth) {
				t.Errorf("%s hides %d levels", name, levels)
			}
		}
		if protobufTooDeep(disguised(before, 10), testDepth) {
			t.Errorf("%s: 10 levels are refused as too deep", name)
		}
	}
}

func TestAGroupAtTheTopOfARequestIsRefused(t *testing.T) {
	g, _ := newTestGuard(t)
	for _, group := range [][]byte{{0x7b, 0x7c}, {0x7c}, {0x0b}} {
		_, refused := g.check("/v1/traces", false, append(group, nestedProtobuf(1)...))
		if refused == nil || refused.reason != malformed {
			t.Errorf("% x: %v", group, refused)
		}
	}
	if _, refused := g.check("/v1/traces", false, message(nil, 1, message(nil, 3, []byte("strings{with|groups}")))); refused != nil {
		t.Errorf("text that looks like groups is refused: %v", refused)
	}
}

func TestJSONThatTheDecoderWouldRecurseInWithoutBracketsIsRefused(t *testing.T) {
	g, _ := newTestGuard(t)
	for name, repeated := range map[string]string{
		"commas for brackets":      `,"arrayValue":,"values":,`,
		"closed in place of items": `{"arrayValue":{"values":[1,],},},],`,
		"quotes in place of items": `{"arrayValue":{"values":[",",`,
	} {
		body := []byte(valueInJSON + string(bytes.Repeat([]byte(repeated), mostLevels)))
		if _, refused := g.check("/v1/traces", true, body); refused == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

const valueInJSON = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":`

// FuzzProtobufAgainstTheDecoder: what the guard passes, the decoder reads without getting deep, for all three signals.
func FuzzProtobufAgainstTheDecoder(f *testing.F) {
	f.Add([]byte{0x7b, 0x7c}, []byte{}, uint16(1000))
	f.Add([]byte{0x78, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02}, []byte{}, uint16(1000))
	f.Add([]byte{}, nestedProtobuf(3), uint16(3))
	f.Add([]byte{0x10, 1}, []byte{0x7b, 0x7c}, uint16(mostLevels))
	f.Fuzz(func(t *testing.T, before, after []byte, levels uint16) {
		if len(before) > 64 || len(after) > 4096 {
			t.Skip()
		}
		g, _ := newTestGuard(t)
		for _, body := range [][]byte{after, append(disguised(before, int(levels)%mostLevels), after...)} {
			for _, path := range paths {
				checkDecoded(t, g, path, false, body)
			}
		}
	})
}

// FuzzJSONAgainstTheDecoder: the same for JSON, with a piece that is repeated where a value stands.
func FuzzJSONAgainstTheDecoder(f *testing.F) {
	f.Add(valueInJSON, `{"arrayValue":{"values":[`, `]}}`, uint16(1000))
	f.Add(valueInJSON, `,"arrayValue":,"values":,`, ``, uint16(mostLevels))
	f.Add(valueInJSON, `{"kvlistValue":{"values":[{"key":"\"{[","value":`, `}]}}`, uint16(3))
	f.Add(`{"resourceSpans":[{"resource":`, `{"attributes":[[1,"values"],{"key":`, `}]}`, uint16(mostLevels))
	f.Add(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":`, `{"array_value":{"values":[12,"values",[`, `]]}}`, uint16(mostLevels))
	f.Add(`{"resourceMetrics":[`, `{"unknown":[`, `]}`, uint16(mostLevels))
	f.Fuzz(func(t *testing.T, begin, open, end string, levels uint16) {
		if len(begin) > 4096 || len(open) > 128 || len(end) > 128 {
			t.Skip()
		}
		g, _ := newTestGuard(t)
		count := min(int(levels)%(mostLevels+1), mostRepeated/max(1, len(open)+len(end)))
		middle := append(bytes.Repeat([]byte(open), count), `{"stringValue":"x"}`...)
		middle = append(middle, bytes.Repeat([]byte(end), count)...)
		for _, tail := range []string{"", `}]}]}]}]}`, `}]}`, `}]}]}]}`, `]}`} {
			body := append(append([]byte(begin), middle...), tail...)
			for _, path := range paths {
				checkDecoded(t, g, path, true, body)
			}
		}
	})
}

var paths = []string{"/v1/traces", "/v1/metrics", "/v1/logs"}

// checkDecoded decodes what the guard passes: it must not get deep, and take no more memory than was said. What the
// decoder takes is passed.
func checkDecoded(t *testing.T, g *guard, path string, isJSON bool, body []byte) {
	t.Helper()
	memory, refused := g.check(path, isJSON, body)
	if refused != nil {
		// The decoder must not see much of what does not fit: it goes on after an error.
		if isJSON && refused.reason == malformed && len(body) < 4096 && json.Valid(body) && !strings.Contains(refused.message, "without a name") {
			if _, err := decoded(path, isJSON, body); err == nil {
				t.Errorf("%s: refused though it can be decoded: %s", path, refused.message)
			}
		}
		return
	}
	request, err := decoded(path, isJSON, body)
	if taken := sizeOf(reflect.ValueOf(request)); taken > memory {
		t.Errorf("%s: %d bytes of memory were said, %d are taken", path, memory, taken)
	}
	if traces, ok := request.(ptraceotlp.ExportRequest); ok && err == nil {
		checkDepth(t, traces)
	}
}

type decodable interface {
	UnmarshalProto([]byte) error
	UnmarshalJSON([]byte) error
}

func decoded(path string, isJSON bool, body []byte) (any, error) {
	var into decodable
	switch traces, metrics, logs := ptraceotlp.NewExportRequest(), pmetricotlp.NewExportRequest(), plogotlp.NewExportRequest(); path {
	case "/v1/metrics":
		into = metrics
	case "/v1/logs":
		into = logs
	default:
		into = traces
	}
	if isJSON {
		return into, into.UnmarshalJSON(body)
	}
	return into, into.UnmarshalProto(body)
}

// sizeOf adds up what a value holds on the heap.
func sizeOf(value reflect.Value) (bytes int) {
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			return 0
		}
		if pointed := value.Elem(); value.Kind() == reflect.Pointer {
			return int(pointed.Type().Size()) + sizeOf(pointed)
		}
		return sizeOf(value.Elem())
	case reflect.String:
		return value.Len()
	case reflect.Slice:
		bytes = value.Cap() * int(value.Type().Elem().Size())
		if value.Type().Elem().Kind() < reflect.Array {
			return bytes
		}
		for index := range value.Len() {
			bytes += sizeOf(value.Index(index))
		}
	case reflect.Struct:
		for index := range value.NumField() {
			bytes += sizeOf(value.Field(index))
		}
	}
	return bytes
}

// checkDepth fails where a value is nested deeper than the guard may let pass.
func checkDepth(t *testing.T, request ptraceotlp.ExportRequest) {
	deepest := 0
	for _, resource := range request.Traces().ResourceSpans().All() {
		deepest = max(deepest, depthOfMap(resource.Resource().Attributes()))
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				deepest = max(deepest, depthOfMap(span.Attributes()))
			}
		}
	}
	// A list costs two messages where a map costs three, so that more of them pass.
	if most := (messagesAroundValue + messagesPerLevel*testDepth) / 2; deepest > most {
		t.Errorf("%d levels pass, %d at most may", deepest, most)
	}
}

func depthOfMap(values pcommon.Map) (deepest int) {
	for _, value := range values.All() {
		deepest = max(deepest, depthOf(value))
	}
	return deepest
}

func depthOf(value pcommon.Value) (deepest int) {
	switch value.Type() {
	case pcommon.ValueTypeMap:
		return 1 + depthOfMap(value.Map())
	case pcommon.ValueTypeSlice:
		for _, each := range value.Slice().All() {
			deepest = max(deepest, depthOf(each))
		}
		return 1 + deepest
	}
	return 0
}
