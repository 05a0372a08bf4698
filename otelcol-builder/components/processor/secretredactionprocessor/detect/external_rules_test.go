package detect

import (
	"math/rand/v2"
	"regexp/syntax"
	"strings"
	"testing"
)

const samplesPerRule = 30

// TestFindsWhatTheExternalRulesDescribe makes texts from the patterns of the rules themselves: whatever a rule
// describes has to be found, in spite of the passes and gates in front of it.
func TestFindsWhatTheExternalRulesDescribe(t *testing.T) {
	d := newTestDetector(t)
	total, found := 0, 0
	for _, rule := range d.rules {
		parsed, err := syntax.Parse(rule.regex.String(), syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(7, uint64(len(rule.class))))
		missed, samples := 0, 0
		for range samplesPerRule {
			text, secret := sampleOf(parsed, rule, random)
			if secret == "" {
				continue
			}
			samples++
			if !hides(t, d, text, secret) {
				missed++
				if testing.Verbose() && missed == 1 {
					t.Logf("%s missed: %q in %q", rule.class, secret, text)
				}
			}
		}
		total += samples
		found += samples - missed
		if missed > 0 {
			t.Logf("%s: missed %d of %d", rule.class, missed, samples)
		}
	}
	if share := float64(found) / float64(total); share < 0.99 {
		t.Errorf("found %d of %d: %.4f, wanted 0.99", found, total, share)
	} else {
		t.Logf("found %d of %d", found, total)
	}
}

// sampleOf returns a text that a rule describes, and its secret; empty when chance made none that the rule accepts.
func sampleOf(parsed *syntax.Regexp, rule externalRule, random *rand.Rand) (string, string) {
	text := generate(parsed, random)
	match := rule.regex.FindStringSubmatchIndex(text)
	if match == nil || !containsKeyword(text, rule.keywords) {
		return "", ""
	}
	start, end := secretPlace(&rule, match)
	if start < 0 {
		return "", ""
	}
	secret := text[start:end]
	if rule.entropy != 0 && entropy(secret) <= rule.entropy || rule.allows(text, match[0], match[1], secret) || len(strings.TrimSpace(secret)) < shortestSecret {
		return "", ""
	}
	return text, secret
}

func containsKeyword(text string, keywords []string) bool {
	lowered := strings.ToLower(text)
	for _, keyword := range keywords {
		if strings.Contains(lowered, keyword) {
			return true
		}
	}
	return len(keywords) == 0
}

// hides says whether a secret no longer stands in the masked text.
func hides(t *testing.T, d *Detector, text, secret string) bool {
	t.Helper()
	return !strings.Contains(maskAll(t, d, "", text), secret)
}

func maskAll(t *testing.T, d *Detector, key, text string) string {
	t.Helper()
	found, err := d.Find(key, text)
	if err != nil {
		t.Fatal(err)
	}
	var result strings.Builder
	end := 0
	for _, finding := range found {
		result.WriteString(text[end:finding.Start])
		result.WriteString("[redacted:" + finding.Class + "]")
		end = finding.End
	}
	return result.String() + text[end:]
}

func newTestDetector(t testing.TB) *Detector {
	t.Helper()
	d, err := New(Config{PersonalData: []string{"email", "phone", "card", "iban"}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// generate makes a text that a pattern matches.
func generate(node *syntax.Regexp, random *rand.Rand) string {
	switch node.Op {
	case syntax.OpLiteral:
		return string(node.Rune)
	case syntax.OpCharClass:
		return string(runeOf(node.Rune, random))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return string(rune('a' + random.IntN(26)))
	case syntax.OpCapture:
		return generate(node.Sub[0], random)
	case syntax.OpStar:
		return repeat(node.Sub[0], random.IntN(3), random)
	case syntax.OpPlus:
		return repeat(node.Sub[0], 1+random.IntN(3), random)
	case syntax.OpQuest:
		return repeat(node.Sub[0], random.IntN(2), random)
	case syntax.OpRepeat:
		most := node.Max
		if most < 0 || most > node.Min+8 {
			most = node.Min + 8
		}
		return repeat(node.Sub[0], node.Min+random.IntN(most-node.Min+1), random)
	case syntax.OpConcat:
		var result strings.Builder
		for _, child := range node.Sub {
			result.WriteString(generate(child, random))
		}
		return result.String()
	case syntax.OpAlternate:
		return generate(node.Sub[random.IntN(len(node.Sub))], random)
	default:
		return ""
	}
}

func repeat(node *syntax.Regexp, times int, random *rand.Rand) string {
	var result strings.Builder
	for range times {
		result.WriteString(generate(node, random))
	}
	return result.String()
}

// runeOf picks a printable character of a class, if there is one.
func runeOf(ranges []rune, random *rand.Rand) rune {
	var choices []rune
	for index := 0; index < len(ranges); index += 2 {
		for character := max(ranges[index], ' '); character <= min(ranges[index+1], '~'); character++ {
			choices = append(choices, character)
		}
	}
	if len(choices) == 0 {
		return ranges[0]
	}
	return choices[random.IntN(len(choices))]
}
