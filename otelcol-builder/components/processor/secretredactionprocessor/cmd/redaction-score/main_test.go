package main

import (
	"bytes"
	"strings"
	"testing"
)

const planted = "Gravel-" + "4821x"

func scored(t *testing.T, input string, arguments ...string) (int, string, string) {
	t.Helper()
	var output, problems bytes.Buffer
	code := run(append(arguments, "-"), strings.NewReader(input), &output, &problems)
	return code, output.String(), problems.String()
}

func TestCountsRecallAndUntouchedShareByClass(t *testing.T) {
	input := `{"text": "password=` + planted + `", "secrets": ["` + planted + `"], "placement": "body", "class": "a"}
{"text": "it is ` + planted + ` indeed", "secrets": ["` + planted + `"], "placement": "attribute", "class": "a"}
{"text": "` + planted + `", "secrets": ["` + planted + `"], "placement": "key:db.password", "class": "b"}

{"text": "max_tokens=512", "secrets": [], "class": "c"}
`
	code, output, problems := scored(t, input)
	if code != 0 || problems != "" {
		t.Fatalf("code %d, %s", code, problems)
	}
	for _, wanted := range []string{"0.5000 (1/2)", "1.0000 (1/1)", "0.6667 (2/3)"} {
		if !strings.Contains(output, wanted) {
			t.Errorf("no %q in\n%s", wanted, output)
		}
	}
	if strings.Contains(output, planted) {
		t.Error("a missed secret is printed")
	}
	if _, shown, _ := scored(t, input, "-show"); !strings.Contains(shown, planted) {
		t.Error("-show does not show the missed text")
	}
}

func TestExitCodeTellsAMissedThreshold(t *testing.T) {
	missed := `{"text": "it is ` + planted + `", "secrets": ["` + planted + `"]}`
	if code, _, problems := scored(t, missed, "-min-recall=0.5"); code != exitBelowThreshold || !strings.Contains(problems, "recall") {
		t.Errorf("code %d, %q", code, problems)
	}
	touched := `{"text": "password=` + planted + `", "secrets": []}`
	if code, _, problems := scored(t, touched, "-min-untouched=0.5"); code != exitBelowThreshold || !strings.Contains(problems, "untouched") {
		t.Errorf("code %d, %q", code, problems)
	}
	if code, _, _ := scored(t, missed, "-min-recall=0", "-min-untouched=0"); code != 0 {
		t.Errorf("code %d without thresholds", code)
	}
}

func TestABadLineIsNamed(t *testing.T) {
	good := `{"text": "x y z", "secrets": []}` + "\n"
	for line, reason := range map[string]string{
		`{"text": "a"`:                    "not a JSON object",
		`["a"]`:                           "not a JSON object",
		`{"secrets": []}`:                 `"text" is missing`,
		`{"text": "a", "secrets": ["b"]}`: "does not stand in",
		`{"text": "a", "placement": "elsewhere"}`:             "placement",
		`{"text": "a", "placement": "key:"}`:                  "placement",
		`{"text": "a"} {"text": "b"}`:                         "more than one value",
		`{"text": "a", "secrets": [""], "placement": "body"}`: "does not stand in",
	} {
		code, _, problems := scored(t, good+line+"\n"+good)
		if code != exitUsage || !strings.Contains(problems, "-:2:") || !strings.Contains(problems, reason) {
			t.Errorf("%s: code %d, %q", line, code, problems)
		}
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, arguments := range [][]string{{}, {"-min-recall=2", "x"}, {"-min-untouched=-1", "x"}, {"-personal-data=shoe_size", "-"}, {"-rules-file=/nowhere.toml", "-"}, {"/nowhere.jsonl"}, {"-unknown"}} {
		var output, problems bytes.Buffer
		if code := run(arguments, strings.NewReader(""), &output, &problems); code != exitUsage || problems.Len() == 0 {
			t.Errorf("%v: code %d, %q", arguments, code, problems.String())
		}
	}
}

func TestHalfASecretThatRemainsIsAMiss(t *testing.T) {
	const secret = "0123456789abcdef-fedcba9876543210"
	for redacted, want := range map[string]bool{
		"key [mask]": false, "key " + secret: true, "key [mask]-fedcba9876543210": true, "key 0123456789abcdef[mask]": true,
	} {
		if got := remains(secret, "key "+secret, redacted); got != want {
			t.Errorf("%q: %v", redacted, got)
		}
	}
	if remains(secret, "0123456789abcdef is the id of "+secret, "0123456789abcdef is the id of [mask]") {
		t.Error("what stands beside the secret as well is no rest of it")
	}
}
