package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/suite"
)

// check returns the attribute that holds the text, and what is wrong with a line.
func check(one suite.Labelled) (string, error) {
	if one.Text == "" || one.Kind == "" {
		return "", errors.New("\"text\" or \"kind\" is missing")
	}
	end := 0
	for _, each := range one.Spans {
		if each.Start < end || each.End <= each.Start || each.End > len(one.Text) {
			return "", fmt.Errorf("span %d to %d is out of order or outside of the text", each.Start, each.End)
		}
		if !slices.Contains(detect.PersonalDataClasses, each.Class) {
			return "", fmt.Errorf("%q is no class of personal data", each.Class)
		}
		end = each.End
	}
	return suite.Key(one.Placement)
}

func scoreFile(total *score, detector *detect.Detector, file string, input io.Reader) error {
	return suite.Each(file, input, func(place string, one suite.Labelled) error {
		key, err := check(one)
		if err != nil {
			return err
		}
		found, err := detector.Find(key, one.Text)
		if err == nil {
			total.count(place, one, found)
		}
		return err
	})
}

// nameOf is the class of a span, with its form where it has one.
func nameOf(span suite.Span) string {
	if span.Form == "" {
		return span.Class
	}
	return span.Class + ", " + span.Form
}
