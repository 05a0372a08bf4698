package secretredactionprocessor

import (
	"path/filepath"
	"testing"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/suite"
)

// span-score asks the rules alone. Here the same texts pass the processor: what the rules find in them is masked, no more and no
// less, and a second hop changes nothing.
func TestTheProcessorMasksWhatTheRulesFindOfPersonalData(t *testing.T) {
	suites, err := filepath.Glob("testdata/personal/*.jsonl")
	failOn(t, err)
	if len(suites) < 2 {
		t.Fatalf("suites: %v", suites)
	}
	rules, err := detect.New(detect.Config{PersonalData: detect.PersonalDataClasses})
	failOn(t, err)
	config := defaultConfig()
	redactContent(1 << 30)(config)
	config.PersonalData = detect.PersonalDataClasses
	core, err := newCore(config)
	failOn(t, err)
	for _, file := range suites {
		failOn(t, suite.Each(file, nil, func(_ string, line suite.Labelled) error {
			key, err := suite.Key(line.Placement)
			failOn(t, err)
			wanted := maskedAlone(t, rules, key, line.Text)
			once := throughProcessor(core, key, line.Text)
			equal(t, line.Placement+" "+line.Text, once, wanted)
			equal(t, "second hop of "+line.Text, throughProcessor(core, key, once), once)
			return nil
		}))
	}
}

func maskedAlone(t *testing.T, rules *detect.Detector, key, text string) string {
	found, err := rules.Find(key, text)
	failOn(t, err)
	return (&masker{}).render(text, found, false)
}

func throughProcessor(core *core, key, text string) string {
	if key != "" {
		data, span := oneSpan()
		span.Attributes().PutStr(key, text)
		cleanTraces(core, data)
		value, _ := span.Attributes().Get(key)
		return value.AsString()
	}
	data, record := oneRecord()
	record.Body().SetStr(text)
	cleanLogs(core, data)
	return record.Body().AsString()
}
