package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

// line is one line of a suite. Without spans it is a look-alike, which has to stay as it is.
type line struct {
	Text      string  `json:"text"`
	Spans     []label `json:"spans"`
	Kind      string  `json:"kind"`
	Placement string  `json:"placement"`
}

// label says what stands where in a text, in bytes. The form tells kinds of one class apart, such as IPv4 and IPv6.
type label struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Class string `json:"class"`
	Form  string `json:"form"`
}

func (l label) name() string {
	if l.Form == "" {
		return l.Class
	}
	return l.Class + ", " + l.Form
}

// key is the attribute that holds the text; a body has none.
func (l line) key() string {
	if key, named := strings.CutPrefix(l.Placement, "key:"); named {
		return key
	}
	if l.Placement == "attribute" {
		return "message"
	}
	return ""
}

func readSuite(file string) ([]line, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	var lines []line
	scanner := bufio.NewScanner(opened)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		one, err := parseLine(scanner.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, len(lines)+1, err)
		}
		lines = append(lines, one)
	}
	return lines, scanner.Err()
}

func parseLine(raw []byte) (line, error) {
	var one line
	if err := json.Unmarshal(raw, &one); err != nil {
		return one, fmt.Errorf("not a JSON object of the suite's form: %w", err)
	}
	if one.Text == "" || one.Kind == "" {
		return one, fmt.Errorf("\"text\" or \"kind\" is missing")
	}
	end := 0
	for _, each := range one.Spans {
		if each.Start < end || each.End <= each.Start || each.End > len(one.Text) {
			return one, fmt.Errorf("span %d to %d is out of order or outside of the text", each.Start, each.End)
		}
		if !slices.Contains(detect.PersonalDataClasses, each.Class) {
			return one, fmt.Errorf("%q is no class of personal data", each.Class)
		}
		end = each.End
	}
	return one, nil
}
