package detect

import "strings"

// readValue reads a quoted or bare value.
func (s *scan) readValue(position int, kind separator) value {
	text := s.text
	if kind == element {
		return s.readElement(position)
	}
	position = s.skipOpeners(position)
	if position >= len(text) {
		return value{}
	}
	start := position
	escaped := 0
	for start < len(text) && text[start] == '\\' && escaped < 8 {
		start++
		escaped++
	}
	if start < len(text) && (text[start] == '"' || text[start] == '\'' || text[start] == '`') {
		return s.readQuoted(start, text[position:start])
	}
	return s.readBare(position, kind)
}

// skipOpeners skips what may stand before a string: a prefix such as b or f, a bracket, a conversion.
func (s *scan) skipOpeners(position int) int {
	text := s.text
	for range 3 {
		at := position
		for limit := min(len(text), at+24); at < limit && (isWordByte(text[at]) || text[at] == '.' || text[at] == '@' || text[at] == '$' || text[at] == ':'); {
			at++
		}
		if at < len(text) && (text[at] == '(' || text[at] == '[') && (text[at] == '(' || at == position) {
			inner := s.skipSpaces(at+1, 4)
			if inner < len(text) && (text[inner] == '"' || text[inner] == '\'' || text[inner] == '`' || isLetter(text[inner])) && s.quoteWithin(inner) {
				position = inner
				continue
			}
		}
		if at > position && at < len(text) && (text[at] == '"' || text[at] == '\'') && stringPrefixes[text[position:at]] {
			return at
		}
		return position
	}
	return position
}

// stringPrefixes stand before a string literal in some languages.
var stringPrefixes = setOf("b B r R f F u U L N rb br Rb bR RB BR fr rf u8 @ $ $@ @$ q qq")

// quoteWithin says whether a string begins here, or after a short conversion.
func (s *scan) quoteWithin(position int) bool {
	for limit := min(len(s.text), position+24); position < limit; position++ {
		switch character := s.text[position]; {
		case character == '"' || character == '\'' || character == '`':
			return true
		case !isWordByte(character) && character != '(' && character != '.' && character != ':':
			return false
		}
	}
	return false
}

// readQuoted reads up to the quote that closes; escape is the backslashes before the opening one.
func (s *scan) readQuoted(open int, escape string) value {
	quote := s.text[open]
	start := open + 1
	triple := start+1 < len(s.text) && s.text[start] == quote && s.text[start+1] == quote
	if triple {
		start += 2
	}
	limit := min(len(s.text), start+longestValue)
	end := start
	for ; end < limit; end++ {
		character := s.text[end]
		if character == '\n' && !triple && quote != '`' {
			break
		}
		if character != '\\' && character != quote {
			continue
		}
		slashes := end
		for slashes < limit && s.text[slashes] == '\\' {
			slashes++
		}
		if slashes < limit && s.text[slashes] == quote && slashes-end <= len(escape) {
			break
		}
		if character == '\\' {
			end = slashes
			if slashes-end < len(escape) {
				break
			}
		}
	}
	end = min(end, limit)
	closed := end < limit && (s.text[end] == quote || s.text[end] == '\\')
	return value{text: s.text[start:end], start: start, end: end, quoted: true, closed: closed, next: s.byteAt(end + 1), reach: end}
}

func (s *scan) readElement(position int) value {
	const cdata = "<![CDATA["
	if strings.HasPrefix(s.text[position:], cdata) {
		position += len(cdata)
	}
	for position < len(s.text) && isSpace(s.text[position]) {
		position++
	}
	limit := min(len(s.text), position+longestValue)
	reach := s.inside.endOf(s.text, position, func(character byte) bool { return character != '<' && character != '\n' })
	end := min(limit, reach)
	if close := strings.Index(s.text[position:end], "]]>"); close >= 0 {
		end = position + close
	}
	return value{text: s.text[position:end], start: position, end: end, quoted: true, reach: reach}
}

// readBare reads a value without quotes.
func (s *scan) readBare(position int, kind separator) value {
	reach := s.bareEnd(position, kind)
	end := min(reach, position+longestBare)
	for end > position && strings.IndexByte(".,:?", s.text[end-1]) >= 0 {
		end--
	}
	return value{text: s.text[position:end], start: position, end: end, next: s.byteAt(end), reach: reach}
}

// bareEnd returns where a value without quotes ends; what was found for one word holds for the words inside of its value.
func (s *scan) bareEnd(position int, kind separator) int {
	known := &s.bare[0]
	if kind == assigned {
		known = &s.bare[1]
	}
	if position >= known.start && position < known.end {
		return known.end
	}
	end := position
	for end < len(s.text) && !endsBare(s.text[end]) {
		if kind == assigned {
			character := s.text[end]
			if character == '|' || character == '&' && s.endsAtAmpersand(end) {
				break
			}
			if character == '&' && strings.HasPrefix(s.text[end:], escapedAmpersand) {
				end += len(escapedAmpersand) - 1
			}
		}
		end++
	}
	known.start, known.end = position, min(end, len(s.text))
	return known.end
}

func endsBare(character byte) bool {
	return isSpace(character) || character == escapeLead || strings.IndexByte("\"'`<>,;)]}\\", character) >= 0
}

const (
	escapedAmpersand = "&amp;"
	longestParameter = 64
	longestEscape    = 8
)

// endsAtAmpersand says whether an ampersand ends a value: nothing follows it, the next parameter of a query or form, or
// it begins an escape that stands for a quote or the like. Another one is part of the value: people choose such passwords.
func (s *scan) endsAtAmpersand(position int) bool {
	text := s.text
	after := position
	for limit := min(len(text), position+4); after < limit && text[after] == '&'; { // && of a shell
		after++
	}
	if strings.HasPrefix(text[after-1:], escapedAmpersand) {
		after += len(escapedAmpersand) - 1
	} else if isHTMLEscape(text[after-1 : min(len(text), after-1+longestEscape)]) {
		return true
	}
	if after >= len(text) || endsBare(text[after]) {
		return true
	}
	if !isLetter(text[after]) && text[after] != '_' {
		return false
	}
	for limit := min(len(text), after+longestParameter); after < limit; after++ {
		if character := text[after]; !isNameByte(character) && strings.IndexByte("[]%~$", character) < 0 {
			return character == '='
		}
	}
	return false
}

// isHTMLEscape says whether a text begins with an escape such as &quot; or &#39;.
func isHTMLEscape(text string) bool {
	end := strings.IndexByte(text, ';')
	return end > 0 && htmlEscapes[text[:end+1]] != ""
}

func (s *scan) byteAt(position int) byte {
	if position < len(s.text) {
		return s.text[position]
	}
	return 0
}
