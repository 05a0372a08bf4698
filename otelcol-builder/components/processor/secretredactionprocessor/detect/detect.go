// Package detect finds secrets and personal data in free text.
//
// The rules are those of gitleaks (built in, or a TOML file in its format) and rules of its own for what those
// lack: assignments, headers, connection strings, key blocks, password hashes, vendors' tokens, wrapped secrets
// and personal data. Every rule runs in time linear in the text.
package detect

import (
	"fmt"
	"strings"
	"sync"
)

// MaxTextBytes is the longest text that is scanned; a longer one is an error, so that its holder can drop it.
const MaxTextBytes = 8 << 20

// Config of a detector.
type Config struct {
	// RulesFile is a TOML file in gitleaks' format that replaces gitleaks' built-in rules; empty for the built-in ones.
	RulesFile string
	// PersonalData names the classes of personal data to find, see PersonalDataClasses.
	PersonalData []string
}

// Finding is a piece of a text that has to be masked.
type Finding struct {
	// Start and End are byte offsets into the text.
	Start, End int
	// Class says what was found, in lower case with underscores.
	Class string
	// LowEntropy marks what could be guessed from a fingerprint, such as personal data.
	LowEntropy bool
}

// Detector finds secrets; it is safe for concurrent use.
type Detector struct {
	automaton *automaton
	words     []word
	rules     []externalRule
	always    []int
	personal  personalData
	scans     sync.Pool
}

// New returns a detector, or an error that names the setting to correct.
func New(config Config) (*Detector, error) {
	rules, err := loadExternalRules(config.RulesFile)
	if err != nil {
		return nil, err
	}
	personal, err := newPersonalData(config.PersonalData)
	if err != nil {
		return nil, err
	}
	d := &Detector{rules: rules, personal: personal}
	d.scans.New = func() any { return &scan{detector: d} }
	if d.words, d.always, err = collectWords(rules, personal); err != nil {
		return nil, err
	}
	d.automaton = newAutomaton(d.words)
	return d, nil
}

// Find returns what has to be masked in a text, sorted by position and without overlap. The key is the name of the
// attribute that holds the text, or empty.
func (d *Detector) Find(key, text string) ([]Finding, error) {
	return d.FindWithin(key, text, nil)
}

// FindWithin does the same within the bound of the text, and ends with an error where that is reached.
func (d *Detector) FindWithin(key, text string, work *Work) ([]Finding, error) {
	if len(text) > MaxTextBytes {
		return nil, fmt.Errorf("text of %d bytes is longer than the %d bytes that are scanned", len(text), MaxTextBytes)
	}
	if len(text) < shortestSecret {
		return nil, nil
	}
	if !strings.Contains(text, maskStart) {
		return d.findInSegment(key, text, 0, work)
	}
	var found []Finding
	for _, segment := range unmaskedSegments(text) {
		inside, err := d.findInSegment(key, text[segment.start:segment.end], 0, work)
		if err != nil {
			return nil, err
		}
		for _, finding := range inside {
			finding.Start += segment.start
			finding.End += segment.start
			found = append(found, finding)
		}
	}
	return found, nil
}

// findInSegment scans a text without masks; the depth counts how often it was unwrapped.
func (d *Detector) findInSegment(key, text string, depth int, work *Work) ([]Finding, error) {
	s := d.scans.Get().(*scan)
	s.begin(key, text, depth)
	s.work = work
	s.run()
	found, err := s.result(), s.stopped
	s.end()
	d.scans.Put(s)
	if err != nil {
		return nil, err
	}
	return found, nil
}

// findInside scans what a scan has unwrapped. Where the bound is reached the scan around it ends as well.
func (s *scan) findInside(text string) []Finding {
	found, err := s.detector.findInSegment("", text, s.depth+1, s.work)
	if err != nil {
		s.stopped = err
	}
	return found
}
