package main

import (
	"errors"
	"io"
	"strings"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/suite"
)

func scoreFile(total *score, redactor *redactor, file string, input io.Reader) error {
	return suite.Each(file, input, func(place string, one suite.Example) error {
		key, err := check(one)
		if err != nil {
			return err
		}
		redacted, err := redactor.redact(key, one.Text)
		if err == nil {
			total.count(place, one, redacted)
		}
		return err
	})
}

// check returns the attribute that holds the text, and what is wrong with a line.
func check(one suite.Example) (string, error) {
	if one.Text == "" {
		return "", errors.New("\"text\" is missing")
	}
	for _, secret := range one.Secrets {
		if secret == "" || !strings.Contains(one.Text, secret) {
			return "", errors.New("a string of \"secrets\" does not stand in \"text\"")
		}
	}
	return suite.Key(one.Placement)
}
