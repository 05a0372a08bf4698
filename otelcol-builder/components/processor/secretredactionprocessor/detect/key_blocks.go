package detect

import "strings"

const (
	classPrivateKey   = "private_key"
	longestKeyBlock   = 64 << 10
	shortestKeyBlock  = 40 // characters of base64
	handlerKeyBlock   = 1
	handlerWebKey     = 2
	handlerElements   = 3
	handlerLines      = 7
	longestBlockLabel = 64
)

// keyBlock masks from -----BEGIN … PRIVATE KEY to its end, however its lines are broken.
func (s *scan) keyBlock(start, end int) {
	if start < s.done[handlerKeyBlock] {
		return
	}
	label := s.text[end:min(len(s.text), end+longestBlockLabel)]
	stop := strings.Index(label, "--")
	if stop < 0 || !isSecretLabel(strings.ToUpper(label[:stop])) {
		return
	}
	body := end + stop
	block := s.text[body:min(len(s.text), body+longestKeyBlock)]
	length := s.ends.next(s.text, "-END ", body)
	if spaced := s.spacedEnds.next(s.text, "- END ", body); spaced >= 0 && (length < 0 || spaced+1 < length) {
		length = spaced + 1
	}
	if length -= body - 1; length < 0 || length > len(block) {
		length = openBlock(block)
	}
	if countBase64(block[:length]) < shortestKeyBlock {
		return
	}
	finish := body + length
	if tail := s.text[finish:min(len(s.text), finish+longestBlockLabel+16)]; strings.HasPrefix(tail, "END ") {
		finish += blockTail(tail)
	}
	s.done[handlerKeyBlock] = finish
	s.add(start, finish, classPrivateKey)
}

// isSecretLabel says whether a block of this label is a secret: a private key, or one that both sides share.
func isSecretLabel(label string) bool {
	for _, words := range []string{"PRIVATE", "STATIC KEY", "SECRET KEY", "SHARED KEY"} {
		if strings.Contains(label, words) {
			return true
		}
	}
	return false
}

// openBlock returns where a block without an end marker stops: at the first character that no key block has.
func openBlock(block string) int {
	for position := range len(block) {
		character := block[position]
		if !isAlnum(character) && !isSpace(character) && strings.IndexByte("+/=-\\:,", character) < 0 {
			return position
		}
	}
	return len(block)
}

// blockTail returns the length of "END … KEY-----".
func blockTail(tail string) int {
	position := 4
	for position < len(tail) && (isAlnum(tail[position]) || tail[position] == ' ') {
		position++
	}
	for position < len(tail) && tail[position] == '-' {
		position++
	}
	return position
}

func countBase64(text string) int {
	count := 0
	for position := range len(text) {
		if character := text[position]; isAlnum(character) || character == '+' || character == '/' {
			count++
		}
	}
	return count
}

// linesAfter masks the lines of base64 that follow a marker line, as in PuTTY's and minisign's files.
func (s *scan) linesAfter(start, end int) {
	if start < s.done[handlerLines] {
		return
	}
	position := end
	for position < len(s.text) && s.text[position] != '\n' && s.text[position] != '\\' && position < end+24 {
		position++
	}
	for position < len(s.text) && (isSpace(s.text[position]) || s.text[position] == '\\' || s.text[position] == 'n' && s.text[position-1] == '\\' || s.text[position] == 'r' && s.text[position-1] == '\\') {
		position++
	}
	stop := position
	limit := min(len(s.text), position+longestKeyBlock)
	for stop < limit && (isAlnum(s.text[stop]) || isSpace(s.text[stop]) || strings.IndexByte("+/=\\", s.text[stop]) >= 0) {
		stop++
	}
	s.done[handlerLines] = stop
	if marker := strings.Index(s.text[position:stop], "Private"); marker > 0 {
		stop = position + marker
	}
	if countBase64(s.text[position:stop]) >= shortestKeyBlock {
		s.add(position, stop, classPrivateKey)
	}
}

// encryptedLines masks the lines of digits that follow the header of a file that Ansible encrypted.
func (s *scan) encryptedLines(_, end int) {
	line := strings.IndexByte(s.text[end:min(len(s.text), end+longestBlockLabel)], '\n')
	if line < 0 {
		return
	}
	start := end + line + 1
	stop := start
	for limit := min(len(s.text), start+longestKeyBlock); stop < limit && (isHex(s.text[stop]) || isSpace(s.text[stop])); {
		stop++
	}
	if countBase64(s.text[start:stop]) >= shortestKeyBlock {
		s.add(start, stop, classPrivateKey)
	}
}

// unsealKey masks a part of the key that opens a vault: Unseal Key 1: ….
func (s *scan) unsealKey(_, end int) {
	line := s.text[end:min(len(s.text), end+8)]
	colon := strings.IndexByte(line, ':')
	if colon < 0 {
		return
	}
	start := s.skipSpaces(end+colon+1, 2)
	if stop := s.tokenRun(start); looksRandom(s.text[start:stop], 32) {
		s.add(start, stop, classPrivateKey)
	}
}

// jsonWebKey masks the private members of a JSON web key.
func (s *scan) jsonWebKey(start, end int) {
	if start < s.done[handlerWebKey] {
		return
	}
	from, to := max(0, start-4096), min(len(s.text), end+8192)
	s.done[handlerWebKey] = to
	near := s.text[from:to]
	for _, member := range []string{`"d"`, `"k"`, `"p"`, `"q"`, `"dp"`, `"dq"`, `"qi"`} {
		at := strings.Index(near, member)
		if at < 0 {
			continue
		}
		position := at + len(member)
		for position < len(near) && (isSpace(near[position]) || near[position] == ':') {
			position++
		}
		if position >= len(near) || near[position] != '"' {
			continue
		}
		stop := s.tokenRun(from + position + 1)
		if stop-(from+position+1) >= 20 {
			s.add(from+position+1, stop, classPrivateKey)
		}
	}
}

// keyElements masks the private elements of an RSA key in XML.
func (s *scan) keyElements(start, end int) {
	if start < s.done[handlerElements] {
		return
	}
	s.done[handlerElements] = end + 8192
	near := s.text[end:min(len(s.text), end+8192)]
	for _, name := range []string{"D", "P", "Q", "DP", "DQ", "InverseQ"} {
		at := strings.Index(near, "<"+name+">")
		if at < 0 {
			continue
		}
		start := end + at + len(name) + 2
		if stop := s.tokenRun(start); stop-start >= 20 {
			s.add(start, stop, classPrivateKey)
		}
	}
}
