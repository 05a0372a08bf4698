package requestguardextension

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

var roots = map[string]*messageType{"/v1/traces": tracesRequest, "/v1/metrics": metricsRequest, "/v1/logs": logsRequest}

// placesIn calls visit with the way to each field that the decoder allocates for, through each type of message once.
func placesIn(of *messageType, way []*field, seen map[*messageType]bool, visit func(way []*field)) {
	if seen[of] {
		return
	}
	seen[of] = true
	for name, each := range of.byName {
		if name != each.name {
			continue
		}
		further := append(append([]*field{}, way...), each)
		if each.held != inPlace {
			visit(further)
		}
		if each.kind == nested {
			placesIn(each.of, further, seen, visit)
		}
	}
}

// manyInProtobuf returns a request in which the last field of a way stands that many times, empty.
func manyInProtobuf(way []*field, times int) []byte {
	last := way[len(way)-1]
	wireType, content := protowire.BytesType, []byte{0}
	switch {
	case last.varints, last.kind == boolean, last.kind == int32Number, last.kind == int64Number && last.name == "intValue":
		wireType = protowire.VarintType
	case last.kind == float, last.kind == uint64Number, last.kind == int64Number:
		wireType, content = protowire.Fixed64Type, make([]byte, 8)
	}
	one := append(protowire.AppendTag(nil, protowire.Number(last.number), wireType), content...)
	body := bytes.Repeat(one, times)
	for index := len(way) - 2; index >= 0; index-- {
		body = message(nil, protowire.Number(way[index].number), body)
	}
	return body
}

func manyInJSON(way []*field, times int) []byte {
	last := way[len(way)-1]
	one := map[kind]string{nested: "{}", text: `""`, octets: `""`, boolean: "true"}[last.kind]
	if one == "" {
		one = "0"
	}
	var open, end strings.Builder
	for _, each := range way[:len(way)-1] {
		fmt.Fprintf(&open, `{%q:`, each.name)
		if each.isList() {
			open.WriteString("[")
		}
	}
	for index := len(way) - 2; index >= 0; index-- {
		if way[index].isList() {
			end.WriteString("]")
		}
		end.WriteString("}")
	}
	many := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%q:%s,", last.name, one), times), ",")
	if last.isList() {
		many = fmt.Sprintf("%q:[%s]", last.name, strings.TrimSuffix(strings.Repeat(one+",", times), ","))
	}
	return []byte(open.String() + "{" + many + "}" + end.String())
}

func TestWhatIsWeighedCoversWhatTheDecoderTakesForEachFieldOfOTLP(t *testing.T) {
	const times = 3000
	for path, root := range roots {
		placesIn(root, nil, map[*messageType]bool{}, func(way []*field) {
			for isJSON, body := range map[bool][]byte{false: manyInProtobuf(way, times), true: manyInJSON(way, times)} {
				g, _ := newTestGuard(t)
				memory, refused := g.check(path, isJSON, body)
				request, err := decoded(path, isJSON, body)
				if refused != nil || err != nil {
					t.Fatalf("%s %s: %v, %v", path, names(way), refused, err)
				}
				taken := sizeOf(reflect.ValueOf(request))
				if taken > memory {
					t.Errorf("%s %s takes %d bytes, not %d", path, names(way), taken, memory)
				}
				if way[len(way)-1].isList() && memory > 5*taken {
					t.Errorf("%s %s is weighed %d bytes and takes %d", path, names(way), memory, taken)
				}
			}
		})
	}
}

func names(way []*field) string {
	said := make([]string, 0, len(way))
	for _, each := range way {
		said = append(said, each.name)
	}
	return strings.Join(said, ".")
}

func TestAnHonestBatchIsWeighedAtAFewTimesItsSize(t *testing.T) {
	for name, encoded := range map[string][]byte{"traces": honestSpans(1 << 20), "metrics": honestPoints(1 << 20)} {
		for path, root := range roots {
			if !strings.HasSuffix(path, name) {
				continue
			}
			weighed := weighProtobuf(root, encoded, testDepth, math.MaxInt).bytes
			request, err := decoded(path, false, encoded)
			fatal(t, err)
			taken := sizeOf(reflect.ValueOf(request))
			if weighed < taken || weighed > 2*taken {
				t.Errorf("%s of %d bytes: weighed %d, taken %d", name, len(encoded), weighed, taken)
			}
		}
	}
}

// honestSpans returns a batch of that size: each span has ten attributes, as those of a training step.
func honestSpans(size int) []byte {
	var attributes []byte
	for number := range 10 {
		value := message(nil, 1, []byte("some value of the step"))
		attributes = message(attributes, 9, message(message(nil, 1, fmt.Appendf(nil, "rl.some.attribute.%d", number)), 2, value))
	}
	one := message(nil, 1, bytes.Repeat([]byte{1}, 16))
	one = message(message(one, 2, bytes.Repeat([]byte{2}, 8)), 5, []byte("rl.rank.step"))
	one = message(nil, 2, append(one, attributes...))
	return message(nil, 1, message(nil, 2, bytes.Repeat(one, size/len(one))))
}

// honestPoints returns a batch of points of one gauge, each of 18 bytes and an attribute.
func honestPoints(size int) []byte {
	point := append(protowire.AppendTag(nil, 3, protowire.Fixed64Type), make([]byte, 8)...)
	point = append(protowire.AppendTag(point, 4, protowire.Fixed64Type), make([]byte, 8)...)
	point = message(point, 7, message(message(nil, 1, []byte("rl.rank")), 2, message(nil, 1, []byte("7"))))
	one := message(nil, 1, point)
	points := message(message(nil, 1, []byte("rl.step.duration")), 5, bytes.Repeat(one, size/len(one)))
	return message(nil, 1, message(nil, 2, message(nil, 2, points)))
}
