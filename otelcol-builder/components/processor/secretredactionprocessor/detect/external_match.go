package detect

import (
	"math"
	"slices"
	"strings"
)

// matchExternalRules runs the rules whose keyword stands near a long run of token characters.
func (s *scan) matchExternalRules() {
	if len(s.runs) == 0 {
		return
	}
	for _, rule := range s.detector.always {
		s.matchRule(&s.detector.rules[rule], 0, len(s.text))
	}
	if len(s.hits) == 0 {
		return
	}
	slices.SortFunc(s.hits, func(a, b ruleHit) int {
		if a.rule != b.rule {
			return a.rule - b.rule
		}
		return a.position - b.position
	})
	for first := 0; first < len(s.hits); {
		last := first + 1
		for last < len(s.hits) && s.hits[last].rule == s.hits[first].rule {
			last++
		}
		s.matchRuleAt(&s.detector.rules[s.hits[first].rule], s.hits[first:last])
		first = last
	}
}

// matchRuleAt runs a rule on the neighbourhood of its keywords, each piece of text once.
func (s *scan) matchRuleAt(rule *externalRule, hits []ruleHit) {
	start, end := -1, -1
	for _, hit := range hits {
		if !s.worthwhile(rule, hit.position) {
			continue
		}
		from, to := s.neighbourhood(hit.position)
		if start >= 0 && from <= end {
			end = max(end, to)
			continue
		}
		if start >= 0 {
			s.matchRule(rule, start, end)
		}
		start, end = from, to
	}
	if start >= 0 {
		s.matchRule(rule, start, end)
	}
}

// worthwhile says whether something that the rule could call a secret stands near its keyword.
func (s *scan) worthwhile(rule *externalRule, position int) bool {
	switch {
	case rule.anyCharacter:
		return true
	case rule.generic:
		return s.genericNear(position)
	}
	for _, run := range s.runsFrom(position - ruleReach) {
		if run.start > position+ruleReach {
			return false
		}
		if position-run.start > ruleReach && run.end-position > ruleReach {
			return false // deep inside of encoded data: no vendor's token is that long, and JSON web tokens are found by their shape
		}
		// A secret may be cut into runs by a character such as '=': a part of its length is enough to look.
		if run.end-run.start >= min(rule.shortest, runBytes) && !s.covered(run) {
			return true
		}
	}
	return false
}

// genericNear says whether a plausible value is assigned behind a word such as "token", which is everywhere.
func (s *scan) genericNear(position int) bool {
	for _, run := range s.runsFrom(position) {
		if run.start > position+genericReach {
			return false
		}
		if run.start >= position && !s.covered(run) && endsAssignment(s.text[position:run.start]) && isGenericValue(s.text[run.start:run.end]) {
			return true
		}
	}
	return false
}

// covered says whether a rule of our own has found a run already.
func (s *scan) covered(run span) bool {
	if len(s.found) > mostCompared {
		return false
	}
	for index := range s.found {
		if s.found[index].Start <= run.start && s.found[index].End >= run.end && !s.found[index].LowEntropy {
			return true
		}
	}
	return false
}

// endsAssignment says whether the text between a word and a value ends like an assignment.
func endsAssignment(gap string) bool {
	trimmed := strings.TrimRight(gap, "`'\"= \t\n\\(")
	if strings.HasSuffix(trimmed, ",") {
		return strings.ContainsAny(gap, "'\"`") // the arguments of a call
	}
	return strings.ContainsAny(gap[len(trimmed):], "=") || trimmed != "" && strings.IndexByte(">:|?", trimmed[len(trimmed)-1]) >= 0
}

// runsFrom returns the runs that end behind a position.
func (s *scan) runsFrom(position int) []span {
	first, _ := slices.BinarySearchFunc(s.runs, position, func(run span, at int) int { return run.end - at })
	return s.runs[first:]
}

// neighbourhood returns the piece of text around a keyword; short texts are taken whole.
func (s *scan) neighbourhood(position int) (int, int) {
	if len(s.text) <= 2*ruleReach {
		return 0, len(s.text)
	}
	from, to := max(0, position-ruleReach), min(len(s.text), position+4*ruleReach)
	for limit := max(0, from-64); from > limit && isWordByte(s.text[from-1]); {
		from--
	}
	for limit := min(len(s.text), to+64); to < limit && isWordByte(s.text[to]); {
		to++
	}
	return from, to
}

func (s *scan) matchRule(rule *externalRule, from, to int) {
	piece := s.text[from:to]
	pattern := rule.patternFor(piece)
	if pattern == nil {
		return
	}
	s.looks = handlersPerCheck // a pattern costs as much as many looks
	if !s.goOn() {
		return
	}
	for _, match := range pattern.FindAllStringSubmatchIndex(piece, -1) {
		start, end := secretPlace(rule, match)
		if start < 0 || start == end {
			continue
		}
		secret := piece[start:end]
		if rule.entropy != 0 && entropy(secret) <= rule.entropy {
			continue
		}
		if rule.allows(piece, match[0], match[1], secret) {
			continue
		}
		if rule.generic && !acceptGeneric(piece[max(0, match[0]-genericReach):start], secret) {
			continue
		}
		if (isDigest(secret) || isUUID(secret)) && hasWord(nameBefore(piece[:start]), thingWords) {
			continue // a commit of that vendor's
		}
		if rule.password && !acceptQuotedPassword(secret) {
			continue
		}
		s.add(from+start, from+end, rule.class)
	}
}

// secretPlace returns where the secret of a match stands: the named group, else the first that matched, else all.
func secretPlace(rule *externalRule, match []int) (int, int) {
	if rule.group > 0 {
		return match[2*rule.group], match[2*rule.group+1]
	}
	for group := 2; group < len(match); group += 2 {
		if match[group] >= 0 && match[group] < match[group+1] {
			return match[group], match[group+1]
		}
	}
	return match[0], match[1]
}

// allows says whether an allowlist of the rule speaks against a match. Texts have no commit and no path.
func (r *externalRule) allows(piece string, start, end int, secret string) bool {
	for _, list := range r.allowlists {
		target := secret
		switch list.RegexTarget {
		case "match":
			target = strings.Trim(piece[start:end], "\n")
		case "line":
			target = lineAround(piece, start, end)
		}
		byPattern := list.RegexAllowed(target)
		byWord, _ := list.ContainsStopWord(secret)
		if list.MatchCondition == 0 {
			if byPattern || byWord {
				return true
			}
			continue
		}
		needs := len(list.Paths) > 0 || len(list.Commits) > 0
		if !needs && (len(list.Regexes) == 0 || byPattern) && (len(list.StopWords) == 0 || byWord) {
			return true
		}
	}
	return false
}

// longestLine bounds what an allowlist sees of a line on either side of a match.
const longestLine = 512

func lineAround(text string, start, end int) string {
	from, to := max(0, start-longestLine), min(len(text), end+longestLine)
	text, start, end = text[from:to], start-from, end-from
	begin := strings.LastIndexByte(text[:start], '\n') + 1
	if next := strings.IndexByte(text[end:], '\n'); next >= 0 {
		return text[begin : end+next]
	}
	return text[begin:]
}

// entropy returns Shannon's entropy of a text in bits per byte.
func entropy(text string) float64 {
	text = judged(text)
	var counts [256]uint16 // longestJudged at most
	for position := range len(text) {
		counts[text[position]]++
	}
	total, result := float64(len(text)), 0.0
	for _, count := range counts {
		if count > 0 {
			share := float64(count) / total
			result -= share * math.Log2(share)
		}
	}
	return result
}
