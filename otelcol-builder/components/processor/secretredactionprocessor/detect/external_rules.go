package detect

import (
	"fmt"
	"os"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/viper"
	gitleaks "github.com/zricethezav/gitleaks/v8/config"
)

// externalRule is a rule of gitleaks, or of a file in its format.
type externalRule struct {
	class    string
	keywords []string
	regex    *regexp.Regexp
	group    int
	entropy  float64
	shortest int // bytes that its secret has at least
	reach    int // how far from its keyword a match of it may begin or end
	generic  bool
	password bool // its secret is whatever stands between quotes
	// anyCharacter: its secret may hold signs, so that no run of token characters tells where one is.
	anyCharacter bool
	alternatives []alternative
	allowlists   []allowlist
}

var (
	loadedMutex sync.Mutex
	loadedRules = map[string][]externalRule{}
)

// loadExternalRules reads the rules of a file, or the built-in ones. The same content is compiled once per process.
func loadExternalRules(file string) ([]externalRule, error) {
	content := gitleaks.DefaultConfig
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("rules_file cannot be read: %w", err)
		}
		content = string(raw)
	}
	loadedMutex.Lock()
	defer loadedMutex.Unlock()
	if rules, ok := loadedRules[content]; ok {
		return rules, nil
	}
	parsed, err := parseRules(content)
	if err != nil {
		return nil, fmt.Errorf("rules_file %q: %w", file, err)
	}
	rules, err := convertRules(parsed)
	if err != nil {
		return nil, fmt.Errorf("rules_file %q: %w", file, err)
	}
	loadedRules[content] = rules
	return rules, nil
}

// parseRules reads TOML in gitleaks' format. Gitleaks counts extensions in a global that is never counted down, so
// that a second detector would lose its base rules in silence: "extend" is resolved here.
func parseRules(content string) (parsed gitleaks.Config, err error) {
	defer func() {
		if reason := recover(); reason != nil { // gitleaks compiles the patterns with MustCompile
			err = fmt.Errorf("a pattern cannot be compiled: %v", reason)
		}
	}()
	reader := viper.New()
	reader.SetConfigType("toml")
	if err := reader.ReadConfig(strings.NewReader(content)); err != nil {
		return parsed, fmt.Errorf("not readable as TOML: %w", err)
	}
	var raw gitleaks.ViperConfig
	if err := reader.Unmarshal(&raw); err != nil {
		return parsed, fmt.Errorf("not in gitleaks' format: %w", err)
	}
	extend := raw.Extend
	raw.Extend = gitleaks.Extend{}
	if extend.Path != "" || extend.URL != "" {
		return parsed, fmt.Errorf("extend.path and extend.url are not supported: use extend.useDefault, or one file")
	}
	parsed, err = raw.Translate()
	if err != nil || !extend.UseDefault {
		return parsed, err
	}
	base, err := parseRules(gitleaks.DefaultConfig)
	if err != nil {
		return parsed, err
	}
	return extendRules(parsed, base, extend.DisabledRules), nil
}

// extendRules adds the base rules that are neither disabled nor replaced.
func extendRules(own, base gitleaks.Config, disabled []string) gitleaks.Config {
	left := make(map[string]bool, len(disabled))
	for _, id := range disabled {
		left[id] = true
	}
	for _, id := range base.OrderedRules {
		if _, replaced := own.Rules[id]; replaced || left[id] {
			continue
		}
		own.Rules[id] = base.Rules[id]
		own.OrderedRules = append(own.OrderedRules, id)
	}
	own.Allowlists = append(own.Allowlists, base.Allowlists...)
	return own
}

