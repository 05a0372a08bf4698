package detect

import (
	"path/filepath"
	"strings"
	"testing"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/suite"
)

// leastOfClass are the shares that a class has to reach where it is not all: what is missed is named in testdata/README.md.
const (
	leastOfClass    = 0.95
	leastOfAll      = 0.99
	leastExamplesIn = 3
)

type share struct{ good, all int }

func (s share) of() float64 { return float64(s.good) / float64(s.all) }

func TestSuitesReachTheirShares(t *testing.T) {
	d := newTestDetector(t)
	files, err := filepath.Glob(filepath.Join("..", "testdata", "*.jsonl"))
	if err != nil || len(files) < 4 {
		t.Fatalf("suites: %v, %v", files, err)
	}
	classes := map[string]*share{}
	total := map[bool]*share{true: {}, false: {}}
	for _, file := range files {
		err := suite.Each(file, nil, func(_ string, line suite.Example) error {
			lookAlike := len(line.Secrets) == 0
			name := filepath.Base(file) + " " + line.Class
			if classes[name] == nil {
				classes[name] = &share{}
			}
			for _, counted := range []*share{classes[name], total[lookAlike]} {
				counted.all++
				if isHandled(t, d, line) {
					counted.good++
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, counted := range classes {
		if counted.all < leastExamplesIn || counted.of() < leastOfClass {
			t.Errorf("%s: %d of %d", name, counted.good, counted.all)
		}
	}
	for lookAlike, counted := range total {
		if counted.of() < leastOfAll {
			t.Errorf("look-alikes %v: %d of %d", lookAlike, counted.good, counted.all)
		}
	}
}

// isHandled says whether all secrets of a line are gone, or a look-alike came out as it was.
func isHandled(t *testing.T, d *Detector, line suite.Example) bool {
	t.Helper()
	masked := maskAll(t, d, "", line.Text)
	if len(line.Secrets) == 0 {
		return masked == line.Text
	}
	for _, secret := range line.Secrets {
		if strings.Contains(masked, secret) {
			return false
		}
	}
	return maskAll(t, d, "", masked) == masked
}
