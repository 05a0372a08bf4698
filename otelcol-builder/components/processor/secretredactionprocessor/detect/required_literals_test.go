package detect

import (
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

// otherCase writes some letters of a text in their other forms, also in those outside of ASCII.
func otherCase(text string, random *rand.Rand) string {
	forms := map[rune]string{'s': "sSſ", 'S': "sSſ", 'k': "kK\u212a", 'K': "kK\u212a"}
	return strings.Map(func(character rune) rune {
		if all := []rune(forms[character]); len(all) > 0 {
			return all[random.IntN(len(all))]
		}
		if character < 128 && isLetter(byte(character)) && random.IntN(2) == 0 {
			return character ^ 0x20
		}
		return character
	}, text)
}

func TestAPatternFindsTheSameWithItsLiteralsLookedForFirst(t *testing.T) {
	d := newTestDetector(t)
	random := rand.New(rand.NewPCG(11, 12))
	patterns := 0
	for _, rule := range d.rules {
		parsed, err := syntax.Parse(rule.regex.String(), syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		for range samplesPerRule {
			text := generate(parsed, random)
			for _, each := range []string{text, otherCase(text, random)} {
				checkSecrets(t, &rule, each)
			}
		}
		if len(rule.alternatives[0].required) > 0 {
			patterns++
		}
	}
	if patterns*10 < len(d.rules)*9 {
		t.Errorf("only %d of %d patterns have literals", patterns, len(d.rules))
	}
}

// checkSecrets compares the secrets that a rule finds by its whole pattern with those by what is tried in its place.
func checkSecrets(t *testing.T, rule *externalRule, text string) {
	t.Helper()
	secrets := func(pattern *regexp.Regexp) (places []span) {
		if pattern == nil {
			return nil
		}
		for _, match := range pattern.FindAllStringSubmatchIndex(text, -1) {
			start, end := secretPlace(rule, match)
			places = append(places, span{start, end})
		}
		return places
	}
	if found, wanted := secrets(rule.patternFor(text)), secrets(rule.regex); !slices.Equal(found, wanted) {
		t.Errorf("%s finds %v in %q, and by its whole pattern %v", rule.class, found, text, wanted)
	}
}

func TestAPatternIsNotTriedWithoutItsLiterals(t *testing.T) {
	d := newTestDetector(t)
	for class, text := range map[string]string{
		"kubernetes_secret_yaml": "the secret key of case 3fa9c2d1b07e: token budget 410",
		"hashicorp_tf_password":  "auth token 3fa9c2d1b07e secret password credential key api client id",
	} {
		rule := d.rules[slices.IndexFunc(d.rules, func(rule externalRule) bool { return rule.class == class })]
		if rule.patternFor(text) != nil {
			t.Errorf("%s is tried on %q", class, text)
		}
	}
}

func TestRequiredLiteralsOfAPattern(t *testing.T) {
	for pattern, wanted := range map[string][]requirement{
		`ab[0-9]+cd`:        {{{text: "ab"}}, {{text: "cd"}}},
		`(?i)token:`:        {{{text: "to", folded: true, sign: -1}}, {{text: "en:", folded: true, sign: 2}}},
		`(x-){2}y?`:         {{{text: "x-"}}},
		`data:[ax]|b+data:`: {{{text: "data:"}}},
		`[Jj]ira|wiki`:      {{{text: "ira"}, {text: "wiki"}}},
		`jira|[0-9]`:        nil,
		`(abc)?[0-9]|`:      nil,
		"é key":             {{{text: "key"}}},
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if found := requirements(parsed); !slices.EqualFunc(found, wanted, slices.Equal[requirement]) {
			t.Errorf("%s needs %v, wanted %v", pattern, found, wanted)
		}
	}
}
