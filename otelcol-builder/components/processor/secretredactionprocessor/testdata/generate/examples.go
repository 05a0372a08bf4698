package main

import (
	"fmt"
	"strings"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/suite"
)

const valuesPerShape = 3

// frames are what a vendor's token is put into when its shape is nothing but the token.
var frames = []string{
	"%s", "export TOKEN=%s", `{"level":"info","message":"using %s now"}`, "auth failed for '%s', retrying",
	`{\"credential\": \"%s\"}`, "https://judge.internal/cb?x=1&v=%s", "a: 1\nb: %s\nc: 3",
}

// examples makes lines from a shape of the form `class | text «secret»`.
func examples(class, template string) ([]string, error) {
	var lines []string
	for count := range valuesPerShape {
		maker, framed := makerFor(template, count), template
		if strings.HasPrefix(template, "«") && strings.HasSuffix(template, "»") {
			framed = fmt.Sprintf(frames[maker.IntN(len(frames))], template)
		}
		text, pieces, err := maker.expand(framed, false)
		if err != nil {
			return nil, err
		}
		made := suite.Example{Text: text, Secrets: []string{}, Class: class, Placement: []string{"body", "attribute"}[count%2]}
		for _, secret := range pieces {
			made.Secrets = append(made.Secrets, text[secret.start:secret.end])
		}
		line, err := brokenUp(made)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// brokenUp encodes a line; JSON escapes break its tokens up, so that no scanner of a hosting site takes the made-up values for
// somebody's.
func brokenUp(made suite.Example) (string, error) {
	encoded, err := encode(made)
	for _, secret := range made.Secrets {
		quoted, _ := encode(secret)
		quoted = strings.Trim(quoted, `"`)
		encoded = strings.ReplaceAll(encoded, quoted, breakUp(quoted))
	}
	return encoded, err
}

// breakUp escapes every eighth letter or digit, beginning with the second.
func breakUp(text string) string {
	var result strings.Builder
	escaped, since := false, 6
	for _, character := range text {
		since++
		plain := character >= '0' && character <= '9' || character >= 'A' && character <= 'Z' || character >= 'a' && character <= 'z'
		switch {
		case escaped:
			escaped, since = false, 2
			result.WriteRune(character)
		case character == '\\':
			escaped = true
			result.WriteRune(character)
		case plain && since >= 8:
			fmt.Fprintf(&result, `\u%04x`, character)
			since = 0
		default:
			result.WriteRune(character)
		}
	}
	return result.String()
}
