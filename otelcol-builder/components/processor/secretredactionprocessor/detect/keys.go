package detect

import "strings"

// SecretKey says whether the value under an attribute key is a secret whatever it looks like.
func (d *Detector) SecretKey(key string) bool {
	switch power := nameStrength(key); power {
	case strongName:
		return true
	case passwordName:
		return !bareWord(lastWord(key), "pass")
	case noSecret:
		return false
	default:
		return alwaysSecret[lastWord(key)]
	}
}

// alwaysSecret are last words of keys of headers and the like that are no names of a program's things.
var alwaysSecret = setOf("secret authorization credential credentials cookie set-cookie jwt")

// lastWord returns a key's last word in lower case.
func lastWord(key string) string {
	if len(key) > longestName {
		key = key[len(key)-longestName:]
	}
	var lowered [longestName]byte
	words := splitName(key, &lowered)
	if words.count == 0 {
		return ""
	}
	return string(words.list[words.count-1])
}

// matchKeyContext judges a text by the key of the attribute that holds it, as if it were assigned to it.
func (s *scan) matchKeyContext() {
	if s.key == "" || s.depth > 0 || !s.detector.automaton.holdsWord(s.key) && (len(s.text) > longestRandom || gradeOf(s.text) == noGrade) {
		return
	}
	if power := nameStrength(s.key); power != noSecret {
		whole := value{text: s.text, end: len(s.text), quoted: true}
		if acceptValue(power, s.key, whole) {
			s.add(0, len(s.text), classOfName(power))
			return
		}
	}
	prefix := s.key + "="
	seen := withinKeyReach(s.text)
	findings := s.findInside(prefix + seen)
	if last := len(findings) - 1; last >= 0 && findings[last].End == len(prefix)+len(seen) && len(seen) < len(s.text) {
		findings = s.findInside(prefix + s.text)
	}
	for _, finding := range findings {
		if finding.End > len(prefix) {
			finding.Start, finding.End = max(0, finding.Start-len(prefix)), finding.End-len(prefix)
			s.addFinding(finding)
		}
	}
}

// keyReach is how much of a text is read as the value of its key: what stands further behind a name has nothing to do with it, and
// was scanned without it. A finding that reaches the end of the part has the whole text read.
const keyReach = 2048

// withinKeyReach returns the beginning of a text, which ends between two words where there are any.
func withinKeyReach(text string) string {
	if len(text) <= keyReach {
		return text
	}
	text = text[:keyReach]
	if blank := strings.LastIndexAny(text, " \n"); blank > keyReach/2 {
		return text[:blank]
	}
	return text
}
