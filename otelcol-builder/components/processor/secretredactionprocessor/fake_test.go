package secretredactionprocessor

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

const (
	planted = "PLANTED42violet"
	masked  = "[redacted:planted]"
)

var plantedPattern = regexp.MustCompile(`PLANTED[0-9]+[a-z]*|[a-z]+@[a-z]+\.org`)

// fakeFinder finds made-up secrets, so that these tests are about placement and policy, not about rules.
type fakeFinder struct{}

func (fakeFinder) FindWithin(_, text string, _ *detect.Work) ([]detect.Finding, error) {
	if strings.Contains(text, "PANIC") {
		panic("a rule failed")
	}
	if strings.Contains(text, "FAILURE") {
		return nil, errors.New("cannot be scanned")
	}
	var found []detect.Finding
	for _, place := range plantedPattern.FindAllStringIndex(text, -1) {
		finding := detect.Finding{Start: place[0], End: place[1], Class: "planted"}
		if strings.Contains(text[place[0]:place[1]], "@") {
			finding.Class, finding.LowEntropy = "email", true
		}
		found = append(found, finding)
	}
	return found, nil
}

func (fakeFinder) SecretKey(key string) bool {
	return strings.HasSuffix(key, "password") || strings.HasSuffix(key, "api_key")
}

func defaultConfig() *Config { return createDefaultConfig().(*Config) }

func testCore(changes ...func(*Config)) *core {
	config := defaultConfig()
	for _, change := range changes {
		change(config)
	}
	return coreWith(config, fakeFinder{})
}

func redactContent(maxBytes int) func(*Config) {
	return func(config *Config) { config.Content = ContentConfig{Action: actionRedact, MaxBytes: maxBytes} }
}

func fingerprints(config *Config) {
	config.Fingerprints = FingerprintConfig{Enabled: true, Key: "0123456789abcdef0123456789abcdef"}
}

func cleanTraces(core *core, data ptrace.Traces) tally {
	pass := walk{core: core}
	pass.traces(data)
	return pass.counts
}

func cleanLogs(core *core, data plog.Logs) tally {
	pass := walk{core: core}
	pass.logs(data)
	return pass.counts
}

func cleanMetrics(core *core, data pmetric.Metrics) tally {
	pass := walk{core: core}
	pass.metrics(data)
	return pass.counts
}

func tracesJSON(t testing.TB, data ptrace.Traces) string {
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(data)
	failOn(t, err)
	return string(text)
}

func logsJSON(t testing.TB, data plog.Logs) string {
	text, err := (&plog.JSONMarshaler{}).MarshalLogs(data)
	failOn(t, err)
	return string(text)
}

func metricsJSON(t testing.TB, data pmetric.Metrics) string {
	text, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(data)
	failOn(t, err)
	return string(text)
}

func failOn(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[V comparable](t testing.TB, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %#v, want %#v", what, got, want)
	}
}

func oneSpan() (ptrace.Traces, ptrace.Span) {
	data := ptrace.NewTraces()
	return data, data.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
}

func oneRecord() (plog.Logs, plog.LogRecord) {
	data := plog.NewLogs()
	return data, data.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
}

func oneMetric() (pmetric.Metrics, pmetric.Metric) {
	data := pmetric.NewMetrics()
	return data, data.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
}
