package detect

import (
	"slices"
	"strings"
)

// Most credentials have no form that a table knows, and many no name that says what they are. So the value decides: one that a
// generator made is masked beside any word that may mean a credential, and beside the bare name of something. Values that are
// as often ids need a name that says credential.
const (
	shortestGraded = 14 // beside a name that says credential
	shortestRandom = 16
	longestRandom  = 200 // without a name that says credential
	shortestBare   = 20
)

// grade says how surely a generator made a value.
type grade uint8

const (
	noGrade    grade = iota
	idGrade          // a UUID, a digest, a generated id
	plainGrade       // digits and letters of one case
	mixedGrade       // digits and letters of both cases
	signGrade        // those and signs, as in a password
)

// matchRandom masks values that look random where what stands before them may mean a credential.
func (s *scan) matchRandom() {
	next, before := 0, span{}
	findings := inOrder(slices.Clone(s.found))
	for _, run := range s.runs {
		for ; next < len(findings) && findings[next].End <= run.start; next++ {
			if !findings[next].LowEntropy {
				before = span{findings[next].Start, findings[next].End}
			}
		}
		if next < len(findings) && findings[next].Start < run.end {
			continue // found already
		}
		if !s.goOn(stepsOfLook) {
			return
		}
		if run.start < before.end {
			continue // the rest of a word that was judged
		}
		if judged, found := s.judgeRun(run, before.end); found {
			s.add(judged.start, judged.end, "unnamed_credential")
			before = judged
		}
	}
}

// judgeRun returns what is to be masked of a run of token characters by its form and its surroundings.
func (s *scan) judgeRun(run span, before int) (span, bool) {
	length := run.end - run.start
	if length > longestBare {
		return run, false
	}
	if glue := run.start - before; before > 0 && glue > 0 && glue <= mostGlue && isGlue(s.text[before:run.start]) && readable(s.text[run.start:run.end]) <= mostReadable/2 {
		return run, true // the next part of what was masked: id:secret
	}
	for range 2 {
		if run.end < len(s.text) && s.text[run.end] == '=' {
			run.end++
		}
	}
	word, graded := run, noGrade
	if s.besideSign(run) {
		word = s.wholeWord(run, before)
		graded = gradeOfWord(s.text[word.start:word.end])
	}
	if graded == noGrade && length >= shortestGraded-2 {
		word, graded = run, gradeOf(s.text[run.start:run.end])
	}
	if graded == noGrade {
		return run, false
	}
	if !s.goOn(stepsOfContext) {
		return run, false
	}
	around, ok := s.surroundingsOf(word)
	return word, ok && around.meanCredential(graded, s.text[word.start:word.end]) && (graded != signGrade || max(around.strength, around.hint) >= tokenName)
}

const (
	mostGlue     = 3
	shortestWord = 12
	longestWord  = 100
	wordSigns    = "!#$%&*+-./:?@^_~"
)

func isGlue(text string) bool {
	return allBytes(text, func(b byte) bool { return strings.IndexByte("!#$%*:@^|~", b) >= 0 })
}

// besideSign says whether a sign stands beside a run that does not end a value.
func (s *scan) besideSign(run span) bool {
	const signs = "!#$%&*?@^"
	return run.start > 0 && strings.IndexByte(signs, s.text[run.start-1]) >= 0 || strings.IndexByte(signs, s.byteAt(run.end)) >= 0
}

// wholeWord widens a run by the signs that people and generators of passwords put into them, up to a quote or a blank.
func (s *scan) wholeWord(run span, before int) span {
	inside := func(character byte) bool { return isAlnum(character) || strings.IndexByte(wordSigns, character) >= 0 }
	word := run
	for limit := max(before, run.start-longestWord); word.start > limit && inside(s.text[word.start-1]); {
		word.start--
	}
	for limit := min(len(s.text), run.end+longestWord); word.end < limit && inside(s.text[word.end]); {
		word.end++
	}
	return word
}

// gradeOfWord judges a word with signs in it: letters of both cases, digits and signs, and no address.
func gradeOfWord(text string) grade {
	counted := shapeOf(text)
	if counted.length < shortestWord || counted.length > longestWord || counted.other == 0 || counted.other > counted.length/3 || counted.digits == 0 ||
		counted.upper == 0 || counted.lower == 0 || strings.Contains(text, "://") || isPlaceholder(text) || readable(text) > mostReadable {
		return noGrade
	}
	return signGrade
}

// inOrder sorts findings by their place.
func inOrder(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int { return a.Start - b.Start })
	end := 0
	for index := range findings { // one that lies inside of another ends where that one does
		end = max(end, findings[index].End)
		findings[index].End = end
	}
	return findings
}

// publicKey begins the public keys of SSH.
const publicKey = "AAAA"

// gradeOf judges a value by itself.
func gradeOf(text string) grade {
	if len(text) < shortestGraded {
		return noGrade
	}
	counted, isID := shape{}, isUUID(text) || allBytes(strings.TrimPrefix(text, "0x"), isHex)
	if !isID {
		counted = shapeOf(text)
		if counted.letters() < 4 || counted.digits+counted.upper == 0 || counted.separators > 2+counted.length/8 ||
			counted.letters()+counted.digits < shortestGraded-2 || counted.longestSame > 6 || readable(text) > mostReadable {
			return noGrade // sentences end here, before what costs more
		}
	}
	if isPlaceholder(text) || isPath(text) || isVersion(text) || isNumbered(text) || strings.HasPrefix(text, publicKey) ||
		strings.Contains(text, "/") && strings.ContainsAny(text, "-_.") { // no alphabet of base64 has both
		return noGrade
	}
	switch {
	case isID:
		return idGrade
	case counted.lower == 0 && strings.Count(text, "_") > 1: // a constant of a program
		return noGrade
	case isGeneratedName(text):
		return idGrade
	case counted.upper > 1 && counted.lower > 1 && counted.digits > 1 && counted.changes > 2 && entropy(text) > 3.2:
		return mixedGrade
	case counted.digits > 0 && entropy(text) > minimumEntropy(len(text)), counted.upper > 1 && counted.lower > 1 && entropy(text) > 3.5:
		return plainGrade
	}
	return noGrade
}

// isNumbered says whether a text begins with a version, is a hexadecimal number or a range of revisions.
func isNumbered(text string) bool {
	dot := strings.IndexByte(text, '.')
	return dot > 0 && dot < 4 && allBytes(text[:dot], isDigit) || isNumber(text) || strings.Contains(text, "..")
}

// isMachineMade says whether letters and digits are mixed as no name mixes them.
func isMachineMade(text string) bool {
	counted := shapeOf(text)
	if counted.length < shortestBare && (counted.upper < 2 || counted.lower < 2 || counted.changes < 4) {
		return false
	}
	return counted.digits > 1 && counted.changes > 2 && entropy(text) > 3.2 &&
		(counted.upper == 0 || counted.lower == 0 || counted.upper > 1 && counted.lower > 1)
}
