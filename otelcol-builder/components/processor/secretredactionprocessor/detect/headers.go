package detect

import (
	"encoding/base64"
	"strings"
)

const (
	classBearer    = "bearer_token"
	classBasic     = "basic_auth"
	classCookie    = "session_cookie"
	classSignature = "signed_url"

	handlerCookie    = 4
	handlerSignature = 5
	longestHeader    = 1024
)

// tokenRun returns the end of the token characters that begin at a position, with the padding of base64.
func (s *scan) tokenRun(position int) int {
	position = s.tokens.endOf(s.text, position, isTokenByte)
	for range 2 {
		if position < len(s.text) && s.text[position] == '=' {
			position++
		}
	}
	return position
}

func isTokenByte(character byte) bool { return byteClass[character]&valueByte != 0 }

// bearer finds the token after "Bearer ".
func (s *scan) bearer(start, end int) {
	at := s.skipSpaces(end, 4)
	if at == end && (at >= len(s.text) || s.text[at] != '=' && s.text[at] != ':') {
		return
	}
	for at < len(s.text) && strings.IndexByte("=: \"'", s.text[at]) >= 0 && at < end+8 {
		at++
	}
	stop := s.tokenRun(at)
	token := s.text[at:stop]
	if s.isHeaderValue(start) && len(token) >= 8 && !isPlaceholder(token) && !isWordLike(token) || looksRandom(token, 16) && !isUUIDOrVersion(token) || isUUID(token) {
		s.add(at, stop, classBearer)
	}
}

func isUUIDOrVersion(token string) bool {
	return strings.Count(token, ".") > 3 && !strings.Contains(token, "_")
}

// isHeaderValue says whether a scheme such as Bearer follows the name of a header.
func (s *scan) isHeaderValue(start int) bool {
	before := s.text[max(0, start-24):start]
	before = strings.TrimRight(before, " \"'=>:(,\\[")
	return len(before) >= 13 && strings.EqualFold(before[len(before)-13:], "authorization")
}

// basic finds the credentials after "Basic ": base64 of a user, a colon and a password.
func (s *scan) basic(_, end int) {
	at := s.skipSpaces(end, 4)
	if at == end {
		return
	}
	stop := s.tokenRun(at)
	token := s.text[at:stop]
	decoded, ok := decodeBase64(token)
	if len(token) >= 8 && ok && strings.ContainsRune(decoded, ':') && isPrintable(decoded) && !isPlaceholder(token) {
		s.add(at, stop, classBasic)
	}
}

// authorization finds the credentials of schemes other than Bearer and Basic, and bare ones.
func (s *scan) authorization(_, end int) {
	at, _ := s.skipClosers(end)
	at = s.skipSpaces(at, 4)
	if at >= len(s.text) || s.text[at] != ':' && s.text[at] != '=' && s.text[at] != ',' {
		return
	}
	at++
	for limit := min(len(s.text), at+8); at < limit && strings.IndexByte(" \t\"'\\`>=[", s.text[at]) >= 0; {
		at++
	}
	line := s.text[at:min(len(s.text), at+longestHeader)]
	if stop := strings.IndexAny(line, "\r\n"); stop >= 0 {
		line = line[:stop]
	}
	if !s.goOn(len(line)) {
		return
	}
	for _, field := range []string{"Signature=", "signature=", "response=", "token=", "Token ", "token ", "ApiKey ", "apikey ", "GenieKey ", "SSWS ", "OAuth ", "Key ", "key ", "Splunk ", "Api-Token ", "Zoho-oauthtoken ", "MAC id=", "Discogs token="} {
		place := strings.Index(line, field)
		if place < 0 || place > 0 && isAlnum(line[place-1]) {
			continue
		}
		from := at + place + len(field)
		for from < len(s.text) && (s.text[from] == '"' || s.text[from] == '\'' || s.text[from] == ' ') {
			from++
		}
		stop := s.tokenRun(from)
		if token := s.text[from:stop]; len(token) >= 8 && looksRandom(token, 8) || isUUID(token) {
			s.add(from, stop, classSecret)
		}
	}
	stop := s.tokenRun(at)
	if token := s.text[at:stop]; looksRandom(token, 16) || isUUID(token) {
		s.add(at, stop, classSecret)
	}
}

