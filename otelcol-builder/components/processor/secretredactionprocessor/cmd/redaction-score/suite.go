package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

const longestLine = 16 << 20

// example is one line of a suite.
type example struct {
	Text      *string  `json:"text"`
	Secrets   []string `json:"secrets"`
	Placement string   `json:"placement"`
	Class     string   `json:"class"`
}

func scoreFile(total *score, redactor *redactor, file string, input io.Reader) error {
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer opened.Close()
		input = opened
	}
	lines := bufio.NewScanner(input)
	lines.Buffer(make([]byte, 0, 64<<10), longestLine)
	number := 0
	for lines.Scan() {
		number++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		one, err := parseExample(lines.Bytes())
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, number, err)
		}
		redacted, err := redactor.redact(one.Placement, *one.Text)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, number, err)
		}
		total.count(file, number, one, redacted)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", file, number+1, err)
	}
	return nil
}

func parseExample(raw []byte) (example, error) {
	var one example
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&one); err != nil {
		return one, fmt.Errorf("not a JSON object of the suite's form: %w", err)
	}
	if decoder.More() {
		return one, fmt.Errorf("more than one value on the line")
	}
	if one.Text == nil {
		return one, fmt.Errorf("\"text\" is missing")
	}
	for _, secret := range one.Secrets {
		if secret == "" || !strings.Contains(*one.Text, secret) {
			return one, fmt.Errorf("a string of \"secrets\" does not stand in \"text\"")
		}
	}
	if !validPlacement(one.Placement) {
		return one, fmt.Errorf("placement %q is none of body, attribute, key:<attribute key>", one.Placement)
	}
	return one, nil
}

func validPlacement(placement string) bool {
	key, named := strings.CutPrefix(placement, "key:")
	return placement == "" || placement == "body" || placement == "attribute" || named && key != ""
}
