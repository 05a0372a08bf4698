package secretredactionprocessor

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

// endless scans a text that says so until it is told to stop, and cancels the request where a text says that.
type endless struct {
	fakeFinder
	cancel context.CancelFunc
}

func (e endless) FindWithin(key, text string, within func() error) ([]detect.Finding, error) {
	if strings.Contains(text, "GIVEN UP") {
		e.cancel()
	}
	for strings.Contains(text, "ENDLESS") {
		if err := within(); err != nil {
			return nil, err
		}
	}
	return e.fakeFinder.FindWithin(key, text, within)
}

func bodies(texts ...string) plog.Logs {
	logs := plog.NewLogs()
	records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for _, text := range texts {
		records.AppendEmpty().Body().SetStr(text)
	}
	return logs
}

func TestWhatCostsMoreThanARequestMayIsDroppedAndTheNextRequestPasses(t *testing.T) {
	core := coreWith(defaultConfig(), endless{})
	core.limit = 10 * time.Millisecond
	logs := bodies("the first "+sentence, "an ENDLESS text", "the last "+sentence)
	pass := walk{core: core}
	failOn(t, core.bounded(t.Context(), &pass, func() { pass.logs(logs) }))
	records := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	equal(t, "before", records.At(0).Body().Str(), "the first it used "+masked+" twice")
	equal(t, "the costly one", records.At(1).Body().Str(), droppedText)
	equal(t, "after", records.At(2).Body().Str(), droppedText)
	equal(t, "counted", pass.counts.dropped[reasonSize], 2)
	again := bodies("the last " + sentence)
	next := walk{core: core}
	failOn(t, core.bounded(t.Context(), &next, func() { next.logs(again) }))
	equal(t, "the next request", again.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Body().Str(), "the last it used "+masked+" twice")
}

func TestManySmallTextsCountTogether(t *testing.T) {
	core := coreWith(defaultConfig(), endless{})
	core.limit = -1 // the clock of a thread may not have moved yet
	var texts []string
	for i := range 3 * textsPerCheck {
		texts = append(texts, "a text of its own "+strconv.Itoa(i))
	}
	pass := walk{core: core}
	failOn(t, core.bounded(t.Context(), &pass, func() { pass.logs(bodies(texts...)) }))
	if dropped := pass.counts.dropped[reasonSize]; dropped < textsPerCheck {
		t.Errorf("%d texts dropped", dropped)
	}
}

func TestARequestThatWasGivenUpIsRefusedAndPassesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sink := &consumertest.LogsSink{}
	made := &factory{cores: map[*Config]*sharedCore{}}
	config := defaultConfig()
	made.cores[config] = &sharedCore{core: coreWith(config, endless{cancel: cancel})}
	settings := processor.Settings{ID: processortest.NewNopSettings(NewFactory().Type()).ID, TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	logs, err := made.logs(t.Context(), settings, config, sink)
	failOn(t, err)
	err = logs.ConsumeLogs(ctx, bodies("GIVEN UP in an ENDLESS text", sentence))
	if !errors.Is(err, context.Canceled) || sink.LogRecordCount() != 0 {
		t.Errorf("%v, %d records passed", err, sink.LogRecordCount())
	}
}

// The real detector on the text of which 64 KiB once took seconds: a bound on the request ends it wherever it is.
func TestTheRealDetectorStopsWhenTheRequestEnds(t *testing.T) {
	core, err := newCore(defaultConfig())
	failOn(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pass := walk{core: core}
	logs := bodies(strings.Repeat("password= -sig= $2a$ ", 10_000))
	if err := core.bounded(ctx, &pass, func() { pass.logs(logs) }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
