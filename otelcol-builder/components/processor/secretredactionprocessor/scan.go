package secretredactionprocessor

import (
	"errors"
	"fmt"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

// Limits of what is scanned. What goes beyond them is dropped and counted.
const (
	maximumTextBytes = 1 << 20
	maximumDepth     = 32
	maximumPasses    = 4
)

var (
	errTooLong  = errors.New("longer than the limit")
	errUnstable = errors.New("each mask made another finding")
)

// finder finds secrets and personal data; *detect.Detector is one.
type finder interface {
	FindWithin(key, text string, work *detect.Work) ([]detect.Finding, error)
	SecretKey(key string) bool
}

// scanner masks what a finder finds, and remembers the outcome.
type scanner struct {
	finder finder
	cache  *cache
	masker
}

// mask returns the text with masks. It scans its own result again until nothing is found outside of masks, so that a second
// hop has nothing left to change. An error means that the text must not pass.
func (s *scanner) mask(key, text string, constant bool, counts *tally) (string, error) {
	work := counts.workOn(text)
	for range maximumPasses {
		findings, err := s.find(key, text, work, counts)
		if err != nil {
			return "", err
		}
		findings = outsideMarks(text, findings)
		if len(findings) == 0 {
			return text, nil
		}
		for _, each := range findings {
			counts.class(each.Class)
		}
		text = s.render(text, findings, constant)
	}
	return "", errUnstable
}

func (s *scanner) find(key, text string, work *detect.Work, counts *tally) ([]detect.Finding, error) {
	if len(text) > maximumTextBytes {
		return nil, errTooLong
	}
	sum := s.cache.digest(key, text)
	if findings, known := s.cache.get(sum); known {
		counts.hits++
		return findings, nil
	}
	counts.misses++
	counts.bytes += int64(len(text))
	if err := counts.request.wanted(); err != nil {
		return nil, err
	}
	findings, err := s.ask(key, text, work)
	if err == nil {
		s.cache.put(sum, len(text), findings)
	}
	return findings, err
}

// ask guards against a rule that panics and against findings that do not fit the text.
func (s *scanner) ask(key, text string, work *detect.Work) (findings []detect.Finding, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("a rule panicked: %v", cause)
		}
	}()
	if findings, err = s.finder.FindWithin(key, text, work); err != nil {
		return nil, err
	}
	end := 0
	for i, each := range findings {
		if each.Start < end || each.End <= each.Start || each.End > len(text) {
			return nil, errors.New("findings that do not fit the text")
		}
		end = each.End
		findings[i].Class = className(each.Class)
	}
	return findings, nil
}

// secretKey guards SecretKey; a rule that panics makes the key a secret one.
func (s *scanner) secretKey(key string) (secret bool) {
	defer func() {
		if recover() != nil {
			secret = true
		}
	}()
	return s.finder.SecretKey(key)
}
