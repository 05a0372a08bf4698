package detect

import (
	"strings"
	"sync"
	"testing"
)

// words that are no secrets of anybody; in pieces, so that no scanner of a hosting site takes them for some.
const (
	plantedPassword = "Gravel-" + "4821x"
	plantedToken    = "a8Kd03jfLs92mZqP" + "w7XcVb51nRtYuE6HgT4o"
)

func TestATooLongTextIsAnError(t *testing.T) {
	d := newTestDetector(t)
	if _, err := d.Find("", strings.Repeat("a", MaxTextBytes+1)); err == nil {
		t.Error("no error")
	}
	text := strings.Repeat("clean words and 12 numbers\n", 20000) + "password=" + plantedPassword
	if !hides(t, d, text, plantedPassword) {
		t.Error("a secret at the end of a long text is missed")
	}
}

func TestFindingsSayWhereAndWhat(t *testing.T) {
	d := newTestDetector(t)
	text := "é password=" + plantedPassword + " mail to mara@northlab.io"
	found, err := d.Find("", text)
	if err != nil || len(found) != 2 {
		t.Fatalf("found %v, %v", found, err)
	}
	if text[found[0].Start:found[0].End] != plantedPassword || found[0].Class != classPassword || found[0].LowEntropy {
		t.Errorf("first: %+v", found[0])
	}
	if text[found[1].Start:found[1].End] != "mara@northlab.io" || found[1].Class != "email" || !found[1].LowEntropy {
		t.Errorf("second: %+v", found[1])
	}
}

func TestTheKeyOfATextTellsWhatItIs(t *testing.T) {
	d := newTestDetector(t)
	for key, text := range map[string]string{
		"db.password": plantedPassword, "judge.api_key": plantedToken, "wandb.token": plantedToken,
		"http.request.header.x-api-key": "f0e1d2c3b4a59687" + "78695a4b3c2d1e0f",
	} {
		if masked := maskAll(t, d, key, text); strings.Contains(masked, text) {
			t.Errorf("%s: not masked", key)
		}
	}
	for key, text := range map[string]string{
		"rl.run.id": plantedToken, "gen_ai.request.model": "gpt-4o-mini-2024-07-18", "tokenizer": "Qwen2TokenizerFast",
		"token": "hello", "rl.checkpoint.key": "step_0001200/model-00003", "eos_token": "<|endoftext|>", "cache.key": "f0e1d2c3b4a5968778695a4b3c2d1e0f",
	} {
		if masked := maskAll(t, d, key, text); masked != text {
			t.Errorf("%s: %q became %q", key, text, masked)
		}
	}
}

func TestMasksAreNotMaskedAgain(t *testing.T) {
	d := newTestDetector(t)
	for _, text := range []string{
		"password=[redacted:password]", "Authorization: Bearer [redacted:bearer_token:0a1b2c3d] x", "[redacted]", "api_key=\"[redacted]\"",
		"postgres://u:[redacted:url_credentials:00ff00ff]@db.internal/rl", "password=[content removed]", "secret: [dropped by redaction]",
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
	for text, mask := range map[string]bool{
		"[redacted]": true, "[redacted:a_b]": true, "[redacted:a:00ff00ff]": true, "": false, "[redacted": false, "[redacted] x": false, "[redactedx]": false, "[redacted:a b]": false,
	} {
		if IsMask(text) != mask {
			t.Errorf("IsMask(%q) is %v", text, !mask)
		}
	}
	if !hides(t, d, "[redacted:x] password="+plantedPassword, plantedPassword) {
		t.Error("a secret beside a mask is missed")
	}
}

func TestOneDetectorServesManyAtOnce(t *testing.T) {
	d := newTestDetector(t)
	texts := append(append(append([]string{}, cleanTexts...), denseTexts...), secretTexts...)
	wanted := make([]string, len(texts))
	for index, text := range texts {
		wanted[index] = maskAll(t, d, "", text)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				for index, text := range texts {
					if maskAll(t, d, "", text) != wanted[index] {
						t.Errorf("another result for %q", text)
					}
				}
			}
		})
	}
	group.Wait()
}
