package secretredactionprocessor

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// The real rules on the suites of this component: what they mask is masked for good, no mask makes a new finding, and nothing
// with a finding would be passed over.
func TestASecondPassOfTheRealRulesChangesNothing(t *testing.T) {
	suites, err := filepath.Glob("testdata/*.jsonl")
	failOn(t, err)
	for _, config := range []*Config{defaultConfig(), withFingerprints()} {
		core, err := newCore(config)
		failOn(t, err)
		for _, suite := range suites {
			for _, text := range textsOf(t, suite) {
				checkStable(t, core, text)
			}
		}
	}
}

func withFingerprints() *Config {
	config := defaultConfig()
	fingerprints(config)
	return config
}

func textsOf(t *testing.T, suite string) []string {
	file, err := os.Open(suite)
	failOn(t, err)
	defer file.Close()
	var texts []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var line struct {
			Text string `json:"text"`
		}
		failOn(t, json.Unmarshal(lines.Bytes(), &line))
		texts = append(texts, line.Text)
	}
	failOn(t, lines.Err())
	return texts
}

func checkStable(t *testing.T, core *core, text string) {
	var counts tally
	first, err := core.mask("note", text, false, &counts)
	if err != nil {
		t.Errorf("%v: %q", err, text)
		return
	}
	if first != text && holdsNothing(text, true) {
		t.Errorf("would not be scanned: %q", text)
	}
	second, err := core.mask("note", first, false, &counts)
	if err != nil || second != first {
		t.Errorf("%q\nbecame %q\nand then %q (%v)", text, first, second, err)
	}
}
