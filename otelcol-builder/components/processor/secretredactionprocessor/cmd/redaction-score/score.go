package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/suite"
)

// tally counts one class.
type tally struct{ secrets, found, lookAlikes, untouched int }

type score struct {
	total   tally
	classes map[string]*tally
	misses  []string
	show    bool
}

func newScore(show bool) *score { return &score{classes: map[string]*tally{}, show: show} }

func (s *score) count(place string, one suite.Example, redacted string) {
	class := one.Class
	if class == "" {
		class = "-"
	}
	if s.classes[class] == nil {
		s.classes[class] = &tally{}
	}
	place += " " + class
	for _, counted := range []*tally{&s.total, s.classes[class]} {
		if len(one.Secrets) == 0 {
			counted.lookAlikes++
			if redacted == one.Text {
				counted.untouched++
			}
		}
		for _, secret := range one.Secrets {
			counted.secrets++
			if !remains(secret, one.Text, redacted) {
				counted.found++
			}
		}
	}
	if len(one.Secrets) == 0 && redacted != one.Text {
		s.miss("touched", place, redacted+" FROM "+one.Text, one.Text)
	}
	for _, secret := range one.Secrets {
		if remains(secret, one.Text, redacted) {
			s.miss("missed", place, redacted, secret)
		}
	}
}

// shortestHalf: halves of shorter secrets stand in many texts by chance.
const shortestHalf = 8

// remains says whether a secret or one half of it still stands in the output: a mask over a few of its bytes is none.
func remains(secret, text, redacted string) bool {
	if strings.Contains(redacted, secret) {
		return true
	}
	half := len(secret) / 2
	if half < shortestHalf {
		return false
	}
	beside := strings.ReplaceAll(text, secret, "")
	for _, part := range []string{secret[:half], secret[half:]} {
		if strings.Contains(redacted, part) && !strings.Contains(beside, part) {
			return true
		}
	}
	return false
}

// miss notes what went wrong; without --show only a hash tells two of them apart.
func (s *score) miss(what, place, text, hashed string) {
	if s.show {
		s.misses = append(s.misses, fmt.Sprintf("%-7s %s %q", what, place, text))
		return
	}
	digest := sha256.Sum256([]byte(hashed))
	s.misses = append(s.misses, fmt.Sprintf("%-7s %s sha256:%x", what, place, digest[:6]))
}

func (s *score) print(output io.Writer) {
	for _, miss := range s.misses {
		fmt.Fprintln(output, miss)
	}
	names := make([]string, 0, len(s.classes))
	for name := range s.classes {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(output, "%-24s %18s %22s\n", "class", "recall", "untouched")
	for _, name := range names {
		printTally(output, name, *s.classes[name])
	}
	printTally(output, "total", s.total)
}

func printTally(output io.Writer, name string, counted tally) {
	fmt.Fprintf(output, "%-24s %18s %22s\n", name, share(counted.found, counted.secrets), share(counted.untouched, counted.lookAlikes))
}

func share(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4f (%d/%d)", float64(part)/float64(whole), part, whole)
}

// below says whether a threshold is missed. A suite without secrets or look-alikes cannot meet one about them.
func (s *score) below(minRecall, minUntouched float64, problems io.Writer) bool {
	missed := misses("recall", s.total.found, s.total.secrets, minRecall, problems)
	return misses("untouched share", s.total.untouched, s.total.lookAlikes, minUntouched, problems) || missed
}

func misses(what string, part, whole int, threshold float64, problems io.Writer) bool {
	if threshold == 0 || float64(part) >= threshold*float64(whole) && whole > 0 {
		return false
	}
	fmt.Fprintf(problems, "redaction-score: %s is %s, wanted at least %v\n", what, share(part, whole), threshold)
	return true
}
