package secretredactionprocessor

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestConfigurationIsReadAndWrongOnesAreRefusedWithTheWayOut(t *testing.T) {
	for name, each := range map[string]struct {
		settings map[string]any
		problem  string
	}{
		"default":        {map[string]any{}, ""},
		"fingerprints":   {map[string]any{"fingerprints": map[string]any{"enabled": true, "key": "0123456789abcdef"}}, ""},
		"no key":         {map[string]any{"fingerprints": map[string]any{"enabled": true}}, "OTEL_RL_COLLECTOR_FINGERPRINT_KEY"},
		"short key":      {map[string]any{"fingerprints": map[string]any{"enabled": true, "key": "short"}}, "openssl rand -hex 32"},
		"unused key":     {map[string]any{"fingerprints": map[string]any{"enabled": false, "key": "short"}}, ""},
		"unknown action": {map[string]any{"content": map[string]any{"action": "allow"}}, `"remove" or "redact"`},
		"no room":        {map[string]any{"content": map[string]any{"max_bytes": 10}}, "max_bytes"},
		"cache":          {map[string]any{"cache_entries": -1}, "cache_entries"},
	} {
		t.Run(name, func(t *testing.T) {
			config := defaultConfig()
			failOn(t, confmap.NewFromStringMap(each.settings).Unmarshal(config))
			err := config.Validate()
			if each.problem == "" {
				failOn(t, err)
			} else if err == nil || !strings.Contains(err.Error(), each.problem) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTheKeyDoesNotShowInThePrintedConfiguration(t *testing.T) {
	config := defaultConfig()
	fingerprints(config)
	printed := confmap.New()
	failOn(t, printed.Marshal(config))
	if text := printed.ToStringMap()["fingerprints"].(map[string]any)["key"]; text != "[REDACTED]" {
		t.Errorf("the key shows as %v", text)
	}
}

func TestARulesFileThatCannotBeReadStopsTheStart(t *testing.T) {
	config := defaultConfig()
	config.RulesFile = "/nonexistent/rules.toml"
	set := processortest.NewNopSettings(NewFactory().Type())
	_, err := NewFactory().CreateTraces(context.Background(), set, config, consumertest.NewNop())
	if err == nil || !strings.Contains(err.Error(), "rules.toml") {
		t.Errorf("got %v", err)
	}
}

func TestThePipelinesOfOneConfigurationShareOneDetector(t *testing.T) {
	shared := &factory{cores: map[*Config]*sharedCore{}}
	config := defaultConfig()
	one, err := shared.take(config)
	failOn(t, err)
	two, err := shared.take(config)
	failOn(t, err)
	equal(t, "core", one, two)
	first, second := shared.giveBack(config), shared.giveBack(config)
	failOn(t, first(context.Background()))
	failOn(t, first(context.Background())) // a second shutdown of one pipeline
	equal(t, "kept for the other", len(shared.cores), 1)
	failOn(t, second(context.Background()))
	equal(t, "let go", len(shared.cores), 0)
}

func TestAPipelineMasksAndCountsInMetricsOfItsOwn(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(NewFactory().Type())
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	sink := &consumertest.TracesSink{}
	config := defaultConfig()
	made := &factory{cores: map[*Config]*sharedCore{config: {core: coreWith(config, fakeFinder{})}}}
	processor, err := made.traces(context.Background(), set, config, sink)
	failOn(t, err)
	failOn(t, processor.Start(context.Background(), componenttest.NewNopHost()))
	equal(t, "mutates data", processor.Capabilities().MutatesData, true)
	data, span := oneSpan()
	span.SetName(sentence)
	span.Attributes().PutStr("input.value", prompt)
	span.Attributes().PutStr("note", "a FAILURE here")
	failOn(t, processor.ConsumeTraces(context.Background(), data))
	failOn(t, processor.Shutdown(context.Background()))
	if text := tracesJSON(t, sink.AllTraces()[0]); strings.Contains(text, planted) || strings.Contains(text, "violet e") {
		t.Errorf("not cleaned: %s", text)
	}
	for name, want := range map[string]int64{
		"findings": 1, "content_removed": 1, "dropped": 1, "cache_misses": 0, "scanned_bytes": 0,
	} {
		got, err := telemetry.GetMetric("otelcol_processor_secret_redaction_" + name)
		failOn(t, err)
		points := got.Data.(metricdata.Sum[int64]).DataPoints
		if want > 0 {
			equal(t, name, points[0].Value, want)
		}
		signal, _ := points[0].Attributes.Value("signal")
		equal(t, name+" signal", signal.AsString(), "traces")
	}
}

func TestEverySignalSaysThatItChangesItsData(t *testing.T) {
	factory, set := NewFactory(), processortest.NewNopSettings(NewFactory().Type())
	traces, err := factory.CreateTraces(t.Context(), set, defaultConfig(), consumertest.NewNop())
	failOn(t, err)
	metrics, err := factory.CreateMetrics(t.Context(), set, defaultConfig(), consumertest.NewNop())
	failOn(t, err)
	logs, err := factory.CreateLogs(t.Context(), set, defaultConfig(), consumertest.NewNop())
	failOn(t, err)
	if !traces.Capabilities().MutatesData || !metrics.Capabilities().MutatesData || !logs.Capabilities().MutatesData {
		t.Error("what other pipelines hold would be changed")
	}
}

func TestABatchOfWhichNothingIsLeftGoesNoFurther(t *testing.T) {
	if skipEmpty(0) == nil || skipEmpty(1) != nil {
		t.Error("empty batches")
	}
}
