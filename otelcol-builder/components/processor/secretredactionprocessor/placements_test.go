package secretredactionprocessor

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/xpdata/entity"
)

const sentence = "it used " + planted + " twice"

// mapPlacements plant a secret in attributes of any kind.
var mapPlacements = map[string]func(pcommon.Map){
	"value":            func(m pcommon.Map) { m.PutStr("note", sentence) },
	"key":              func(m pcommon.Map) { m.PutStr("note "+planted, "x") },
	"nested map":       func(m pcommon.Map) { m.PutEmptyMap("a").PutEmptyMap("b").PutStr("c", sentence) },
	"nested key":       func(m pcommon.Map) { m.PutEmptyMap("a").PutEmptyMap(planted).PutInt("c", 1) },
	"list":             func(m pcommon.Map) { m.PutEmptySlice("a").AppendEmpty().SetStr(sentence) },
	"list in map":      func(m pcommon.Map) { m.PutEmptyMap("a").PutEmptySlice("b").AppendEmpty().SetStr(sentence) },
	"map in list":      func(m pcommon.Map) { m.PutEmptySlice("a").AppendEmpty().SetEmptyMap().PutStr("b", sentence) },
	"bytes":            func(m pcommon.Map) { m.PutEmptyBytes("a").FromRaw([]byte(sentence)) },
	"bytes, not text":  func(m pcommon.Map) { m.PutEmptyBytes("a").FromRaw([]byte("\xff\x00" + sentence)) },
	"secret key":       func(m pcommon.Map) { m.PutStr("password", planted) },
	"under secret key": func(m pcommon.Map) { m.PutEmptyMap("password").PutEmptySlice("x").AppendEmpty().SetStr(planted) },
	"stack trace": func(m pcommon.Map) {
		m.PutStr("exception.stacktrace", `  File "/`+planted+`", line 1, in main`+"\n")
	},
}

var spanPlacements = map[string]func(ptrace.ResourceSpans, ptrace.ScopeSpans, ptrace.Span){
	"span name": func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) { s.SetName(sentence) },
	"trace state": func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		s.TraceState().FromRaw("a=" + planted)
	},
	"infra status": func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		s.Status().SetMessage("OSError: " + planted)
	},
	"status": func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) { s.Status().SetMessage(planted) },
	"event name": func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		s.Events().AppendEmpty().SetName(sentence)
	},
	"link state": func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		s.Links().AppendEmpty().TraceState().FromRaw("a=" + planted)
	},
	"scope name":        func(_ ptrace.ResourceSpans, g ptrace.ScopeSpans, _ ptrace.Span) { g.Scope().SetName(sentence) },
	"scope version":     func(_ ptrace.ResourceSpans, g ptrace.ScopeSpans, _ ptrace.Span) { g.Scope().SetVersion(planted) },
	"schema of a scope": func(_ ptrace.ResourceSpans, g ptrace.ScopeSpans, _ ptrace.Span) { g.SetSchemaUrl("https://" + planted) },
	"schema":            func(r ptrace.ResourceSpans, _ ptrace.ScopeSpans, _ ptrace.Span) { r.SetSchemaUrl("https://" + planted) },
}

var spanMaps = map[string]func(ptrace.ResourceSpans, ptrace.ScopeSpans, ptrace.Span) pcommon.Map{
	"span": func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) pcommon.Map { return s.Attributes() },
	"event": func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) pcommon.Map {
		return s.Events().AppendEmpty().Attributes()
	},
	"link": func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) pcommon.Map {
		return s.Links().AppendEmpty().Attributes()
	},
	"scope": func(_ ptrace.ResourceSpans, g ptrace.ScopeSpans, _ ptrace.Span) pcommon.Map {
		return g.Scope().Attributes()
	},
	"resource": func(r ptrace.ResourceSpans, _ ptrace.ScopeSpans, _ ptrace.Span) pcommon.Map {
		return r.Resource().Attributes()
	},
}

func TestNoPlacementInTracesKeepsASecret(t *testing.T) {
	check := func(name string, plant func(ptrace.ResourceSpans, ptrace.ScopeSpans, ptrace.Span)) {
		t.Run(name, func(t *testing.T) {
			data, span := oneSpan()
			group := data.ResourceSpans().At(0)
			plant(group, group.ScopeSpans().At(0), span)
			cleanTwice(t, func() string { return tracesJSON(t, data) }, func() { cleanTraces(testCore(), data) })
		})
	}
	for name, plant := range spanPlacements {
		check(name, plant)
	}
	for where, of := range spanMaps {
		for name, plant := range mapPlacements {
			check(where+" attributes, "+name, func(r ptrace.ResourceSpans, g ptrace.ScopeSpans, s ptrace.Span) { plant(of(r, g, s)) })
		}
	}
}

