package sidesinkprocessor

import (
	"errors"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

var errFull = errors.New("no space left on device")

// sendAll sends two items of each signal, twice, past a processor to an exporter that takes nothing.
func sendAll(t *testing.T, whenFull string) (errs []error, telemetry *componenttest.Telemetry, lines *observer.ObservedLogs) {
	t.Helper()
	factory, next, config := NewFactory(), consumertest.NewErr(errFull), &Config{WhenFull: whenFull}
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	telemetry = componenttest.NewTelemetry()
	core, lines := observer.New(zap.ErrorLevel)
	settings := processortest.NewNopSettings(factory.Type())
	settings.TelemetrySettings = telemetry.NewTelemetrySettings()
	settings.Logger = zap.New(core)
	traces, errTraces := factory.CreateTraces(t.Context(), settings, config, next)
	metrics, errMetrics := factory.CreateMetrics(t.Context(), settings, config, next)
	logs, errLogs := factory.CreateLogs(t.Context(), settings, config, next)
	if err := errors.Join(errTraces, errMetrics, errLogs); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		spans, points, records := ptrace.NewTraces(), pmetric.NewMetrics(), plog.NewLogs()
		intoTraces := spans.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
		intoMetrics := points.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyGauge().DataPoints()
		intoLogs := records.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
		for range 2 {
			intoTraces.AppendEmpty()
			intoMetrics.AppendEmpty()
			intoLogs.AppendEmpty()
		}
		errs = append(errs, traces.ConsumeTraces(t.Context(), spans), metrics.ConsumeMetrics(t.Context(), points),
			logs.ConsumeLogs(t.Context(), records))
	}
	return errs, telemetry, lines
}

func TestItemsThatASideSinkDoesNotTakeAreCountedAndTheSenderFeelsNothing(t *testing.T) {
	errs, telemetry, lines := sendAll(t, Drop)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	counted, err := telemetry.GetMetric("otelcol_processor_side_sink_dropped_items")
	if err != nil {
		t.Fatal(err)
	}
	points := counted.Data.(metricdata.Sum[int64]).DataPoints
	if len(points) != 3 {
		t.Fatalf("%+v", points)
	}
	for _, point := range points {
		if point.Value != 4 {
			t.Errorf("%+v", point)
		}
	}
	if lines.Len() != 3 {
		t.Fatalf("each signal is said once, not at every loss: %v", lines.All())
	}
}

func TestTheOnlySinkPushesBack(t *testing.T) {
	errs, _, _ := sendAll(t, PushBack)
	for _, err := range errs {
		if !errors.Is(err, errFull) {
			t.Fatal(err)
		}
	}
}

func TestAnotherWordIsRefused(t *testing.T) {
	if (&Config{WhenFull: "wait"}).Validate() == nil {
		t.Fatal("accepted")
	}
}
