package detect

import (
	"slices"
	"sort"
	"unicode/utf8"
)

const (
	runBytes     = 8   // a shorter run of token characters is no value
	ruleReach    = 256 // how far from its keyword an external rule looks for a value
	genericReach = 64
	mostCompared = 64 // findings that a run is compared with
	hitDistance  = 24 // a word that stands again closer than this has the same neighbourhood
)

// word is something that the first pass looks for, and who is asked when it stands in the text.
type word struct {
	text     string
	handlers []handler
	rules    []int
}

// handler looks at the text around a word; start and end are the word's place.
type handler func(s *scan, start, end int)

// scan is the state of one look at one text.
type scan struct {
	detector        *Detector
	key             string
	text            string
	depth           int
	found           []Finding
	own             []span // places of the secrets that the first pass found
	runs            []span
	hits            []ruleHit
	classes         uint8             // of the bytes of the text
	done            [handlerKinds]int // up to where a handler has already looked
	tokens          reach
	bare            [2]reach // values without quotes: behind an assignment, and other ones
	inside          reach    // of an element
	kinds           [lastKind - firstKind + 1]reach
	ends            place // of the next end of a key block
	spacedEnds      place
	commands        [longestCommands]int
	refused         int // where the value ends that was refused last
	refusedToken    int
	hitWord, hitEnd int // the word for which rules were noted last
	versionEnd      int // of the version of four parts that was met last
	work            *Work
	stopped         error
}

type ruleHit struct{ rule, position int }

func (s *scan) begin(key, text string, depth int) {
	s.key, s.text, s.depth = key, text, depth
	s.found, s.runs, s.hits, s.classes = s.found[:0], s.runs[:0], s.hits[:0], 0
	s.done, s.commands = [handlerKinds]int{}, [longestCommands]int{}
	s.tokens, s.bare, s.inside, s.kinds = reach{}, [2]reach{}, reach{}, [len(s.kinds)]reach{}
	s.ends, s.spacedEnds = place{from: -1}, place{from: -1}
	s.refused, s.refusedToken, s.stopped = -1, -1, nil
	s.hitWord, s.versionEnd = -1, 0
}

// end drops what refers to the text, so that the pool keeps nothing alive.
func (s *scan) end() {
	s.key, s.text, s.work, s.own = "", "", nil, nil
	if cap(s.found) > 1024 || cap(s.hits) > 65536 || cap(s.runs) > 65536 {
		s.found, s.hits, s.runs = nil, nil, nil
	}
}

func (s *scan) run() {
	if !s.goOn(len(s.text)) {
		return
	}
	s.collectRuns()
	for _, look := range []func(*scan){
		(*scan).matchWords, (*scan).matchExternalRules, (*scan).matchBotTokens, (*scan).matchKeyContext, (*scan).numbers,
		(*scan).addresses6, (*scan).lettered, (*scan).matchRandom, (*scan).matchWrapped,
	} {
		if look(s); s.stopped != nil {
			return
		}
	}
}

// matchWords walks the automaton over the text and asks the handlers of each word.
func (s *scan) matchWords() {
	automaton := s.detector.automaton
	text, next, width := s.text, automaton.next, automaton.width
	state := 0
	for position := range len(text) {
		state = int(next[state*width+int(automaton.fold[text[position]])])
		if state >= automaton.firstOutput {
			s.askHandlers(automaton.outputs[state], position+1)
			if s.stopped != nil {
				return
			}
		}
	}
}

func (s *scan) askHandlers(outputs []int, end int) {
	for _, index := range outputs {
		word := &s.detector.words[index]
		for _, handler := range word.handlers {
			if !s.goOn(stepsOfLook) {
				return
			}
			handler(s, end-len(word.text), end)
		}
		inside := len(word.text) <= 2 && end > 2 && isLetter(s.text[end-len(word.text)-1]) // such as "ey" in "key"
		if len(s.runs) > 0 && !inside && (index != s.hitWord || end-s.hitEnd >= hitDistance) {
			if len(word.rules) > 0 {
				s.hitWord, s.hitEnd = index, end
			}
			for _, rule := range word.rules {
				s.hits = append(s.hits, ruleHit{rule, end})
			}
		}
	}
}

// collectRuns notes where values may stand: long runs of token characters with digits, or of both cases.
func (s *scan) collectRuns() {
	text := s.text
	start, kinds := 0, uint8(0)
	for position := range len(text) {
		class := byteClass[text[position]]
		s.classes |= class
		if class&valueByte != 0 {
			kinds |= class
			continue
		}
		if position-start >= runBytes {
			s.addRun(start, position, kinds)
		}
		start, kinds = position+1, 0
	}
	if len(text)-start >= runBytes {
		s.addRun(start, len(text), kinds)
	}
}

func (s *scan) addRun(start, end int, kinds uint8) {
	if kinds&digitByte != 0 || kinds&lowerByte != 0 && kinds&upperByte != 0 || end-start >= 16 && kinds&separatorByte == 0 {
		s.runs = append(s.runs, span{start, end})
	}
}

// add notes a piece to mask. Pieces end at character borders, whatever found them.
func (s *scan) add(start, end int, class string) {
	s.addFinding(Finding{Start: start, End: end, Class: class})
}

func (s *scan) addFinding(finding Finding) {
	for range utf8.UTFMax - 1 {
		if finding.Start > 0 && !utf8.RuneStart(s.text[finding.Start]) {
			finding.Start--
		}
		if finding.End < len(s.text) && !utf8.RuneStart(s.text[finding.End]) {
			finding.End++
		}
	}
	if finding.Start < finding.End {
		s.found = append(s.found, finding)
	}
}

// result sorts the findings and joins those that overlap.
func (s *scan) result() []Finding {
	if len(s.found) == 0 {
		return nil
	}
	sort.SliceStable(s.found, func(a, b int) bool { return s.found[a].Start < s.found[b].Start })
	joined := make([]Finding, 0, len(s.found))
	for _, finding := range s.found {
		last := len(joined) - 1
		if last < 0 || finding.Start >= joined[last].End {
			joined = append(joined, finding)
			continue
		}
		joined[last] = join(joined[last], finding)
	}
	return slices.Clip(joined)
}

// join makes one piece of two that overlap; the more telling class stays.
func join(first, second Finding) Finding {
	if classRank(second.Class) < classRank(first.Class) {
		first.Class = second.Class
	}
	first.End = max(first.End, second.End)
	first.LowEntropy = first.LowEntropy && second.LowEntropy
	return first
}
