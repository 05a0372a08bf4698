package secretredactionprocessor

import (
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// FuzzPlacements plants a secret at places that the input chooses: nothing panics, nothing stays, a second hop changes nothing.
func FuzzPlacements(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "some text", false)
	f.Add([]byte{4, 4, 5, 5, 0, 200, 17}, `{"messages": [`, true)
	f.Add([]byte{6, 6, 6, 1}, "\xff\xfe[redacted:", true)
	f.Add([]byte("$7700102C7"), "\xc3", true)
	f.Add([]byte("$$z0Y1+2099"), "\xfa00\xfa", true)
	f.Add([]byte{7, 3, 9, 0}, strings.Repeat("é", 200), true)
	f.Fuzz(func(t *testing.T, choices []byte, around string, redact bool) {
		if strings.Contains(around, "PLANTED") || strings.Contains(around, "PANIC") || len(around) > 10000 || len(choices) > 2000 {
			t.Skip()
		}
		core := testCore()
		if redact {
			core = testCore(redactContent(128), fingerprints)
		}
		data, span := oneSpan()
		(&planter{choices, around}).plant(span.Attributes(), 0)
		checkFuzzed(t, func() string { return tracesJSON(t, data) }, func() { cleanTraces(core, data) })
		logs, record := oneRecord()
		(&planter{choices, around}).plant(record.Body().SetEmptyMap(), 0)
		checkFuzzed(t, func() string { return logsJSON(t, logs) }, func() { cleanLogs(core, logs) })
		metrics, metric := oneMetric()
		points := metric.SetEmptySum().DataPoints()
		for i := range 1 + len(choices)%4 {
			(&planter{choices[min(i, len(choices)):], around}).plant(points.AppendEmpty().Attributes(), 0)
		}
		checkFuzzed(t, func() string { return metricsJSON(t, metrics) }, func() { cleanMetrics(core, metrics) })
	})
}

func checkFuzzed(t *testing.T, text func() string, clean func()) {
	clean()
	first := text()
	if strings.Contains(first, planted) {
		t.Fatalf("the secret stayed in %s", first)
	}
	clean()
	if second := text(); second != first {
		t.Fatalf("a second hop changed\n%s\nto\n%s", first, second)
	}
}

// planter builds a map as its choices say.
type planter struct {
	choices []byte
	around  string
}

func (p *planter) next() byte {
	if len(p.choices) == 0 {
		return 255
	}
	first := p.choices[0]
	p.choices = p.choices[1:]
	return first
}

func (p *planter) key() string {
	keys := []string{"a", "note", "password", "input.value", "messages", "exception.message", "exception.stacktrace", p.around, p.around + planted, "x.id"}
	return keys[int(p.next())%len(keys)]
}

func (p *planter) plant(entries pcommon.Map, depth int) {
	for choice := p.next(); choice != 255 && entries.Len() < 50; choice = p.next() {
		p.fill(entries.PutEmpty(p.key()), choice, depth)
	}
}

func (p *planter) fill(value pcommon.Value, choice byte, depth int) {
	switch choice % 8 {
	case 0:
		value.SetStr(planted)
	case 1:
		value.SetStr(p.around + planted + " " + p.around)
	case 2:
		value.SetInt(int64(choice))
	case 3:
		value.SetEmptyBytes().FromRaw([]byte(p.around + planted))
	case 4:
		if inner := value.SetEmptyMap(); depth < 100 {
			p.plant(inner, depth+1)
		}
	case 5:
		inner := value.SetEmptySlice()
		for range int(p.next()) % 4 {
			p.fill(inner.AppendEmpty(), p.next(), depth+1)
		}
	case 6:
		value.SetStr(p.around)
	default:
		value.SetStr(`{"prompt": "` + p.around + `", "n": "` + planted + `"}`)
	}
}

// FuzzWire feeds what came over the wire: any message that can be decoded can be cleaned and encoded again.
func FuzzWire(f *testing.F) {
	data, span := oneSpan()
	span.SetName(sentence)
	span.Attributes().PutStr("input.value", sentence)
	bytes, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(data)
	failOn(f, err)
	f.Add(bytes)
	f.Fuzz(func(t *testing.T, wire []byte) {
		core := testCore()
		if traces, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(wire); err == nil {
			cleanTraces(core, traces)
			_, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
			failOn(t, err)
		}
		if logs, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(wire); err == nil {
			cleanLogs(core, logs)
			_, err = (&plog.ProtoMarshaler{}).MarshalLogs(logs)
			failOn(t, err)
		}
		if metrics, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(wire); err == nil {
			cleanMetrics(core, metrics)
			_, err = (&pmetric.ProtoMarshaler{}).MarshalMetrics(metrics)
			failOn(t, err)
		}
	})
}
