package detect

import "strings"

// walletKey masks the private key that a wallet is made of: new Wallet("0x…").
func (s *scan) walletKey(_, end int) {
	literal, ok := s.stringAt(end)
	if text := strings.TrimPrefix(literal.text, "0x"); ok && len(text) == 64 && allBytes(text, isHex) {
		s.add(literal.start, literal.end, classPrivateKey)
	}
}

// scramHash masks the verifier of a password as PostgreSQL stores it: SCRAM-SHA-256$iterations:salt$key:key.
func (s *scan) scramHash(start, end int) {
	stop := end
	for stop < len(s.text) && (isAlnum(s.text[stop]) || strings.IndexByte("+/=:$", s.text[stop]) >= 0) {
		stop++
	}
	if stop-end >= 40 {
		s.add(start, stop, classHash)
	}
}

// labelledHash masks the digest behind the label of a password hash.
func (s *scan) labelledHash(_, end int) {
	at := end
	for at < len(s.text) && at < end+4 && !isHex(s.text[at]) {
		at++
	}
	if stop := s.tokenRun(at); stop-at == 32 && allBytes(s.text[at:stop], isHex) {
		s.add(at, stop, classHash)
	}
}

// community masks the password of a network device's management protocol.
func (s *scan) community(_, end int) {
	from, to := nextArgument(s.text[:min(len(s.text), end+80)], end)
	if text := s.text[from:to]; len(text) >= shortestSecret && text != "public" && text != "private" && !isPlaceholder(text) {
		s.add(from, to, classPassword)
	}
}

// spokenAccount masks the password of "login: user / password".
func (s *scan) spokenAccount(_, end int) {
	_, to := nextArgument(s.text[:min(len(s.text), end+64)], end)
	rest, ok := strings.CutPrefix(s.text[to:], " / ")
	if !ok {
		return
	}
	from, stop := nextArgument(s.text, len(s.text)-len(rest))
	for stop > from && strings.IndexByte(".,;)\"'", s.text[stop-1]) >= 0 {
		stop--
	}
	if stop-from <= 64 && mixedWord(s.text[from:stop]) {
		s.add(from, stop, classPassword)
	}
}

// namedID masks the credential under a name that calls it an id.
func (s *scan) namedID(_, end int) {
	at, _ := s.skipClosers(end)
	for limit := min(len(s.text), at+4); at < limit && strings.IndexByte(":= \"'", s.text[at]) >= 0; {
		at++
	}
	if stop := s.tokenRun(at); at > end && looksRandom(s.text[at:stop], 20) {
		s.add(at, stop, classSecret)
	}
}

// spareCode masks a code that stands in for a second factor: letters and digits, or groups of a few characters.
func (s *scan) spareCode(start, end int) {
	if end < len(s.text) && lowerASCII(s.text[end]) == 's' {
		end++
	}
	found, ok := s.valueAfter(start, end)
	if !ok || found.separator != assigned || len(found.text) < 8 || len(found.text) > longestJudged || isPlaceholder(found.text) || isPath(found.text) {
		return
	}
	counted := shapeOf(found.text)
	if counted.other == 0 && counted.digits > 0 && (counted.letters() > 0 || counted.separators > 0) {
		s.add(found.start, found.end, classSecret)
	}
}
