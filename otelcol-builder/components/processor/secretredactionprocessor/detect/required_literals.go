package detect

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// requiredLiteral is a text that stands in everything that a pattern matches.
type requiredLiteral struct {
	text   string // in lower case when folded
	folded bool   // in capitals or small letters
	sign   int    // where its first byte stands that has no case; -1 for nowhere
}

// requirement is texts of which at least one stands in everything that a pattern matches.
type requirement []requiredLiteral

// requirements returns what a pattern cannot match without: looking for it costs far less than trying the pattern.
func requirements(node *syntax.Regexp) []requirement {
	switch node.Op {
	case syntax.OpLiteral:
		var all []requirement
		for _, literal := range literalsOf(node.Rune, node.Flags&syntax.FoldCase != 0) {
			all = append(all, requirement{literal})
		}
		return all
	case syntax.OpCapture, syntax.OpPlus:
		return requirements(node.Sub[0])
	case syntax.OpRepeat:
		if node.Min > 0 {
			return requirements(node.Sub[0])
		}
	case syntax.OpConcat:
		var all []requirement
		for _, child := range node.Sub {
			all = append(all, requirements(child)...)
		}
		return all
	case syntax.OpAlternate:
		var any requirement
		for _, child := range node.Sub {
			all := requirements(child)
			if len(all) == 0 {
				return nil
			}
			for _, literal := range slices.MaxFunc(all, func(one, other requirement) int { return one.shortest() - other.shortest() }) {
				if !slices.Contains(any, literal) {
					any = append(any, literal)
				}
			}
		}
		return []requirement{any}
	}
	return nil
}

// shortest returns the length of the shortest text: the longer it is, the less often it stands in a text by chance.
func (r requirement) shortest() int {
	return len(slices.MinFunc(r, func(one, other requiredLiteral) int { return len(one.text) - len(other.text) }).text)
}

// isMet says whether one of the texts stands in this one.
func (r requirement) isMet(text string) bool {
	return slices.ContainsFunc(r, func(each requiredLiteral) bool { return each.standsIn(text) })
}

// literalsOf cuts a literal at what is not ASCII, and where case is ignored at letters with a form outside of ASCII, such as the long s.
func literalsOf(characters []rune, folded bool) []requiredLiteral {
	var found []requiredLiteral
	for _, piece := range strings.FieldsFunc(string(characters), func(character rune) bool {
		return character > unicode.MaxASCII || folded && unicode.SimpleFold(unicode.SimpleFold(character)) != character
	}) {
		literal := requiredLiteral{text: piece, folded: folded}
		if folded {
			literal.text = strings.ToLower(piece)
			literal.sign = strings.IndexFunc(piece, func(character rune) bool { return !unicode.IsLetter(character) })
		}
		found = append(found, literal)
	}
	return found
}

// alternative is a pattern, or one of the alternatives that a pattern consists of.
type alternative struct {
	regex    *regexp.Regexp
	required []requirement
}

// alternativesOf takes a pattern apart, unless a rule counts the groups of the whole one.
func alternativesOf(regex *regexp.Regexp, pattern *syntax.Regexp, group int) ([]alternative, error) {
	if pattern.Op != syntax.OpAlternate || group > 0 {
		return []alternative{{regex, requirements(pattern)}}, nil
	}
	var all []alternative
	for _, part := range pattern.Sub {
		regex, err := regexp.Compile(part.String())
		if err != nil {
			return nil, err
		}
		all = append(all, alternative{regex, requirements(part)})
	}
	return all, nil
}

// possibleIn says whether a text holds what the pattern cannot match without.
func (a *alternative) possibleIn(text string) bool {
	return !slices.ContainsFunc(a.required, func(each requirement) bool { return !each.isMet(text) })
}

// patternFor returns what to try on a text: nothing, or the only alternative that may match, or the whole pattern.
func (r *externalRule) patternFor(text string) *regexp.Regexp {
	var only *regexp.Regexp
	for index := range r.alternatives {
		one := &r.alternatives[index]
		if !one.possibleIn(text) {
			continue
		}
		if only != nil {
			return r.regex
		}
		only = one.regex
	}
	return only
}

// standsIn says whether a text holds the literal.
func (l *requiredLiteral) standsIn(text string) bool {
	if !l.folded {
		return strings.Contains(text, l.text)
	}
	for position := 0; position+len(l.text) <= len(text); position++ {
		if l.sign >= 0 {
			next := strings.IndexByte(text[position+l.sign:], l.text[l.sign])
			if position += max(next, 0); next < 0 || position+len(l.text) > len(text) {
				return false
			}
		}
		if lowerASCII(text[position]) == l.text[0] && strings.EqualFold(text[position:position+len(l.text)], l.text) {
			return true
		}
	}
	return false
}