func TestNoPlacementInLogsKeepsASecret(t *testing.T) {
	check := func(name string, plant func(plog.ResourceLogs, plog.LogRecord)) {
		t.Run(name, func(t *testing.T) {
			data, record := oneRecord()
			plant(data.ResourceLogs().At(0), record)
			cleanTwice(t, func() string { return logsJSON(t, data) }, func() { cleanLogs(testCore(), data) })
		})
	}
	check("body", func(_ plog.ResourceLogs, r plog.LogRecord) { r.Body().SetStr(sentence) })
	check("body of bytes", func(_ plog.ResourceLogs, r plog.LogRecord) { r.Body().SetEmptyBytes().FromRaw([]byte(sentence)) })
	check("list in the body", func(_ plog.ResourceLogs, r plog.LogRecord) { r.Body().SetEmptySlice().AppendEmpty().SetStr(sentence) })
	check("event name", func(_ plog.ResourceLogs, r plog.LogRecord) { r.SetEventName(sentence) })
	check("severity text", func(_ plog.ResourceLogs, r plog.LogRecord) { r.SetSeverityText(sentence) })
	check("scope name", func(g plog.ResourceLogs, _ plog.LogRecord) { g.ScopeLogs().At(0).Scope().SetName(sentence) })
	for name, plant := range mapPlacements {
		check("attributes, "+name, func(_ plog.ResourceLogs, r plog.LogRecord) { plant(r.Attributes()) })
		check("body, "+name, func(_ plog.ResourceLogs, r plog.LogRecord) { plant(r.Body().SetEmptyMap()) })
		check("resource, "+name, func(g plog.ResourceLogs, _ plog.LogRecord) { plant(g.Resource().Attributes()) })
		check("scope, "+name, func(g plog.ResourceLogs, _ plog.LogRecord) { plant(g.ScopeLogs().At(0).Scope().Attributes()) })
	}
}

var pointMaps = map[string]func(pmetric.Metric) pcommon.Map{
	"gauge": func(m pmetric.Metric) pcommon.Map { return m.SetEmptyGauge().DataPoints().AppendEmpty().Attributes() },
	"sum":   func(m pmetric.Metric) pcommon.Map { return m.SetEmptySum().DataPoints().AppendEmpty().Attributes() },
	"histogram": func(m pmetric.Metric) pcommon.Map {
		return m.SetEmptyHistogram().DataPoints().AppendEmpty().Attributes()
	},
	"exponential histogram": func(m pmetric.Metric) pcommon.Map {
		return m.SetEmptyExponentialHistogram().DataPoints().AppendEmpty().Attributes()
	},
	"summary": func(m pmetric.Metric) pcommon.Map { return m.SetEmptySummary().DataPoints().AppendEmpty().Attributes() },
	"exemplar of a gauge": func(m pmetric.Metric) pcommon.Map {
		return m.SetEmptyGauge().DataPoints().AppendEmpty().Exemplars().AppendEmpty().FilteredAttributes()
	},
	"exemplar of a histogram": func(m pmetric.Metric) pcommon.Map {
		return m.SetEmptyHistogram().DataPoints().AppendEmpty().Exemplars().AppendEmpty().FilteredAttributes()
	},
	"exemplar of an exponential histogram": func(m pmetric.Metric) pcommon.Map {
		return m.SetEmptyExponentialHistogram().DataPoints().AppendEmpty().Exemplars().AppendEmpty().FilteredAttributes()
	},
	"metadata": func(m pmetric.Metric) pcommon.Map { return m.Metadata() },
}

func TestNoPlacementInMetricsKeepsASecret(t *testing.T) {
	check := func(name string, plant func(pmetric.ResourceMetrics, pmetric.Metric)) {
		t.Run(name, func(t *testing.T) {
			data, metric := oneMetric()
			metric.SetName("rl.train.loss")
			plant(data.ResourceMetrics().At(0), metric)
			cleanTwice(t, func() string { return metricsJSON(t, data) }, func() { cleanMetrics(testCore(fingerprints), data) })
		})
	}
	check("description", func(_ pmetric.ResourceMetrics, m pmetric.Metric) { m.SetDescription(sentence) })
	check("scope", func(g pmetric.ResourceMetrics, _ pmetric.Metric) { g.ScopeMetrics().At(0).Scope().SetName(sentence) })
	for name, plant := range mapPlacements {
		check("resource, "+name, func(g pmetric.ResourceMetrics, _ pmetric.Metric) { plant(g.Resource().Attributes()) })
		for where, of := range pointMaps {
			check(where+", "+name, func(_ pmetric.ResourceMetrics, m pmetric.Metric) { plant(of(m)) })
		}
	}
}

