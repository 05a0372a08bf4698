package secretredactionprocessor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

func (e endless) FindWithin(key, text string, work *detect.Work) ([]detect.Finding, error) {
	if strings.Contains(text, "GIVEN UP") {
		e.cancel()
	}
	for strings.Contains(text, "ENDLESS") {
		if err := work.Spend(1); err != nil {
			return nil, err
		}
	}
	return e.fakeFinder.FindWithin(key, text, work)
}

func bodies(texts ...string) plog.Logs {
	logs := plog.NewLogs()
	records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for _, text := range texts {
		records.AppendEmpty().Body().SetStr(text)
	}
	return logs
}

func bodyOf(logs plog.Logs, index int) string {
	return logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(index).Body().Str()
}

func TestATextThatIsTooCostlyIsDroppedAndNoOtherTextOfTheRequest(t *testing.T) {
	core := coreWith(defaultConfig(), endless{})
	logs := bodies("the first "+sentence, "an ENDLESS text", "another ENDLESS text", "the last "+sentence)
	pass := walk{core: core}
	failOn(t, core.whileWanted(t.Context(), &pass, func() { pass.logs(logs) }))
	equal(t, "before", bodyOf(logs, 0), "the first it used "+masked+" twice")
	equal(t, "the costly one", bodyOf(logs, 1), "[dropped by redaction: cost]")
	equal(t, "the next one", bodyOf(logs, 2), "[dropped by redaction: cost]")
	equal(t, "after", bodyOf(logs, 3), "the last it used "+masked+" twice")
	equal(t, "counted", pass.counts.dropped[reasonCost], 2)
	equal(t, "reasons", len(pass.counts.dropped), 1)
}

func TestARequestThatWasGivenUpIsRefusedAndPassesNothing(t *testing.T) {
	for _, texts := range [][]string{{"GIVEN UP in an ENDLESS text", sentence}, {"GIVEN UP", sentence}} {
		ctx, cancel := context.WithCancel(t.Context())
		sink := &consumertest.LogsSink{}
		made := &factory{cores: map[*Config]*sharedCore{}}
		config := defaultConfig()
		made.cores[config] = &sharedCore{core: coreWith(config, endless{cancel: cancel})}
		settings := processor.Settings{ID: processortest.NewNopSettings(NewFactory().Type()).ID, TelemetrySettings: componenttest.NewNopTelemetrySettings()}
		logs, err := made.logs(t.Context(), settings, config, sink)
		failOn(t, err)
		err = logs.ConsumeLogs(ctx, bodies(texts...))
		if !errors.Is(err, context.Canceled) || sink.LogRecordCount() != 0 {
			t.Errorf("%v, %d records passed", err, sink.LogRecordCount())
		}
	}
}

func TestTheRealDetectorStopsWhenTheRequestEnds(t *testing.T) {
	core, err := newCore(defaultConfig())
	failOn(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pass := walk{core: core}
	logs := bodies(strings.Repeat("password= -sig= $2a$ ", 10_000))
	if err := core.whileWanted(ctx, &pass, func() { pass.logs(logs) }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// prompts are messages as the SDK sends them: Markdown and code of our own pages, in JSON.
func prompts(t *testing.T, number, size int) []string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "docs", "*.md"))
	failOn(t, err)
	if len(pages) == 0 {
		t.Skip("the pages are not here")
	}
	var all strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		failOn(t, err)
		all.Write(text)
	}
	var made []string
	for index := range number {
		start := index * 1009 % (all.Len() - size)
		text, err := json.Marshal([]map[string]any{{"role": "user", "parts": []map[string]string{
			{"type": "text", "content": all.String()[start : start+size]},
		}}})
		failOn(t, err)
		made = append(made, string(text))
	}
	return made
}

func TestPromptsOfMarkdownPassHoweverManyThereAre(t *testing.T) {
	for _, size := range []int{8 << 10, 24 << 10} {
		core, err := newCore(defaultConfig())
		failOn(t, err)
		core.content = ContentConfig{Action: actionRedact, MaxBytes: 32 << 10}
		data, span := oneSpan()
		for index, prompt := range prompts(t, 48, size) {
			span.Attributes().PutStr(fmt.Sprintf("gen_ai.input.messages.%d", index), prompt)
		}
		if counts := cleanTraces(core, data); len(counts.dropped) > 0 {
			t.Errorf("%d bytes: dropped %v", size, counts.dropped)
		}
	}
}

func TestLinesFullOfSecretsAreMaskedAndNotDropped(t *testing.T) {
	core, err := newCore(defaultConfig())
	failOn(t, err)
	var text strings.Builder
	for index := range 1000 {
		fmt.Fprintf(&text, "user%d logged in from a%d@corp%d.io with token=ghp_%036x and api_key=a8Kd03jfLs92mZqPw7XcVb51nRtYu%04d\n",
			index, index, index%99, index*0x9e3779b97f4a7c1, index)
	}
	logs := bodies(text.String())
	counts := cleanLogs(core, logs)
	if len(counts.dropped) > 0 || strings.Contains(bodyOf(logs, 0), "a8Kd03jf") {
		t.Errorf("dropped %v, then %.200s", counts.dropped, bodyOf(logs, 0))
	}
}
