package detect

import (
	"regexp/syntax"
	"slices"
	"strings"

	gitleaks "github.com/zricethezav/gitleaks/v8/config"
)

// allowlist is one of gitleaks, whose patterns are taken apart: tried as one they cost half a millisecond for each match.
type allowlist struct {
	*gitleaks.Allowlist
	alternatives []alternative
}

func newAllowlists(lists []*gitleaks.Allowlist) ([]allowlist, error) {
	made := make([]allowlist, 0, len(lists))
	for _, list := range lists {
		one := allowlist{Allowlist: list}
		for _, regex := range list.Regexes {
			pattern, err := syntax.Parse(regex.String(), syntax.Perl)
			if err != nil {
				return nil, err
			}
			parts, err := alternativesOf(regex, pattern, 0)
			if err != nil {
				return nil, err
			}
			one.alternatives = append(one.alternatives, parts...)
		}
		made = append(made, one)
	}
	return made, nil
}

// matches says whether one of the patterns matches a text.
func (l *allowlist) matches(text string) bool {
	return slices.ContainsFunc(l.alternatives, func(one alternative) bool {
		return one.possibleIn(text) && one.regex.MatchString(text)
	})
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
		byPattern := list.matches(target)
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
