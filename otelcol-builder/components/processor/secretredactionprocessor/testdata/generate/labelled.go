package main

import (
	"strings"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/suite"
)

// labelled makes lines from a shape of the form `kind | text «class/form:value»`, one for each placement. A kind that names a
// key has that one.
func labelled(kind, template string) ([]string, error) {
	kind, key, named := strings.Cut(kind, ":")
	var lines []string
	for _, placement := range []string{"body", "attribute"} {
		text, pieces, err := makerFor(template, placement).expand(template, true)
		if err != nil {
			return nil, err
		}
		if named {
			placement = "key:" + key
		}
		made := suite.Labelled{Text: text, Spans: []suite.Span{}, Kind: kind, Placement: placement}
		for _, each := range pieces {
			class, form, _ := strings.Cut(each.label, "/")
			made.Spans = append(made.Spans, suite.Span{Start: each.start, End: each.end, Class: class, Form: form})
		}
		line, err := encode(made)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}
