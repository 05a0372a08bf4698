package gatherprocessor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const longWait = time.Hour

func trace(spans int) ptrace.Traces {
	made := ptrace.NewTraces()
	into := made.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for range spans {
		into.AppendEmpty()
	}
	return made
}

func started(t *testing.T, config *Config, next consumer.Traces) *gatherer {
	t.Helper()
	factory := NewFactory()
	made, err := factory.CreateTraces(t.Context(), processortest.NewNopSettings(factory.Type()), config, next)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	return made.(*gatherer)
}

func TestPiecesGoOnTogetherWhenTheyAreEnough(t *testing.T) {
	sink := new(consumertest.TracesSink)
	gathering := started(t, &Config{Wait: longWait, MaxSpans: 100}, sink)
	defer func() { _ = gathering.Shutdown(t.Context()) }()
	for range 9 {
		if err := gathering.ConsumeTraces(t.Context(), trace(10)); err != nil {
			t.Fatal(err)
		}
	}
	if sink.SpanCount() != 0 {
		t.Fatal("handed on too early")
	}
	if err := gathering.ConsumeTraces(t.Context(), trace(10)); err != nil {
		t.Fatal(err)
	}
	if sink.SpanCount() != 100 || len(sink.AllTraces()) != 1 {
		t.Fatalf("%d spans in %d pieces", sink.SpanCount(), len(sink.AllTraces()))
	}
}

func TestNothingWaitsLongerThanItMay(t *testing.T) {
	arrived := make(chan int)
	next, err := consumer.NewTraces(func(_ context.Context, traces ptrace.Traces) error {
		arrived <- traces.SpanCount()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	gathering := started(t, &Config{Wait: time.Millisecond, MaxSpans: 100}, next)
	if err := gathering.ConsumeTraces(t.Context(), trace(3)); err != nil {
		t.Fatal(err)
	}
	if spans := <-arrived; spans != 3 {
		t.Fatal(spans)
	}
	if err := gathering.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAStopHandsOnWhatIsHeldAndManySendersLoseNothing(t *testing.T) {
	sink := new(consumertest.TracesSink)
	gathering := started(t, &Config{Wait: time.Millisecond, MaxSpans: 50}, sink)
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for range 100 {
				_ = gathering.ConsumeTraces(context.Background(), trace(7))
			}
		})
	}
	senders.Wait()
	if err := gathering.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sink.SpanCount() != 8*100*7 {
		t.Fatal(sink.SpanCount())
	}
}

func TestSpansThatAreNotTakenAreCountedAndSaidToBeLost(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	core, lines := observer.New(zap.ErrorLevel)
	settings := telemetry.NewTelemetrySettings()
	settings.Logger = zap.New(core)
	gathering, err := newGatherer(&Config{Wait: longWait, MaxSpans: 1}, settings, consumertest.NewErr(errors.New("full")))
	if err != nil {
		t.Fatal(err)
	}
	if err := gathering.ConsumeTraces(t.Context(), trace(4)); err != nil {
		t.Fatal(err)
	}
	if found := lines.All(); len(found) != 1 || found[0].ContextMap()["lost_spans"] != int64(4) {
		t.Fatalf("%v", found)
	}
	counted, err := telemetry.GetMetric("otelcol_processor_gather_lost_spans")
	if err != nil || counted.Data.(metricdata.Sum[int64]).DataPoints[0].Value != 4 {
		t.Fatalf("%v %v", counted, err)
	}
}

func TestWhatComesAfterTheEndGoesOnAtOnce(t *testing.T) {
	sink := new(consumertest.TracesSink)
	gathering := started(t, &Config{Wait: longWait, MaxSpans: 100}, sink)
	if err := errors.Join(gathering.Shutdown(t.Context()), gathering.ConsumeTraces(t.Context(), trace(3))); err != nil {
		t.Fatal(err)
	}
	if sink.SpanCount() != 3 {
		t.Fatal(sink.SpanCount())
	}
}

func TestASecondShutdownDoesNothing(t *testing.T) {
	gathering := started(t, &Config{Wait: longWait, MaxSpans: 100}, new(consumertest.TracesSink))
	for range 2 {
		if err := gathering.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
