package secretredactionprocessor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/threadclock"
)

// corpusMix says which texts of benchmarks/corpora/collector a span carries, as collector_corpus.py does.
type corpusMix struct {
	name                       string
	repeated, secrets, keyword float64
	keywordKind                string
}

var corpusMixes = []corpusMix{
	{"typical", 0.75, 0.001, 0.2, "keyword"},
	{"new", 0, 0.001, 0.2, "keyword"},
	{"worst", 0, 0.2, 0.8, "dense"},
}

var corpusKeys = []string{
	"task.title", "task.note", "environment.observation", "grader.remark",
	"planner.thought", "retry.reason", "dataset.row", "checkpoint.note",
}

func corpusTexts(b *testing.B) map[string][]string {
	file, err := os.Open(filepath.Join("..", "..", "..", "..", "benchmarks", "corpora", "collector", "texts.jsonl"))
	if err != nil {
		b.Skip("the corpus of the collector's benchmarks is not here:", err)
	}
	defer file.Close()
	texts := map[string][]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct{ Kind, Text string }
		failOn(b, json.Unmarshal(lines.Bytes(), &line))
		texts[line.Kind] = append(texts[line.Kind], line.Text)
	}
	return texts
}

// text draws a text; what does not repeat has a number that no other text has.
func (m corpusMix) text(draw *rand.Rand, texts map[string][]string) string {
	kind, chance := "plain", draw.Float64()
	if chance < m.secrets {
		kind = "secret"
	} else if chance < m.secrets+m.keyword {
		kind = m.keywordKind
	}
	index := draw.IntN(len(texts[kind]))
	fresh := fmt.Sprintf("%012x", index)
	if kind == "secret" || draw.Float64() >= m.repeated {
		fresh = fmt.Sprintf("%012x", draw.Uint64()>>16)
	}
	const letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	secret := make([]byte, 32)
	for position := range secret {
		secret[position] = letters[draw.IntN(len(letters))]
	}
	return strings.ReplaceAll(strings.ReplaceAll(texts[kind][index], "{fresh}", fresh), "{secret}", string(secret))
}

// BenchmarkCorpus cleans spans with eight free texts each of the collector's benchmarks.
func BenchmarkCorpus(b *testing.B) {
	const number = 256
	texts := corpusTexts(b)
	for _, mix := range corpusMixes {
		b.Run(mix.name, func(b *testing.B) {
			core, err := newCore(defaultConfig())
			failOn(b, err)
			draw := rand.New(rand.NewPCG(1, 2))
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var used time.Duration
			for b.Loop() {
				data := ptrace.NewTraces()
				spans := data.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
				for range number {
					span := spans.AppendEmpty()
					span.SetName("rl.generate")
					for _, key := range corpusKeys {
						span.Attributes().PutStr(key, mix.text(draw, texts))
					}
				}
				used -= threadclock.Used()
				cleanTraces(core, data)
				used += threadclock.Used()
			}
			b.ReportMetric(float64(used.Nanoseconds())/1e3/float64(b.N*number), "cpu-µs/span")
		})
	}
}
