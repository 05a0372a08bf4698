package secretredactionprocessor

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

// spanLine is one line of a suite of personal data, see cmd/span-score.
type spanLine struct{ Text, Placement string }

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
	for _, suite := range suites {
		for _, line := range spanLinesOf(t, suite) {
			wanted := maskedAlone(t, rules, line)
			once := throughProcessor(core, line.Placement, line.Text)
			equal(t, line.Placement+" "+line.Text, once, wanted)
			equal(t, "second hop of "+line.Text, throughProcessor(core, line.Placement, once), once)
		}
	}
}

func spanLinesOf(t *testing.T, suite string) []spanLine {
	file, err := os.Open(suite)
	failOn(t, err)
	defer file.Close()
	var lines []spanLine
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var line spanLine
		failOn(t, json.Unmarshal(scanner.Bytes(), &line))
		lines = append(lines, line)
	}
	return lines
}

// keyOf returns the attribute key of a placement, empty for a body.
func keyOf(placement string) string {
	if key, named := strings.CutPrefix(placement, "key:"); named {
		return key
	}
	if placement == "attribute" {
		return "message"
	}
	return ""
}

func maskedAlone(t *testing.T, rules *detect.Detector, line spanLine) string {
	found, err := rules.Find(keyOf(line.Placement), line.Text)
	failOn(t, err)
	return (&masker{}).render(line.Text, found, false)
}

func throughProcessor(core *core, placement, text string) string {
	if key := keyOf(placement); key != "" {
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
