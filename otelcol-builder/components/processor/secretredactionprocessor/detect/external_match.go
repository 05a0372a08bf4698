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
	s.own = s.placesOfSecrets()
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

// placesOfSecrets returns where secrets were found, in order.
func (s *scan) placesOfSecrets() []span {
	secrets := slices.DeleteFunc(slices.Clone(s.found), func(each Finding) bool { return each.LowEntropy })
	places := make([]span, 0, len(secrets))
	for _, each := range inOrder(secrets) {
		places = append(places, span{each.Start, each.End})
	}
	return places
}

// matchRuleAt runs a rule on the neighbourhood of its keywords, each piece of text once.
func (s *scan) matchRuleAt(rule *externalRule, hits []ruleHit) {
	start, end := -1, -1
	for _, hit := range hits {
		if !s.worthwhile(rule, hit.position) {
			continue
		}
		from, to := s.neighbourhood(rule, hit.position)
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
	reach := min(rule.reach, ruleReach)
	for _, run := range s.runsFrom(position - reach) {
		if run.start > position+reach {
			return false
		}
		if position-run.start > reach && run.end-position > reach {
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
		return s.coveredByOwn(run)
	}
	for index := range s.found {
		if s.found[index].Start <= run.start && s.found[index].End >= run.end && !s.found[index].LowEntropy {
			return true
		}
	}
	return false
}

// coveredByOwn answers for many findings, by those that the first pass made.
func (s *scan) coveredByOwn(run span) bool {
	behind, _ := slices.BinarySearchFunc(s.own, run.start+1, func(found span, at int) int { return found.start - at })
	return behind > 0 && s.own[behind-1].end >= run.end
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
func (s *scan) neighbourhood(rule *externalRule, position int) (int, int) {
	if len(s.text) <= 2*ruleReach {
		return 0, len(s.text)
	}
	from, to := max(0, position-min(rule.reach, ruleReach)), min(len(s.text), position+min(rule.reach, 4*ruleReach))
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
	if !s.goOn(len(piece)) {
		return
	}
	pattern := rule.patternFor(piece)
	if pattern == nil || !s.goOn(stepsOfPattern*len(piece)) {
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
		if rule.generic && !acceptGeneric(piece[max(0, match[0]-genericReach):start], secret) || rule.password && !acceptQuotedPassword(secret) {
			continue
		}
		if (isDigest(secret) || isUUID(secret)) && hasWord(nameBefore(piece[:start]), thingWords) {
			continue // a commit of that vendor's
		}
		if !s.goOn(stepsOfMatch) {
			return
		}
		if rule.allows(piece, match[0], match[1], secret) {
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