// cleanTwice fails when the secret stays or when a second hop changes anything.
func cleanTwice(t *testing.T, text func() string, clean func()) {
	t.Helper()
	before := text()
	clean()
	first := text()
	if strings.Contains(first, planted) || strings.Contains(first, "UExBTlRFRDQy") || first == before {
		t.Errorf("the secret stayed in %s", first)
	}
	clean()
	equal(t, "after a second hop", text(), first)
}

func TestNamesOfMetricsStayAndUnitsAreLookedAt(t *testing.T) {
	data, metric := oneMetric()
	metric.SetName(planted)
	metric.SetUnit(planted)
	cleanMetrics(testCore(), data)
	equal(t, "name", metric.Name(), planted)
	equal(t, "unit", metric.Unit(), masked)
}

func TestWhatNamesEntitiesIsLookedAt(t *testing.T) {
	data, _ := oneSpan()
	resource := data.ResourceSpans().At(0).Resource()
	reference := entity.ResourceEntityRefs(resource).AppendEmpty()
	reference.SetSchemaUrl("https://" + planted)
	reference.SetType("host " + planted)
	reference.IdKeys().Append("host.id", "host "+planted)
	reference.DescriptionKeys().Append("note " + planted)
	resource.Attributes().PutStr("host "+planted, "a")
	cleanTwice(t, func() string { return tracesJSON(t, data) }, func() { cleanTraces(testCore(), data) })
	_, found := resource.Attributes().Get(reference.IdKeys().At(1))
	equal(t, "an attribute with the name that the entity gives it", found, true)
}

func TestAHundredThousandKeysWithTheSameMaskAreNumbered(t *testing.T) {
	const keys = 100_000
	taken := names{}
	for range keys {
		taken.free(masked)
	}
	equal(t, "the next", taken.free(masked), masked+" (100001)")
}

func TestUntouchedValuesKeepTheirTypes(t *testing.T) {
	data, span := oneSpan()
	failOn(t, span.Attributes().FromRaw(map[string]any{
		"int": 17, "double": 0.5, "bool": true, "text": "a harmless sentence", "empty": nil, "bytes": []byte{1, 2, 3},
		"gen_ai.usage.input_tokens": 4, "list": []any{1, "two", map[string]any{"three": 3.0}}, "nested": map[string]any{"a": []any{true}},
	}))
	before := tracesJSON(t, data)
	cleanTraces(testCore(), data)
	equal(t, "the span", tracesJSON(t, data), before)
}

func TestBytesThatAreNoTextAreReplacedInEveryString(t *testing.T) {
	data, span := oneSpan()
	span.SetName("a\xffb")
	span.Attributes().PutStr("k\xff", "v\xff")
	span.Status().SetMessage("CUDA \xff")
	span.TraceState().FromRaw("a=\xff")
	span.Events().AppendEmpty().SetName("\xff")
	counts := cleanTraces(testCore(), data)
	if text := tracesJSON(t, data); !utf8.ValidString(text) {
		t.Errorf("not valid: %q", text)
	}
	equal(t, "count", counts.repaired, 6)
	metrics, metric := oneMetric()
	metric.SetName("a\xff")
	metric.SetUnit("\xff")
	cleanMetrics(testCore(), metrics)
	equal(t, "name", metric.Name(), "a\uFFFD")
	equal(t, "unit", metric.Unit(), "\uFFFD")
}

func TestAMapOfNothingButErrorMessagesIsCleanedInTime(t *testing.T) {
	data, span := oneSpan()
	list := span.Attributes().PutEmptySlice("notes")
	const entries = 50_000
	list.AppendEmpty()
	raw := make(map[string]any, entries)
	for i := range entries {
		raw[strconv.Itoa(i)+".exception.message"] = prompt
	}
	failOn(t, list.At(0).SetEmptyMap().FromRaw(raw))
	cleanTraces(testCore(), data)
	if strings.Contains(tracesJSON(t, data), "violet") {
		t.Error("a message stayed")
	}
}
