// Package suite has the lines of the suites in testdata, and reads them.
package suite

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const longestLine = 16 << 20

// Example is a line with the secrets in its text. Without secrets it is a look-alike, which has to stay as it is.
type Example struct {
	Text      string   `json:"text"`
	Secrets   []string `json:"secrets"`
	Class     string   `json:"class"`
	Placement string   `json:"placement"`
}

// Labelled is a line with the spans of personal data in its text. Without spans it is a look-alike.
type Labelled struct {
	Text      string `json:"text"`
	Spans     []Span `json:"spans"`
	Kind      string `json:"kind"`
	Placement string `json:"placement"`
}

// Span says what stands where in a text, in bytes. The form tells kinds of one class apart, such as IPv4 and IPv6.
type Span struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Class string `json:"class"`
	Form  string `json:"form,omitempty"`
}

// Each hands every line of a file to use, with its place; "-" is the input. An error names the line.
func Each[L Example | Labelled](file string, input io.Reader, use func(place string, line L) error) error {
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer opened.Close()
		input = opened
	}
	number := 1
	place := func() string { return fmt.Sprintf("%s:%d", file, number) }
	scanner := bufio.NewScanner(input)
	scanner.Buffer(nil, longestLine)
	for ; scanner.Scan(); number++ {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		line, err := parse[L](scanner.Bytes())
		if err == nil {
			err = use(place(), line)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", place(), err)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("%s: %w", place(), err)
	}
	return nil
}

func parse[L any](raw []byte) (line L, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&line); err != nil {
		return line, fmt.Errorf("not a JSON object of the suite's form: %w", err)
	}
	if decoder.More() {
		return line, errors.New("more than one value on the line")
	}
	return line, nil
}

// Key returns the attribute that a placement means, empty for a body.
func Key(placement string) (string, error) {
	key, named := strings.CutPrefix(placement, "key:")
	switch {
	case named && key != "":
		return key, nil
	case placement == "attribute":
		return "message", nil
	case placement == "" || placement == "body":
		return "", nil
	}
	return "", fmt.Errorf("placement %q is none of body, attribute, key:<attribute key>", placement)
}
