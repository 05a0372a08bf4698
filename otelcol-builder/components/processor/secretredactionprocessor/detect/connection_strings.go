package detect

import "strings"

const (
	classURL       = "url_credentials"
	longestAccount = 1024
)

// address looks behind "://" for a user and a password.
func (s *scan) address(start, end int) {
	if start == 0 || !isAlnum(s.text[start-1]) {
		return
	}
	limit := min(len(s.text), end+longestAccount)
	at, colon := -1, -1
	for position := end; position < limit; position++ {
		character := s.text[position]
		if isSpace(character) || strings.IndexByte("\"'`<>\\", character) >= 0 || character == '/' && (colon < 0 || at >= 0) || character == '?' && at >= 0 {
			break
		}
		if character == '/' && !strings.Contains(s.text[position:min(limit, position+80)], "@") {
			break
		}
		if character == ':' && colon < 0 {
			colon = position
		}
		if character == '@' {
			at = position
			if colon >= 0 && position+1 < limit && isHostStart(s.text[position+1]) && !s.moreAccount(position+1, limit) {
				break
			}
		}
	}
	if at < 0 || at+1 >= len(s.text) || !isHostStart(s.text[at+1]) && s.text[at+1] != '/' && s.text[at+1] != ':' {
		return
	}
	if colon < 0 || colon > at {
		if token := s.text[end:at]; looksRandom(token, 16) {
			s.add(end, at, classURL)
		}
		return
	}
	s.accountPassword(end, colon, at)
}

// moreAccount says whether another @ follows before the host ends, as in a password that holds one.
func (s *scan) moreAccount(position, limit int) bool {
	for ; position < limit; position++ {
		switch character := s.text[position]; {
		case character == '@':
			return true
		case !isAlnum(character) && character != '-' && character != '.' && strings.IndexByte("!#$%&*^_+", character) < 0:
			return false
		}
	}
	return false
}

func isHostStart(character byte) bool {
	return isAlnum(character) || character == '[' || character == '$' || character == '('
}

func (s *scan) accountPassword(start, colon, at int) {
	user, password := s.text[start:colon], s.text[colon+1:at]
	if password == "" || maskLength(password) > 0 || isPlaceholder(password) || strings.ContainsAny(password, "{}<>") {
		return
	}
	if allBytes(password, isDigit) && len(password) <= 5 && strings.Contains(user, ".") {
		return // a host and a port
	}
	if s.text[at+1] == '/' && !looksRandom(password, 10) {
		return // no host: a path in a notation of its own
	}
	if strings.HasPrefix(s.text[at+1:], "example.") && len(password) < 10 && !mixedWord(password) {
		return // documentation
	}
	s.add(colon+1, at, classURL)
	if looksRandom(user, 20) && !isWordLike(user) {
		s.add(start, colon, classURL)
	}
}

// accountBefore finds the password in connection strings without a scheme: user:password@tcp(host)/db of Go, and
// user/password@//host of Oracle.
func (s *scan) accountBefore(at, _ int) {
	start := at
	for limit := max(0, at-longestName); start > limit && !isSpace(s.text[start-1]) && strings.IndexByte("\"'`<>=,", s.text[start-1]) < 0; {
		start--
	}
	account := s.text[start:at]
	sign := ":"
	if s.text[at+1] == '/' {
		sign = "/"
	}
	user, password, found := strings.Cut(account, sign)
	if found && user != "" && isIdentifier(user) && len(password) >= shortestSecret && !strings.HasPrefix(password, "/") && !isPlaceholder(password) {
		s.add(at-len(password), at, classURL)
	}
}

// oracle finds the password in jdbc:oracle:thin:user/password@host.
func (s *scan) oracle(_, end int) {
	limit := min(len(s.text), end+128)
	slash := -1
	for position := end; position < limit && !isSpace(s.text[position]); position++ {
		if s.text[position] == '/' && slash < 0 {
			slash = position
		}
		if s.text[position] == '@' {
			if slash > end && position > slash+1 && !isPlaceholder(s.text[slash+1:position]) {
				s.add(slash+1, position, classURL)
			}
			return
		}
	}
}