func convertRules(parsed gitleaks.Config) ([]externalRule, error) {
	var rules []externalRule
	for _, rule := range parsed.GetOrderedRules() {
		if rule.Regex == nil { // a rule about file names only
			continue
		}
		pattern, err := syntax.Parse(rule.Regex.String(), syntax.Perl)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule.RuleID, err)
		}
		allowlists, err := newAllowlists(append(append([]*gitleaks.Allowlist{}, rule.Allowlists...), parsed.Allowlists...))
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule.RuleID, err)
		}
		generic := strings.Contains(rule.RuleID, "generic")
		regex, looksAround := rule.Regex, generic || slices.ContainsFunc(allowlists, seesMore)
		if !looksAround {
			if regex, err = withoutLead(rule.Regex, pattern); err != nil {
				return nil, fmt.Errorf("rule %s: %w", rule.RuleID, err)
			}
		}
		alternatives, err := alternativesOf(regex, pattern, rule.SecretGroup)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule.RuleID, err)
		}
		reach := anyReach
		if !looksAround {
			reach = reachOf(pattern, rule.Keywords, alternatives)
		}
		rules = append(rules, externalRule{
			class:        strings.ReplaceAll(rule.RuleID, "-", "_"),
			keywords:     rule.Keywords,
			regex:        regex,
			group:        rule.SecretGroup,
			entropy:      rule.Entropy,
			shortest:     shortestCapture(pattern, rule.SecretGroup),
			reach:        reach,
			generic:      generic,
			password:     strings.Contains(rule.RuleID, "tf-password"),
			anyCharacter: capturesSigns(pattern, rule.SecretGroup) && !isEverywhere(rule.Keywords),
			alternatives: alternatives,
			allowlists:   allowlists,
		})
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("holds no rule with a pattern")
	}
	return rules, nil
}

// isEverywhere says whether a rule's keyword is a word of every training run: then a value has to stand near it.
func isEverywhere(keywords []string) bool {
	return slices.ContainsFunc(keywords, func(keyword string) bool {
		return keyword == "secret" || keyword == "password" || keyword == "key" || keyword == "token"
	})
}

// shortestCapture returns the fewest bytes that a group of a pattern matches; group 0 means any group, or all.
func shortestCapture(pattern *syntax.Regexp, group int) int {
	var lengths []int
	var visit func(node *syntax.Regexp)
	visit = func(node *syntax.Regexp) {
		if node.Op == syntax.OpCapture && (group == 0 || node.Cap == group) {
			lengths = append(lengths, shortestMatch(node.Sub[0]))
		}
		for _, child := range node.Sub {
			visit(child)
		}
	}
	visit(pattern)
	if len(lengths) == 0 {
		return shortestMatch(pattern)
	}
	shortest := lengths[0]
	for _, length := range lengths {
		shortest = min(shortest, length)
	}
	return shortest
}

// capturesSigns says whether a group of a pattern may hold signs such as "!".
func capturesSigns(pattern *syntax.Regexp, group int) bool {
	var holds func(node *syntax.Regexp, inside bool) bool
	holds = func(node *syntax.Regexp, inside bool) bool {
		inside = inside || node.Op == syntax.OpCapture && (group == 0 || node.Cap == group)
		if inside && (node.Op == syntax.OpAnyChar || node.Op == syntax.OpAnyCharNotNL || node.Op == syntax.OpCharClass && inRanges(node.Rune, '!')) {
			return true
		}
		for _, child := range node.Sub {
			if holds(child, inside) {
				return true
			}
		}
		return false
	}
	return holds(pattern, pattern.MaxCap() == 0)
}

func inRanges(ranges []rune, character rune) bool {
	for index := 0; index+1 < len(ranges); index += 2 {
		if character >= ranges[index] && character <= ranges[index+1] {
			return true
		}
	}
	return false
}

// shortestMatch returns the fewest bytes that a pattern matches.
func shortestMatch(node *syntax.Regexp) int {
	switch node.Op {
	case syntax.OpLiteral:
		return len(node.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture, syntax.OpPlus:
		return shortestMatch(node.Sub[0])
	case syntax.OpRepeat:
		return node.Min * shortestMatch(node.Sub[0])
	case syntax.OpConcat:
		total := 0
		for _, child := range node.Sub {
			total += shortestMatch(child)
		}
		return total
	case syntax.OpAlternate:
		shortest := shortestMatch(node.Sub[0])
		for _, child := range node.Sub[1:] {
			shortest = min(shortest, shortestMatch(child))
		}
		return shortest
	default:
		return 0
	}
}
