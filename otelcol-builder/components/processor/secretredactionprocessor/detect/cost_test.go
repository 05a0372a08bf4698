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
	// measurements of a text whose cost is too high: the first one may have been slow by chance.
	measurements = 7
)

// separators stand before each word: they are what ends a name, a run or a value somewhere in the rules.
var (
	separators     = []string{"", " ", "=", ":", "-"}
	moreSeparators = []string{"_", "\"", "'", "/", "\\", ".", ",", ";", "&", "?", "$", "@", "%", "+", "(", "<", "\n", "a", "1"}
)

// TestTheCostOfAByteIsBoundedForEveryWordOfTheRules repeats each word behind separators in 64 KiB, which shows what is
// quadratic. OTEL_RL_LONG_COST makes the texts 1 MiB long and takes more separators: `make cost-redaction`, half an hour.
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
	plain := usualCost(t, d, repeated(strings.Join(cleanTexts, "\n")+"\n", size))
	for _, word := range d.words {
		for _, separator := range chosen {
			checkCost(t, d, separator+word.text, size, plain)
		}
	}
	for _, piece := range hostilePieces {
		checkCost(t, d, piece, size, plain)
	}
}

func checkCost(t *testing.T, d *Detector, piece string, size int, plain time.Duration) {
	t.Helper()
	text := repeated(piece, size)
	if leastCost(t, d, text, 1) <= mostCost*plain {
		return
	}
	if cost := leastCost(t, d, text, measurements); cost > mostCost*plain {
		t.Errorf("%q costs %.0f times as much as plain text", piece, float64(cost)/float64(plain))
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
		taken = append(taken, leastCost(t, d, text, 1))
	}
	slices.Sort(taken)
	return taken[measurements/2]
}

// leastCost returns the shortest time of several scans of a text.
func leastCost(t *testing.T, d *Detector, text string, times int) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var taken []time.Duration
	for range times {
		began := threadclock.Used()
		if _, err := d.Find("", text); err != nil {
			t.Fatal(err)
		}
		taken = append(taken, threadclock.Used()-began)
	}
	return slices.Min(taken)
}