var sessionWords = []string{"sess", "sid", "token", "auth", "jwt", "csrf", "xsrf", "remember", "login", "identity", "ticket", "aspx", "key", "secret"}

// cookie finds the values of session cookies in a Cookie or Set-Cookie header.
func (s *scan) cookie(start, end int) {
	if start < s.done[handlerCookie] {
		return // in a value of the header before
	}
	at, _ := s.skipClosers(end)
	if at >= len(s.text) || s.text[at] != ':' && s.text[at] != '=' {
		return
	}
	at++
	limit := min(len(s.text), at+4096)
	for at < limit {
		for at < limit && strings.IndexByte(" \t;\"'\\", s.text[at]) >= 0 {
			at++
		}
		nameEnd := at
		for nameEnd < limit && strings.IndexByte("=;\r\n\"' ,", s.text[nameEnd]) < 0 {
			nameEnd++
		}
		s.done[handlerCookie] = nameEnd
		if nameEnd >= limit || s.text[nameEnd] != '=' {
			return
		}
		stop := nameEnd + 1
		for stop < limit && strings.IndexByte(";\r\n\"' ,\\", s.text[stop]) < 0 {
			stop++
		}
		s.cookieValue(s.text[at:nameEnd], nameEnd+1, stop)
		at = stop
		s.done[handlerCookie] = stop
		if at < limit && s.text[at] != ';' {
			return
		}
	}
}

func (s *scan) cookieValue(name string, start, end int) {
	text := s.text[start:end]
	lowered := strings.ToLower(name)
	if looksRandom(text, 20) && !strings.HasPrefix(lowered, "_ga") {
		s.add(start, end, classCookie)
		return
	}
	for _, word := range sessionWords {
		if strings.Contains(lowered, word) && (looksRandom(text, 8) || isUUID(text)) {
			s.add(start, end, classCookie)
			return
		}
	}
}

// signedURL finds the signature in the query of a pre-signed address.
func (s *scan) signedURL(start, end int) {
	if start == 0 || start < s.done[handlerSignature] || s.text[start-1] != '?' && s.text[start-1] != '&' && s.text[start-1] != ';' && s.text[start-1] != '-' {
		return
	}
	stop := end
	for stop < len(s.text) && (byteClass[s.text[stop]]&valueByte != 0 || s.text[stop] == '%' || s.text[stop] == '=') {
		stop++
	}
	s.done[handlerSignature] = stop
	if text := s.text[end:stop]; looksRandom(text, 16) {
		s.add(end, stop, classSignature)
	}
}

// accessCode finds the key of a function in the cloud, or a code to exchange for a token, in the query of an address.
func (s *scan) accessCode(start, end int) {
	stop := s.tokenRun(end)
	if start > 0 && (s.text[start-1] == '?' || s.text[start-1] == '&') && stop-end >= 40 && looksRandom(s.text[end:stop], 40) {
		s.add(end, stop, classSignature)
	}
}

func decodeBase64(text string) (string, bool) {
	trimmed := strings.TrimRight(text, "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(trimmed, "-_") {
		encoding = base64.RawURLEncoding
	}
	decoded, err := encoding.DecodeString(trimmed)
	return string(decoded), err == nil
}

// isPrintable says whether a decoded text is text: ASCII but for a few bytes.
func isPrintable(text string) bool {
	for position := range len(text) {
		if character := text[position]; character < 0x20 && !isSpace(character) || character >= 0x7f {
			return false
		}
	}
	return text != ""
}
