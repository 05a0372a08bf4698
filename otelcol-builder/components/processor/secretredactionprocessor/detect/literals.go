package detect

import "strings"

const (
	fallbackReach     = 96
	fewestSeedWords   = 12
	mostSeedWords     = 24
	longestSeedPhrase = 300
	longestSeedWord   = 8
	longestTelegram   = 35
	handlerSeed       = 8
)

// fallback finds the literal that stands in for an expression: os.environ.get("KEY") or "literal".
func (s *scan) fallback(found value) (value, bool) {
	start := found.start
	if found.quoted {
		start = found.end
	}
	if found.separator != assigned || found.quoted && found.next != ')' {
		return value{}, false
	}
	line := s.text[start:min(len(s.text), start+fallbackReach)]
	if end := strings.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	for _, operator := range []string{" or ", "||", "??", "?:"} {
		place := strings.Index(line, operator)
		if place < 0 {
			continue
		}
		at := s.skipSpaces(start+place+len(operator), 2)
		if at < len(s.text) && (s.text[at] == '"' || s.text[at] == '\'' || s.text[at] == '`') {
			literal := s.readQuoted(at, "")
			return literal, literal.end > literal.start
		}
	}
	return value{}, false
}

// accountPair masks the second string of a pair of user and password: auth=("user", "password").
func (s *scan) accountPair(_, end int) {
	if s.text[end-1] == '(' && end > 3 && (strings.EqualFold(s.text[end-3:end], "on(") || strings.EqualFold(s.text[end-3:end], "ry(")) { // getConnection(url, user, password)
		if url, ok := s.stringAt(end); ok {
			end = url.end + 1
		}
		comma := strings.IndexByte(s.text[end:min(len(s.text), end+longestName)], ',')
		if comma < 0 {
			return
		}
		end += comma + 1
	}
	user, ok := s.stringAt(end)
	if !ok {
		return
	}
	at := s.skipSpaces(user.end+1, 2)
	if at >= len(s.text) || s.text[at] != ',' {
		return
	}
	password, ok := s.stringAt(at + 1)
	if ok && !isPath(password.text) && !strings.Contains(password.text, " ") && len(password.text) >= shortestSecret && !isPlaceholder(password.text) && maskLength(password.text) == 0 {
		s.add(password.start, password.end, classPassword)
	}
}

// stringAt reads the string literal that begins at a position, behind spaces.
func (s *scan) stringAt(position int) (value, bool) {
	at := s.skipSpaces(position, 4)
	if at >= len(s.text) || s.text[at] != '"' && s.text[at] != '\'' {
		return value{}, false
	}
	found := s.readQuoted(at, "")
	return found, found.end < len(s.text) && len(found.text) < longestName
}

// matchBotTokens masks tokens of Discord's bots, which have a form but no word: an id, a time and a code in base64; and those of
// Telegram's: an id, a colon and 34 or 35 characters.
func (s *scan) matchBotTokens() {
	for _, run := range s.runs {
		text := s.text[run.start:run.end]
		if start := run.start - 1; (len(text) == longestTelegram || len(text) == longestTelegram-1) && start > 0 && s.text[start] == ':' && looksRandom(text, longestTelegram-1) {
			digits := start
			for digits > 0 && start-digits < 11 && isDigit(s.text[digits-1]) {
				digits--
			}
			if length := start - digits; length >= 8 && length <= 10 && (digits == 0 || !isWordByte(s.text[digits-1])) {
				s.add(digits, run.end, "telegram_token")
			}
			continue
		}
		if len(text) < 58 || len(text) > 76 || strings.IndexByte("MNO", text[0]) < 0 || strings.ContainsAny(text, "+/~") {
			continue
		}
		first, rest, _ := strings.Cut(text, ".")
		second, third, found := strings.Cut(rest, ".")
		if found && len(first) >= 23 && len(first) <= 28 && len(second) == 6 && len(third) >= 27 && !strings.Contains(third, ".") && looksRandom(third, 27) {
			s.add(run.start, run.end, "discord_token")
		}
	}
}

// seedPhrase masks the words from which a wallet's keys are made.
func (s *scan) seedPhrase(start, end int) {
	if start < s.done[handlerSeed] {
		return
	}
	at, _ := s.skipClosers(end)
	for limit := min(len(s.text), at+12); at < limit && !isLower(s.text[at]); {
		at++
	}
	if strings.HasPrefix(s.text[at:], "is ") {
		at += 3
	}
	words, stop := 0, at
	for position := at; position < min(len(s.text), at+longestSeedPhrase) && words < mostSeedWords; {
		wordEnd := position
		for limit := min(len(s.text), position+longestSeedWord+1); wordEnd < limit && isLower(s.text[wordEnd]); {
			wordEnd++
		}
		if length := wordEnd - position; length < 3 || length > longestSeedWord {
			break
		}
		words++
		stop = wordEnd
		if wordEnd >= len(s.text) || s.text[wordEnd] != ' ' {
			break
		}
		position = wordEnd + 1
	}
	s.done[handlerSeed] = stop
	if words >= fewestSeedWords {
		s.add(at, stop, "seed_phrase")
	}
}
