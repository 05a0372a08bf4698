package detect

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/threadclock"
)

const (
	// mostCost is how many times the cost of plain text a byte of any other text may have.
	mostCost = 20
	// measurements of a text whose cost seems too high: one may have been slow by chance.
	measurements = 7
)

// separators stand before each word: they are what ends a name, a run or a value somewhere in the rules.
var (
	separators     = []string{"", " ", "=", ":", "-"}
	moreSeparators = []string{"_", "\"", "'", "/", "\\", ".", ",", ";", "&", "?", "$", "@", "%", "+", "(", "<", "\n", "a", "1"}
)

// TestTheCostOfAByteIsBoundedForEveryWordOfTheRules repeats each word behind separators in 64 KiB, which shows what is
// quadratic. OTEL_RL_LONG_COST makes the texts 1 MiB long and takes more separators: `check.py cost`, half an hour.
func TestTheCostOfAByteIsBoundedForEveryWordOfTheRules(t *testing.T) {
	if underRace {
		t.Skip("the race detector changes what things cost")
	}
	d, err := New(Config{PersonalData: PersonalDataClasses})
	if err != nil {
		t.Fatal(err)
	}
	size, chosen := 64<<10, separators
	if os.Getenv("OTEL_RL_LONG_COST") != "" {
		size, chosen = 1<<20, append(slices.Clone(separators), moreSeparators...)
	}
	plain := repeated(strings.Join(cleanTexts, "\n")+"\n", size)
	usual := usualCost(t, d, plain)
	for _, word := range d.words {
		for _, separator := range chosen {
			checkCost(t, d, separator+word.text, plain, usual)
		}
	}
	for _, piece := range hostilePieces {
		checkCost(t, d, piece, plain, usual)
	}
}

func checkCost(t *testing.T, d *Detector, piece, plain string, usual time.Duration) {
	t.Helper()
	text := repeated(piece, len(plain))
	if cost(t, d, text) <= mostCost*usual {
		return
	}
	if ratio := leastRatio(t, d, text, plain); ratio > mostCost {
		t.Errorf("%q costs %.0f times as much as plain text", piece, ratio)
	}
}

// repeated returns a text of this size.
func repeated(piece string, size int) string {
	return strings.Repeat(piece, size/len(piece)+1)[:size]
}

// usualCost returns the time in the middle of several scans of a text.
func usualCost(t *testing.T, d *Detector, text string) time.Duration {
	t.Helper()
	var taken []time.Duration
	for range measurements {
		taken = append(taken, cost(t, d, text))
	}
	slices.Sort(taken)
	return taken[measurements/2]
}

// leastRatio compares scans of two texts in pairs, one right after the other: a core that shares its units with a busy
// sibling takes half as long again for both of a pair.
func leastRatio(t *testing.T, d *Detector, text, plain string) float64 {
	t.Helper()
	var ratios []float64
	for range measurements {
		ratios = append(ratios, float64(cost(t, d, text))/float64(cost(t, d, plain)))
	}
	return slices.Min(ratios)
}

// cost returns the processor time of one scan of a text.
func cost(t *testing.T, d *Detector, text string) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadclock.Used()
	if _, err := d.Find("", text); err != nil {
		t.Fatal(err)
	}
	return threadclock.Used() - began
}
