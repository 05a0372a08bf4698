package detect

import "strings"

const (
	longestValue  = 4096
	longestBare   = 2048
	handlerAssign = 0
	mostGapBytes  = 24
	classPassword = "password"
	classSecret   = "secret"
	classWeak     = "generic_secret"
	// assignmentHint are what names of secrets hold, in lower case; "ароль" is the end of a Russian word whose capital is not folded.
	assignmentHint = "password passwd passwort passphrase passcode passwrd kennwort contrasena senha motdepasse wachtwoord " +
		"contraseña ароль 密码 密碼 口令 パスワード 비밀번호 密钥 密鑰 秘钥 私钥 令牌 apiキー トークン geheimnis schlüssel schluessel " +
		"pwd pass psw secret token key auth credential creds apikey nonce license signature jwt session cookie dsn webhook sas pat crumb pw psk salt pincode pin_code cvv"
)

// assignment looks at a word such as "password" for a name and a value after it.
func (s *scan) assignment(start, end int) {
	if start < s.done[handlerAssign] {
		return
	}
	nameStart, nameEnd := s.nameAround(start, end)
	s.done[handlerAssign] = nameEnd
	if !s.goOn(stepsOfName) {
		return
	}
	name := s.text[nameStart:nameEnd]
	power := nameStrength(s.text[s.spokenName(nameStart, name):nameEnd])
	if power == noSecret {
		return
	}
	found, ok := s.valueAfter(nameStart, nameEnd)
	if ok && found.reach == s.refused && found.reach-found.start > longestJudged {
		return // the end of a long value that was none
	}
	ok = ok && (!found.below || found.quoted || found.next == 0 || found.next == '\n' || found.next == '\r')
	if ok && !acceptValue(power, name, found) {
		s.refused = found.reach
		found, ok = s.fallback(found)
		ok = ok && acceptValue(power, name, found)
	}
	if !ok {
		s.table(nameStart, nameEnd)
		return
	}
	s.add(found.start, found.end, classOfName(power))
	s.done[handlerAssign] = max(s.done[handlerAssign], found.end)
}

func classOfName(power strength) string {
	switch power {
	case passwordName:
		return classPassword
	case weakName:
		return classWeak
	default:
		return classSecret
	}
}

// nameAround widens a word to the whole name it stands in.
func (s *scan) nameAround(start, end int) (int, int) {
	for limit := max(0, start-longestName); start > limit && isNameByte(s.text[start-1]); {
		start--
	}
	for limit := min(len(s.text), end+longestName); end < limit && isNameByte(s.text[end]); {
		end++
	}
	for start < end && !isWordByte(s.text[start]) {
		start++
	}
	for end > start && !isWordByte(s.text[end-1]) {
		end--
	}
	return start, end
}

// spokenName widens "key" and the like by the word before: "api key: …" in a sentence.
func (s *scan) spokenName(start int, name string) int {
	if len(name) > len("secret") || start < 3 || s.text[start-1] != ' ' || !isLetter(s.text[start-2]) {
		return start
	}
	for at := start - 1; ; at-- {
		if at == 0 || start-at > 20 || !isAlnum(s.text[at-1]) {
			return at
		}
	}
}

func isNameByte(character byte) bool {
	return isWordByte(character) || character == '-' || character == '.'
}

// separator says what stands between a name and its value.
type separator uint8

const (
	assigned separator = iota // =, :, =>, := and the like
	called                    // ("value") or , "value"
	element                   // <name>value</name>
	flagged                   // --name value
	spaced                    // NAME value
	spoken                    // name is value
)

// value is what was found after a name.
type value struct {
	text       string
	start, end int
	separator  separator
	quoted     bool
	closed     bool // the closing quote was found
	afterLogin bool // in a line of .netrc: login name password value
	tight      bool // no space around the separator
	below      bool // on the line after the name
	next       byte // what follows the value
	reach      int  // where the run of characters ends that the value was taken from, however long
}

// valueAfter parses what follows a name; false when it is no assignment.
func (s *scan) valueAfter(nameStart, nameEnd int) (value, bool) {
	position, quoted := s.skipClosers(nameEnd)
	at, kind, tight, ok := s.separatorAt(nameStart, nameEnd, position, quoted)
	if !ok {
		return value{}, false
	}
	if kind == called && !s.quoteWithin(at) {
		return value{}, false
	}
	below := false
	if kind == assigned {
		at, below = s.valueBegins(at)
	}
	found := s.readValue(at, kind)
	found.separator, found.tight, found.below = kind, tight && !below, below
	if kind == spaced {
		found.afterLogin = strings.Contains(s.text[max(0, nameStart-80):nameStart], "login ")
	}
	return found, found.end > found.start
}

// skipClosers skips the quotes and brackets that end a name.
func (s *scan) skipClosers(position int) (int, bool) {
	quoted := false
	for limit := min(len(s.text), position+6); position < limit; position++ {
		switch s.text[position] {
		case '"', '\'', '`':
			quoted = true
		case '\\', ']', '*':
		default:
			return position, quoted
		}
	}
	return position, quoted
}

func (s *scan) skipSpaces(position, most int) int {
	for limit := min(len(s.text), position+most); position < limit && (s.text[position] == ' ' || s.text[position] == '\t'); {
		position++
	}
	return position
}
