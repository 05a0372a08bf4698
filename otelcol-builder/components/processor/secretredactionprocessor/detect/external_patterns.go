package detect

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// anyReach is that of a rule whose matches may be of any length, or need not hold its keyword.
const anyReach = 1 << 20

// reachOf returns how far from a keyword a match can begin or end: with the length of its longest match a rule looks at a tenth of
// what it would look at otherwise.
func reachOf(pattern *syntax.Regexp, keywords []string, alternatives []alternative) int {
	for _, one := range alternatives {
		if !slices.ContainsFunc(one.required, func(each requirement) bool { return each.isAmong(keywords) }) {
			return anyReach
		}
	}
	return longestMatch(pattern)
}

// isAmong says whether each of the texts stands for a keyword: holds it, or lacks only its first letter, which [Gg]ithub does not
// require.
func (r requirement) isAmong(keywords []string) bool {
	return !slices.ContainsFunc(r, func(each requiredLiteral) bool {
		lowered := strings.ToLower(each.text)
		return !slices.ContainsFunc(keywords, func(keyword string) bool {
			keyword = strings.ToLower(keyword)
			return strings.Contains(lowered, keyword) || len(keyword) > 3 && lowered == keyword[1:]
		})
	})
}

// longestMatch returns the most bytes that a pattern matches, at most anyReach.
func longestMatch(node *syntax.Regexp) int {
	longest := 0
	switch node.Op {
	case syntax.OpLiteral:
		longest = utf8.UTFMax * len(node.Rune)
	case syntax.OpCharClass:
		longest = utf8.RuneLen(node.Rune[len(node.Rune)-1])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		longest = utf8.UTFMax
	case syntax.OpStar, syntax.OpPlus:
		return anyReach
	case syntax.OpRepeat:
		if node.Max < 0 {
			return anyReach
		}
		longest = node.Max * longestMatch(node.Sub[0])
	case syntax.OpAlternate:
		for _, child := range node.Sub {
			longest = max(longest, longestMatch(child))
		}
	default:
		for _, child := range node.Sub {
			longest += longestMatch(child)
		}
	}
	return min(longest, anyReach)
}

// seesMore says whether an allowlist looks at the match or its line, and not only at the secret in it.
func seesMore(list allowlist) bool { return list.RegexTarget == "match" || list.RegexTarget == "line" }

// withoutLead takes off what a pattern begins with and need not match, such as [\w.-]{0,50}? in half of gitleaks' rules. It says
// where a match begins and nothing about its groups, and costs more than all the rest of the pattern.
func withoutLead(regex *regexp.Regexp, pattern *syntax.Regexp) (*regexp.Regexp, error) {
	if !alwaysCaptures(pattern) || !cutLead(pattern) {
		return regex, nil
	}
	return regexp.Compile(pattern.String())
}

func cutLead(node *syntax.Regexp) (cut bool) {
	switch node.Op {
	case syntax.OpAlternate:
		for _, child := range node.Sub {
			cut = cutLead(child) || cut
		}
	case syntax.OpConcat:
		for len(node.Sub) > 1 && isLead(node.Sub[0]) {
			node.Sub, cut = node.Sub[1:], true
		}
	}
	return cut
}

func isLead(node *syntax.Regexp) bool {
	return node.Op == syntax.OpRepeat && node.Min == 0 && node.Flags&syntax.NonGreedy != 0 && node.Sub[0].Op == syntax.OpCharClass
}

// alwaysCaptures says whether each match has a group that holds something: then the secret is never the whole match.
func alwaysCaptures(node *syntax.Regexp) bool {
	switch node.Op {
	case syntax.OpCapture:
		return shortestMatch(node) > 0
	case syntax.OpConcat:
		return slices.ContainsFunc(node.Sub, alwaysCaptures)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(node.Sub, func(child *syntax.Regexp) bool { return !alwaysCaptures(child) })
	default:
		return false
	}
}
