package secretredactionprocessor

import (
	"regexp"
	"strings"
	"testing"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

func TestOneSecretHasOneFingerprintWhereverItIs(t *testing.T) {
	data, span := oneSpan()
	span.SetName("call " + planted)
	span.Attributes().PutStr("api_key", "Bearer "+planted)
	span.Attributes().PutStr("note", "other PLANTED43green, me@example.org")
	cleanTraces(testCore(fingerprints), data)
	first := strings.TrimPrefix(span.Name(), "call ")
	if !regexp.MustCompile(`^\[redacted:planted:[0-9a-f]{8}\]$`).MatchString(first) {
		t.Errorf("no fingerprint in %q", span.Name())
	}
	under, _ := span.Attributes().Get("api_key")
	equal(t, "under a secret key", under.Str(), first)
	note, _ := span.Attributes().Get("note")
	if strings.Contains(note.Str(), first) || !strings.HasSuffix(note.Str(), ", [redacted:email]") {
		t.Errorf("another secret, or personal data, with that fingerprint: %q", note.Str())
	}
}

func TestFingerprintsDependOnTheKey(t *testing.T) {
	finding := detect.Finding{Class: "planted"}
	one, other := masker{fingerprintKey: []byte("a")}, masker{fingerprintKey: []byte("b")}
	if one.mask(finding, planted, false) == other.mask(finding, planted, false) {
		t.Error("two keys gave one fingerprint")
	}
	equal(t, "HMAC-SHA256, first four bytes", one.mask(finding, "secret", false), "[redacted:planted:632f9952]")
}

func TestKeysThatBecomeEqualLoseNoValue(t *testing.T) {
	data, span := oneSpan()
	span.Attributes().PutStr("PLANTED1a", "first")
	span.Attributes().PutStr("PLANTED2b", "second")
	span.Attributes().PutStr("kept", "third")
	cleanTraces(testCore(), data)
	want := map[string]string{masked: "first", masked + " (2)": "second", "kept": "third"}
	equal(t, "entries", span.Attributes().Len(), len(want))
	for key, text := range want {
		value, found := span.Attributes().Get(key)
		if !found || value.Str() != text {
			t.Errorf("%q is not %q", key, text)
		}
	}
}

func TestNumbersUnderASecretKeyAreMaskedAndPlaceholdersStay(t *testing.T) {
	data, span := oneSpan()
	failOn(t, span.Attributes().FromRaw(map[string]any{
		"password": 123456, "a.password": "${PASSWORD}", "b.password": "None", "c.password": "", "d.password": true,
		"e.password": "<" + planted + ">", "f.password": "me@example.org",
	}))
	cleanTraces(testCore(), data)
	for key, want := range map[string]string{
		"password": "[redacted:credential]", "a.password": "${PASSWORD}", "b.password": "None", "c.password": "", "d.password": "true",
		"e.password": "<[redacted:planted]>", "f.password": "[redacted:credential]",
	} {
		value, _ := span.Attributes().Get(key)
		equal(t, key, value.AsString(), want)
	}
}

func TestPersonalDataUnderASecretKeyHasNoFingerprint(t *testing.T) {
	data, span := oneSpan()
	span.Attributes().PutStr("password", "me@example.org")
	span.Attributes().PutStr("a.password", "Bearer me@example.org")
	cleanTraces(testCore(fingerprints), data)
	for key, value := range span.Attributes().All() {
		equal(t, key, value.Str(), "[redacted:credential]")
	}
}

func TestMarksAreNeverMaskedAgain(t *testing.T) {
	whole := func(text string) []detect.Finding {
		return []detect.Finding{{Start: 0, End: len(text), Class: "a"}}
	}
	for text, want := range map[string]int{
		"[redacted:planted:0123abcd]":  0,
		"[redacted:PLANTED42violet]":   1,
		"password=[redacted:planted]":  0,
		"[content removed]":            0,
		"x[redacted]y":                 0,
		"[redacted:a] and abcd1234efg": 1,
		"no mark":                      1,
	} {
		equal(t, text, len(outsideMarks(text, whole(text))), want)
	}
}

func TestRuleNamesFitIntoMasks(t *testing.T) {
	equal(t, "class", className("my rule]: a/b"), "my_rule___a_b")
	if mark := (&masker{}).mask(detect.Finding{Class: className("my rule]")}, "", false); !isMark(mark) {
		t.Errorf("%q is not seen as a mask", mark)
	}
}

// restless finds one letter more each time.
type restless struct{ fakeFinder }

func (restless) FindWithin(_, text string, _ *detect.Work) ([]detect.Finding, error) {
	last := strings.LastIndexByte(text, ']') + 1
	return []detect.Finding{{Start: last, End: last + 1, Class: "letter"}}, nil
}

type misplaced struct{ fakeFinder }

func (misplaced) FindWithin(_, text string, _ *detect.Work) ([]detect.Finding, error) {
	return []detect.Finding{{Start: 3, End: len(text) + 1, Class: "beyond"}}, nil
}

func TestWhatCannotBeScannedIsDroppedAndCounted(t *testing.T) {
	for name, each := range map[string]struct {
		finder finder
		text   string
		reason string
	}{
		"a failing rule":           {fakeFinder{}, "a FAILURE here", reasonError},
		"a rule that panics":       {fakeFinder{}, "a PANIC here", reasonError},
		"findings that do not fit": {misplaced{}, "a sentence", reasonError},
		"masks that make findings": {restless{}, "a sentence", reasonUnstable},
		"too long":                 {fakeFinder{}, strings.Repeat("long ", maximumTextBytes/5+1), reasonSize},
	} {
		t.Run(name, func(t *testing.T) {
			data, span := oneSpan()
			span.Attributes().PutStr("k", each.text)
			config := defaultConfig()
			core := coreWith(config, each.finder)
			core.keys.put("k", keyFacts{})
			counts := cleanTraces(core, data)
			value, _ := span.Attributes().Get("k")
			equal(t, "value", value.Str(), "[dropped by redaction: "+each.reason+"]")
			if !isMark(value.Str()) {
				t.Error("a second hop would scan it")
			}
			equal(t, "count", counts.dropped[each.reason], 1)
		})
	}
}

func TestTheClassInAMaskedKeyMakesNoSecretOfItsValue(t *testing.T) {
	data, span := oneSpan()
	span.Attributes().PutStr("note [redacted:password]", "a value that stays")
	before := tracesJSON(t, data)
	config := defaultConfig()
	cleanTraces(coreWith(config, wordyFinder{}), data)
	equal(t, "the span", tracesJSON(t, data), before)
}

// wordyFinder takes every key with the word for a secret one.
type wordyFinder struct{ fakeFinder }

func (wordyFinder) SecretKey(key string) bool { return strings.Contains(key, "password") }
