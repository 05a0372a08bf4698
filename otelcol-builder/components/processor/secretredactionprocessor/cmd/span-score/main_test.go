package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

// suiteOf writes lines into a file of their own.
func suiteOf(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "suite.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// spanOf returns a line whose one span is the piece, said to be of a class.
func spanOf(text, piece, class string) string {
	start := strings.Index(text, piece)
	return fmt.Sprintf(`{"text": %q, "kind": "log", "spans": [{"start": %d, "end": %d, "class": %q}]}`, text, start, start+len(piece), class)
}

func scored(t *testing.T, arguments ...string) (int, string, string) {
	t.Helper()
	var output, problems bytes.Buffer
	code := run(arguments, strings.NewReader(""), &output, &problems)
	return code, output.String(), problems.String()
}

func TestCountsExactSpansTouchedSpansAndFalseOnes(t *testing.T) {
	file := suiteOf(t,
		spanOf("to mara@northlab.io now", "mara@northlab.io", "email"),
		spanOf("to jo@northlab.io now", "to jo@northlab.io", "email"),
		spanOf("by word of mouth only", "word", "email"),
		spanOf("iban DE89370400440532013000", "DE89370400440532013000", "iban"),
		`{"text": "mail tess@northlab.io", "kind": "prose"}`,
		`{"text": "loss 0.31", "kind": "prose"}`,
	)
	code, output, problems := scored(t, file)
	if code != 0 || problems != "" {
		t.Fatalf("code %d, %s", code, problems)
	}
	for _, wanted := range []string{
		"| `email` | 0.333 (1/3) | 0.667 (2/3) | 0.667 (2/3) |", "| `iban` | 1.000 (1/1) | 1.000 (1/1) | 1.000 (1/1) |",
		"| all | 0.500 (2/4) | 0.750 (3/4) | 0.750 (3/4) |", "| prose | 0.500 (1/2) |",
	} {
		if !strings.Contains(output, wanted) {
			t.Errorf("no %q in\n%s", wanted, output)
		}
	}
	if strings.Contains(output, "northlab") {
		t.Error("a text is printed without -show")
	}
	if _, shown, _ := scored(t, "-show", file); !strings.Contains(shown, "tess@northlab.io") || strings.Contains(shown, "mara@") {
		t.Errorf("-show has to print the misses and nothing else:\n%s", shown)
	}
}

func TestAnotherClassAtTheSamePlaceIsNotExact(t *testing.T) {
	_, output, _ := scored(t, suiteOf(t, spanOf("to mara@northlab.io now", "mara@northlab.io", "phone")))
	if !strings.Contains(output, "| `phone` | 0.000 (0/1) | 1.000 (1/1) | - |") || !strings.Contains(output, "| all | 0.000 (0/1) | 1.000 (1/1) | 0.000 (0/1) |") {
		t.Error(output)
	}
}

func TestExitCodeNamesTheClassBelowAThreshold(t *testing.T) {
	file := suiteOf(t,
		spanOf("to mara@northlab.io now", "mara@northlab.io", "email"), spanOf("not a phone", "phone", "phone"),
		`{"text": "mail tess@northlab.io", "kind": "prose"}`)
	for flag, reason := range map[string]string{
		"-min-recall=0.9": "exact recall of phone", "-min-precision=0.9": "precision of email", "-min-untouched=0.9": "untouched share",
	} {
		code, _, problems := scored(t, flag, file)
		if code != exitBelowThreshold || !strings.Contains(problems, reason) || strings.Count(problems, "\n") != 1 {
			t.Errorf("%s: code %d, %q", flag, code, problems)
		}
	}
}

func TestASuiteComesFromTheStandardInputToo(t *testing.T) {
	var output, problems bytes.Buffer
	input := spanOf("to mara@northlab.io now", "mara@northlab.io", "email") + "\n\n"
	if code := run([]string{"-"}, strings.NewReader(input), &output, &problems); code != 0 || !strings.Contains(output.String(), "1.000 (1/1)") {
		t.Errorf("code %d, %s%s", code, output.String(), problems.String())
	}
}

func TestAThresholdWithoutAnythingToMeasureIsMissed(t *testing.T) {
	spans := suiteOf(t, spanOf("to mara@northlab.io now", "mara@northlab.io", "email"))
	if code, _, problems := scored(t, "-min-untouched=0.5", spans); code != exitBelowThreshold || problems == "" {
		t.Errorf("code %d, %q", code, problems)
	}
	lookAlikes := suiteOf(t, `{"text": "loss 0.31", "kind": "prose"}`)
	if code, _, problems := scored(t, "-min-recall=0.5", lookAlikes); code != exitBelowThreshold || problems == "" {
		t.Errorf("code %d, %q", code, problems)
	}
}

func TestThePageIsComparedAndWritten(t *testing.T) {
	file := suiteOf(t, spanOf("to mara@northlab.io now", "mara@northlab.io", "email"))
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Scores\n\n"+pageBegin+"old\n"+pageEnd+"\n\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, problems := scored(t, "-page", page, file); code != exitBelowThreshold || !strings.Contains(problems, "-write") {
		t.Errorf("code %d, %q", code, problems)
	}
	if code, _, problems := scored(t, "-page", page, "-write", file); code != 0 {
		t.Errorf("code %d, %q", code, problems)
	}
	content, err := os.ReadFile(page)
	if err != nil || !strings.HasPrefix(string(content), "# Scores\n") || !strings.HasSuffix(string(content), "\n\nafter\n") || !strings.Contains(string(content), "| `email` |") {
		t.Errorf("%v: %s", err, content)
	}
	if code, _, problems := scored(t, "-page", page, file); code != 0 {
		t.Errorf("code %d, %q", code, problems)
	}
	if code, _, problems := scored(t, "-page", file, file); code != exitBelowThreshold || !strings.Contains(problems, "markers") {
		t.Errorf("code %d, %q", code, problems)
	}
}

func TestABadLineOrFlagIsNamed(t *testing.T) {
	for line, reason := range map[string]string{
		`["a"]`:                           "not a JSON object",
		`{"text": "a", "kind": "log"} {}`: "more than one value",
		`{"text": "a", "kind": "log", "placement": "elsewhere"}`: "placement",
		`{"kind": "log"}`: `"text"`,
		`{"text": "abc", "kind": "log", "spans": [{"start": 0, "end": 9, "class": "email"}]}`:     "outside",
		`{"text": "abc", "kind": "log", "spans": [{"start": 0, "end": 2, "class": "shoe_size"}]}`: "shoe_size",
	} {
		if code, _, problems := scored(t, suiteOf(t, `{"text": "x", "kind": "log"}`, line)); code != exitUsage || !strings.Contains(problems, ":2:") || !strings.Contains(problems, reason) {
			t.Errorf("%s: code %d, %q", line, code, problems)
		}
	}
	for _, arguments := range [][]string{{}, {"-min-recall=2", "x"}, {"/nowhere.jsonl"}, {"-unknown"}} {
		if code, _, problems := scored(t, arguments...); code != exitUsage || problems == "" {
			t.Errorf("%v: code %d, %q", arguments, code, problems)
		}
	}
}

// TestTheSuiteHoldsEveryClass: a class that the rules know and no suite has would have no score.
func TestTheSuiteHoldsEveryClass(t *testing.T) {
	files, err := filepath.Glob("../../testdata/personal/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		code, output, problems := scored(t, file)
		if code != 0 {
			t.Fatalf("code %d, %s", code, problems)
		}
		for _, class := range detect.PersonalDataClasses {
			if !strings.Contains(output, "| `"+class+"`") {
				t.Errorf("%s has no span of %s", file, class)
			}
		}
	}
}

// TestTheDocumentHoldsTheseScores keeps the table true: `go run ./cmd/span-score -write -page=... testdata/personal/*.jsonl`.
func TestTheDocumentHoldsTheseScores(t *testing.T) {
	page := filepath.Join("..", "..", "testdata", "README.md")
	if _, err := os.Stat(page); err != nil {
		t.Skip("the document of the repository is not here")
	}
	files, err := filepath.Glob("../../testdata/personal/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	if code, _, problems := scored(t, append([]string{"-page", page}, files...)...); code != 0 {
		t.Errorf("code %d, %s", code, problems)
	}
}
