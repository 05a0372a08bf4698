package detect

import "strings"

// separatorAt returns where the value may begin, behind the separator.
func (s *scan) separatorAt(nameStart, nameEnd, position int, quoted bool) (int, separator, bool, bool) {
	at := s.skipSpaces(position, mostGapBytes)
	if at >= len(s.text) {
		return 0, 0, false, false
	}
	spaces := at > position
	if next, ok := s.partBegins(nameStart, position); ok && quoted {
		return next, assigned, false, true
	}
	switch character := s.text[at]; character {
	case '=', ':', '|', '?', '+', '-':
		if next, ok := s.operatorEnd(at); ok {
			after := s.skipSpaces(next, mostGapBytes)
			return after, assigned, !spaces && after == next, true
		}
	case ',':
		if quoted {
			if next, ok := s.valueAttribute(at + 1); ok {
				return next, assigned, true, true
			}
			return s.skipSpaces(at+1, mostGapBytes), called, true, true
		}
	case '(':
		return at + 1, called, true, !spaces
	case 'a', 'e', 't', 'i', 'x': // an element with attributes: <password encrypted="false">value</password>
		if close := strings.IndexByte(s.text[at:min(len(s.text), at+longestName)], '>'); spaces && close > 0 && nameStart > 0 && s.text[nameStart-1] == '<' {
			return at + close + 1, element, true, true
		}
	case '>':
		named := nameStart > 1 && s.text[nameStart-1] == '<' && s.text[nameStart-2] == 'P' // (?P<name>…) of a regular expression
		if quoted || nameStart > 0 && s.text[nameStart-1] == '<' && !named {
			return at + 1, element, true, true
		}
	}
	if next, ok := s.valueAttribute(at); ok {
		return next, assigned, true, true
	}
	if !spaces || quoted {
		return 0, 0, false, false
	}
	if after, ok := strings.CutPrefix(s.text[at:], "is "); ok {
		return len(s.text) - len(after), spoken, false, true
	}
	if after := s.typeEnd(at); after > 0 { // a declaration: name type = value
		return s.skipSpaces(after, mostGapBytes), assigned, false, true
	}
	if nameStart > 0 && s.text[nameStart-1] == '-' {
		return at, flagged, false, true
	}
	return at, spaced, false, true
}

// operatorEnd reads an operator such as =, :=, =>, ||=, and a type between ':' and '='.
func (s *scan) operatorEnd(position int) (int, bool) {
	start := position
	assigns := false
	for limit := min(len(s.text), position+3); position < limit; position++ {
		character := s.text[position]
		if character == '=' || character == ':' {
			assigns = true
		} else if character != '>' && character != '|' && character != '?' && character != '+' && character != '-' || assigns && character != '>' {
			break
		}
	}
	if !assigns {
		return 0, false
	}
	if s.text[start] == ':' && position == start+1 {
		if end := s.typeEnd(position); end > 0 {
			return end, true
		}
	}
	return position, true
}

const (
	longestTypeName   = 16
	longestParameters = 24 // of a type
)

var typeNames = setOf("str string String text bytes char const Optional Option SecretStr std any Any object var let NSString NSString Secret wstring Text")

// typeEnd skips a type annotation such as "str =", and returns where the value begins, or 0.
func (s *scan) typeEnd(position int) int {
	at := s.skipSpaces(position, 2)
	wordStart := at
	for at < len(s.text) && (s.text[at] == '&' || s.text[at] == '\'') {
		at++
		wordStart = at
	}
	if strings.IndexByte(s.text[at:min(len(s.text), at+longestTypeName+longestParameters)], '=') < 0 {
		return 0
	}
	for limit := min(len(s.text), at+longestTypeName); at < limit && isWordByte(s.text[at]); {
		at++
	}
	if !typeNames[s.text[wordStart:at]] {
		return 0
	}
	for limit := min(len(s.text), at+longestParameters); at < limit; at++ {
		switch character := s.text[at]; {
		case character == '=':
			return at + 1
		case !isWordByte(character) && strings.IndexByte(" []<>|?:&*", character) < 0:
			return 0
		}
	}
	return 0
}

// valueAttribute finds the value of <add key="name" value="…">, of {"name": "name", "value": "…"} and of YAML lists.
func (s *scan) valueAttribute(position int) (int, bool) {
	at := position
	for limit := min(len(s.text), at+32); at < limit && (isSpace(s.text[at]) || strings.IndexByte(`,"'\;`, s.text[at]) >= 0); {
		at++
	}
	rest := s.text[at:]
	if len(rest) < 6 || !strings.EqualFold(rest[:5], "value") {
		return 0, false
	}
	at, _ = s.skipClosers(at + 5)
	at = s.skipSpaces(at, 4)
	if at < len(s.text) && (s.text[at] == '=' || s.text[at] == ':') {
		return s.skipSpaces(at+1, mostGapBytes), true
	}
	return 0, false
}

// partBegins finds the value of a part of a form: name="password", a blank line, the value.
func (s *scan) partBegins(nameStart, position int) (int, bool) {
	if nameStart < 6 || !strings.EqualFold(s.text[nameStart-6:nameStart-1], "name=") {
		return 0, false
	}
	for _, blank := range []string{"\r\n\r\n", "\n\n"} {
		if strings.HasPrefix(s.text[position:], blank) {
			return position + len(blank), true
		}
	}
	return 0, false
}

const (
	longestTag = 32
	mostIndent = 64
)

// valueBegins skips what may stand before a value: a tag or an anchor of YAML, the mark of a block, a line break.
func (s *scan) valueBegins(at int) (int, bool) {
	text := s.text
	for range 2 {
		if at < len(text) && (text[at] == '!' || text[at] == '&') {
			tag := text[at:min(len(text), at+longestTag)]
			if blank := strings.IndexByte(tag, ' '); blank > 1 && allBytes(tag[1:blank], func(b byte) bool { return isNameByte(b) || b == '!' }) {
				at = s.skipSpaces(at+blank, mostGapBytes)
			}
		}
	}
	next := at
	if next < len(text) && (text[next] == '|' || text[next] == '>') {
		for next++; next < len(text) && strings.IndexByte("+-123456789", text[next]) >= 0; {
			next++
		}
		next = s.skipSpaces(next, mostGapBytes)
	}
	if next >= len(text) || text[next] != '\n' && text[next] != '\r' {
		return at, false
	}
	for limit := min(len(text), next+mostIndent); next < limit && isSpace(text[next]); {
		next++
	}
	if text[next-1] == '\n' { // not deeper than its name: the next entry
		return at, false
	}
	return next, true
}
