package detect

import (
	"path/filepath"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	gitleaks "github.com/zricethezav/gitleaks/v8/config"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/suite"
)

func suiteTexts(t *testing.T) []string {
	t.Helper()
	var texts []string
	for _, name := range []string{"secrets.jsonl", "look_alikes.jsonl"} {
		err := suite.Each(filepath.Join("..", "testdata", name), nil, func(_ string, line suite.Example) error {
			texts = append(texts, line.Text)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

func gitleaksRules(t *testing.T) []gitleaks.Rule {
	t.Helper()
	parsed, err := parseRules(gitleaks.DefaultConfig)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(parsed.GetOrderedRules(), func(rule gitleaks.Rule) bool { return rule.Regex == nil })
}

// captures returns what the groups of all matches hold.
func captures(regex *regexp.Regexp, text string) [][]string {
	var groups [][]string
	for _, match := range regex.FindAllStringSubmatch(text, -1) {
		groups = append(groups, match[1:])
	}
	return groups
}

func TestAPatternWithoutItsLeadCapturesTheSame(t *testing.T) {
	texts, cut := suiteTexts(t), 0
	for _, rule := range gitleaksRules(t) {
		pattern, err := syntax.Parse(rule.Regex.String(), syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		short, err := withoutLead(rule.Regex, pattern)
		if err != nil {
			t.Fatal(err)
		}
		if short == rule.Regex {
			continue
		}
		cut++
		for _, text := range texts {
			if slices.ContainsFunc(rule.Keywords, func(word string) bool { return strings.Contains(strings.ToLower(text), word) }) &&
				!reflect.DeepEqual(captures(rule.Regex, text), captures(short, text)) {
				t.Errorf("%s captures other things in %q", rule.RuleID, text)
			}
		}
	}
	if cut < 80 {
		t.Errorf("%d patterns have lost a lead", cut)
	}
}

func TestAllowlistsTakenApartAllowTheSame(t *testing.T) {
	texts := suiteTexts(t)
	for _, rule := range gitleaksRules(t) {
		lists, err := newAllowlists(rule.Allowlists)
		if err != nil {
			t.Fatal(err)
		}
		for index, list := range lists {
			for number := index; number < len(texts); number += 5 {
				if text := texts[number]; list.matches(text) != list.RegexAllowed(text) {
					t.Errorf("allowlist %d of %s judges %q in another way", index, rule.RuleID, text)
				}
			}
		}
	}
}

func TestALeadStaysWhereTheWholeMatchMayBeTheSecret(t *testing.T) {
	for pattern, stays := range map[string]bool{`[a-z]{0,5}?(?:one(two)?)`: true, `[a-z]{0,5}?one`: true, `[a-z]{0,5}?one(two)`: false} {
		regex := regexp.MustCompile(pattern)
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if short, err := withoutLead(regex, parsed); err != nil || (short == regex) != stays {
			t.Errorf("%s becomes %s (%v)", pattern, short, err)
		}
	}
}

func TestTheLongestMatchOfAPattern(t *testing.T) {
	for pattern, want := range map[string]int{
		`abc`: 12, `[a-c]{2,5}`: 5, `a?(?:b|cd)`: 12, `a+`: anyReach, `[a-c]{3,}`: anyReach, `\bx$`: 4, `.{0,3}`: 12,
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if got := longestMatch(parsed); got != want {
			t.Errorf("%s: %d, want %d", pattern, got, want)
		}
	}
}
