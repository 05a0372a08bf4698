package detect

import (
	"strconv"
	"strings"
	"testing"
)

// texts of about 100 bytes, as spans and logs of a training run hold them.
var cleanTexts = []string{
	"step 1200/5000 loss=0.0312 reward/mean=0.742 kl=0.0181 grad_norm=1.293 lr=1.0e-06 tokens=18422 clip=0.02",
	"2026-11-21T12:00:01.123456Z INFO vllm.engine: Avg prompt throughput: 1532.1 tokens/s, running: 8 reqs",
	"rollout 4821 finished: 8 samples, mean length 512 tokens, max 1024 tokens, 3 truncated, reward 0.625 ok",
	"/checkpoints/grpo-7b/step_0001200/model-00003-of-00007.safetensors saved in 12.3 s by rank 3 on node17",
	"The secret to a good reward is a dense signal; the key idea is that each token gets its own credit here",
	"Loading Qwen/Qwen2.5-7B-Instruct in bfloat16 with flash attention 2 on cuda:0, tokenizer Qwen2TokenizerFast",
	"weight sync of 339 tensors took 1.82 s; policy version 1200, generation of batch 151 resumed on all ranks",
	"trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7 service=trainer rank=3 world_size=16 x",
}

var denseTexts = []string{
	"token key secret password auth access api token=tokenizer.decode(ids) key=value api version access token id",
	"key_states token_ids secret_name password_field auth_mode access_log api_version tokens keys max_tokens=512",
	"authentication failed: invalid token for key access; api key missing, password rejected, secret not found 1",
	"for key, token in zip(keys, tokens): cache[key] = token; api.access(auth=auth, credentials=credentials, k=1)",
}

var secretTexts = []string{
	"login with password=Gravel-4821x and api_" + "key=a8Kd03jfLs92mZqPw7XcVb51nRtYuE6H then retry the request again",
	"Authorization: Bear" + "er j7YzhgzlVuKuoDCcgMxwBg57OnTcZ7yMnFE97gth9ovyScl failed with 401 at the judge host",
	"connecting to postgresql://trainer:Mango_" + "5417@db.internal:5432/rl with 8 workers and a pool of 32 sockets",
}

func benchmarkTexts(b *testing.B, texts []string) {
	d := newTestDetector(b)
	bytes := 0
	for _, text := range texts {
		bytes += len(text)
	}
	b.SetBytes(int64(bytes / len(texts)))
	b.ReportAllocs()
	b.ResetTimer()
	for index := 0; b.Loop(); index++ {
		if _, err := d.Find("", texts[index%len(texts)]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClean(b *testing.B)  { benchmarkTexts(b, cleanTexts) }
func BenchmarkDense(b *testing.B)  { benchmarkTexts(b, denseTexts) }
func BenchmarkSecret(b *testing.B) { benchmarkTexts(b, secretTexts) }

func BenchmarkLongClean(b *testing.B) {
	benchmarkTexts(b, []string{strings.Repeat(strings.Join(cleanTexts, "\n")+"\n", 100)})
}

func BenchmarkLongDense(b *testing.B) {
	benchmarkTexts(b, []string{strings.Repeat(strings.Join(denseTexts, "\n")+"\n", 200)})
}

func BenchmarkParallelClean(b *testing.B) {
	d := newTestDetector(b)
	b.RunParallel(func(pb *testing.PB) {
		for index := 0; pb.Next(); index++ {
			if _, err := d.Find("", cleanTexts[index%len(cleanTexts)]); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkHostile shows by its two sizes that the cost a byte stays the same.
func BenchmarkHostile(b *testing.B) {
	d := newTestDetector(b)
	for _, size := range []int{16 << 10, 256 << 10} {
		b.Run(strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
			b.SetBytes(int64(size * len(hostilePieces)))
			for b.Loop() {
				for _, piece := range hostilePieces {
					if _, err := d.Find("", strings.Repeat(piece, size/len(piece))); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
