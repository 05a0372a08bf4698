package secretredactionprocessor

import (
	"fmt"
	"strconv"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// benchSpans is a batch of spans with 20 short attributes, and as many free texts of about 90 bytes as asked for. Of the free
// texts of all batches, one in four is new.
func benchSpans(number, freeTexts, batch int) ptrace.Traces {
	data := ptrace.NewTraces()
	spans := data.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range number {
		span := spans.AppendEmpty()
		span.SetName("rl.generate")
		for j := range 10 {
			span.Attributes().PutInt(fmt.Sprintf("rl.count.%d", j), int64(i))
		}
		for j := range 7 {
			span.Attributes().PutStr(fmt.Sprintf("rl.kind%d.name", j), "all_reduce")
		}
		span.Attributes().PutStr("rl.sample.id", strconv.Itoa(1000000+i))
		span.Attributes().PutStr("gen_ai.request.model", "llama-3.1-8b-instruct")
		span.Attributes().PutStr("code.function.name", "verl.trainer.main_ppo.fit")
		for j := range freeTexts {
			unique := 0
			if j%4 == 0 {
				unique = batch*number + i
			}
			span.Attributes().PutStr(fmt.Sprintf("note.%d", j),
				fmt.Sprintf("rank %d waited for the tokens of sample %d before the weights were there, then went on as planned", j, unique))
		}
	}
	return data
}

func benchmarkSpans(b *testing.B, config *Config, freeTexts int) {
	core, err := newCore(config)
	failOn(b, err)
	const number, batches = 100, 50
	prepared := make([]ptrace.Traces, batches)
	for i := range prepared {
		prepared[i] = benchSpans(number, freeTexts, i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i%batches == 0 && i > 0 { // new texts are new only once
			b.StopTimer()
			core = coreWith(config, core.finder)
			b.StartTimer()
		}
		cleanTraces(core, prepared[i%batches])
	}
	b.ReportMetric(float64(b.N*number)/b.Elapsed().Seconds(), "spans/s")
}

func BenchmarkSpansWithoutFreeText(b *testing.B) { benchmarkSpans(b, defaultConfig(), 0) }

func BenchmarkSpansWithEightFreeTexts(b *testing.B) { benchmarkSpans(b, defaultConfig(), 8) }

func BenchmarkSpansWithEightFreeTextsAndNoCache(b *testing.B) {
	config := defaultConfig()
	config.CacheEntries = 0
	benchmarkSpans(b, config, 8)
}

// BenchmarkJSONText looks for content keys in a text that is JSON and has none.
func BenchmarkJSONText(b *testing.B) {
	text := `{"model": "m", "temperature": 0.5, "stop": ["a", "b"], "seed": 17, "tools_used": 3, "finish_reason": "length"}`
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, found := withoutJSONContent(text); found {
			b.Fatal("no content here")
		}
	}
}
