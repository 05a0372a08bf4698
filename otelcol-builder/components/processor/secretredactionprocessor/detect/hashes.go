package detect

import "strings"

const (
	classHash   = "password_hash"
	handlerHash = 6
)

// cryptHash masks a password hash in the modular form: $id$salt$hash.
func (s *scan) cryptHash(start, end int) {
	if start < s.done[handlerHash] || start > 0 && (isAlnum(s.text[start-1]) || s.text[start-1] == '$') {
		return
	}
	stop := hashEnd(s.text, end)
	s.done[handlerHash] = stop
	text := s.text[start:stop]
	if stop-end < 13 || longestPiece(text[end-start:]) < 12 || strings.Contains(strings.ToLower(text), "xxxx") || isMonotonous(text[max(0, len(text)-20):]) {
		return
	}
	s.add(start, stop, classHash)
}

func hashEnd(text string, position int) int {
	signs := "$./+=,-_@"
	if strings.HasSuffix(text[:position], "$") && (strings.Contains(text[max(0, position-12):position], "krb5") || strings.Contains(text[max(0, position-12):position], "netntlm")) {
		signs += "*:"
	}
	for position < len(text) && (isAlnum(text[position]) || strings.IndexByte(signs, text[position]) >= 0) {
		if text[position] == ',' && position+1 < len(text) && !strings.ContainsAny(text[position+1:min(len(text), position+3)], "tprmv=0123456789") {
			break
		}
		position++
	}
	for text[position-1] == '.' || text[position-1] == ',' || text[position-1] == '-' {
		position--
	}
	return position
}

// longestPiece returns the length of the longest part between dollar signs: the hash itself.
func longestPiece(text string) int {
	longest := 0
	for piece := range strings.SplitSeq(text, "$") {
		longest = max(longest, len(piece))
	}
	return longest
}

// directoryHash masks a password hash of a directory: {SSHA}….
func (s *scan) directoryHash(start, end int) {
	if stop := s.tokenRun(end); stop-end >= 16 {
		if stop < len(s.text) && s.text[stop] == '$' {
			stop = hashEnd(s.text, stop)
		}
		s.add(start, stop, classHash)
	}
	if end < len(s.text) && s.text[end] == '$' {
		if stop := hashEnd(s.text, end); stop-end >= 16 {
			s.add(start, stop, classHash)
		}
	}
}

// windowsHashes masks both hashes of a line of a Windows password dump: user:id:LM:NT:::
func (s *scan) windowsHashes(start, _ int) {
	first := start
	for range 2 {
		if first-32 < 0 || !allBytes(s.text[first-32:first], isHex) {
			return
		}
		s.add(first-32, first, classHash)
		first -= 33
		if first < 0 || s.text[first] != ':' {
			return
		}
	}
}

// deviceHash masks the encoded secret in a configuration of a network device: secret 5 …, password 7 ….
func (s *scan) deviceHash(_, end int) {
	at := s.skipSpaces(end, 2)
	if at == end || at+2 >= len(s.text) || !isDigit(s.text[at]) || s.text[at+1] != ' ' {
		return
	}
	kind := s.text[at]
	start := at + 2
	stop := start
	for stop < len(s.text) && !isSpace(s.text[stop]) && strings.IndexByte("\"'`,;", s.text[stop]) < 0 {
		stop++
	}
	text := s.text[start:stop]
	switch {
	case kind == '7' && len(text) >= 8 && len(text)%2 == 0 && allBytes(text, isHex) && isDigit(text[0]) && isDigit(text[1]):
		s.add(start, stop, classHash)
	case kind == '4' && len(text) == 43, strings.IndexByte("5689", kind) >= 0 && len(text) >= 16 && (text[0] == '$' || isAlnum(text[0])):
		s.add(start, stop, classHash)
	case kind == '0' && len(text) >= 5 && !isPlaceholder(text):
		s.add(start, stop, classPassword)
	}
}

const hashStarts = "$1$ $2a$ $2b$ $2x$ $2y$ $2$ $5$ $6$ $7$ $8$ $9$ $14$ $y$ $gy$ $md5$ $md5, $apr1$ $argon2i$ $argon2d$ $argon2id$ $p$ $h$ $s$ " +
	"$pbkdf2$ $pbkdf2-sha1$ $pbkdf2-sha256$ $pbkdf2-sha512$ $scrypt$ $s0$ $sha1$ $shiro1$ $krb5tgs$ $krb5asrep$ $krb5pa$ $netntlm$ $netntlmv2$ $bcrypt-sha256$ " +
	"$office$ $dcc2$ $mysql$ $sha512$ $sha256$ $xmpp-scram$ $episerver$ $oldoffice$ $rar5$ $7z$ $zip2$ $pdf$ $keepass$ " +
	"pbkdf2_sha256$ pbkdf2_sha1$ bcrypt_sha256$ bcrypt$$ argon2$argon2 scrypt$ pbkdf2:sha256: pbkdf2:sha1: scrypt:32768: grub.pbkdf2.sha512."

const directorySchemes = "{ssha} {ssha256} {ssha384} {ssha512} {sha} {sha256} {sha512} {smd5} {md5} {crypt} {pbkdf2} {pbkdf2-sha256} {pbkdf2-sha512} {argon2} {x-pbkdf2} {scrypt} {bcrypt} {noop-hash} {blf-crypt} {sha512-crypt}"
