package detect

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	mostJoint  = 40 // bytes between a name and its value
	nameReach  = 64 // how far before a value its name ends
	hintReach  = 96 // how far from its value a word on the same line says credential
	mostHints  = 10
	mostPoints = 5 // names that only point at the one before
)

// surroundings is what stands before a value, and behind it on its line.
type surroundings struct {
	name     string   // the nearest name, with the word before it, as people write it: "acme token"
	last     string   // the last word of the name
	alone    bool     // the name is one word
	sign     byte     // what stands between: = : | ( , a line break, or a blank
	quoted   bool     // the value is in quotes
	lone     bool     // the line is the name and the value, and nothing else
	strength strength // of the name
	hint     strength // of the other names on the line
	vendor   bool     // one of the names up to here is that of a known service
}

// surroundingsOf reads what stands around a value; false where it is the middle of something else.
func (s *scan) surroundingsOf(run span) (surroundings, bool) {
	text := s.text
	around := surroundings{}
	at := run.start
	if at > 0 && isQuote(text[at-1]) {
		around.quoted = run.end < len(text) && text[run.end] == text[at-1]
	}
	if !around.quoted && !endsValue(text, run.end) || at > 0 && text[at] == '/' && text[at-1] == ':' {
		return around, false
	}
	start, stop, sign := s.nearestName(at)
	around.sign = sign
	if around.sign == 0 {
		return around, false
	}
	name := withoutVerb(text[start:stop])
	if len(name) < stop-start {
		around.sign = ':'
	}
	around.last = lastWord(name)
	from := s.spokenName(start, name)
	if from < start && fillWords[strings.ToLower(text[from:start-1])] {
		from = start
	}
	around.name = text[from:stop]
	around.alone = from == start && strings.EqualFold(strings.TrimLeft(name, "-"), around.last) && isIdentifier(name)
	around.strength = max(nameStrength(name), nameStrength(around.name))
	around.hint, around.vendor = s.hintsBefore(stop)
	around.hint = max(around.hint, s.hintsAfter(run.end))
	if around.vendor && name == "t" || name == "k" && start > 0 && text[start-1] == '-' { // flags of many programs for a token, a key
		around.strength, around.alone = tokenName, false
	}
	around.lone = endsLine(text, run.end) && (beginsLine(text, start) || beginsLine(text, from)) && strings.EqualFold(name, around.last)
	return around, true
}

// nearestName returns the nearest name before a place that says what stands there, and the sign between the two.
func (s *scan) nearestName(at int) (int, int, byte) {
	start, stop, sign := s.nameBack(at)
	for range mostPoints {
		name := strings.ToLower(s.text[start:stop])
		if name == "" || !pointing[name] && !allBytes(name, isDigit) {
			break
		}
		if reported[name] {
			if above, below := s.lineAbove(start); above < below {
				return above, below, ':'
			}
		}
		if speaking[name] {
			sign = ':'
		}
		var before byte
		if start, stop, before = s.nameBack(start); before != 0 && before != ' ' && sign == ' ' {
			sign = before
		}
	}
	return start, stop, sign
}

// beginsLine says whether nothing but the mark of a list or a comment stands before a place on its line.
func beginsLine(text string, at int) bool {
	for limit := max(0, at-mostJoint); at > limit; at-- {
		if strings.IndexByte(" \t-*+#/;|(\"'`", text[at-1]) < 0 {
			return text[at-1] == '\n'
		}
	}
	return at == 0
}

// endsLine says whether nothing but signs stands behind a place on its line.
func endsLine(text string, at int) bool {
	for limit := min(len(text), at+mostJoint); at < limit; at++ {
		if strings.IndexByte(" \t\r*/;,|.)\"'`", text[at]) < 0 {
			return text[at] == '\n'
		}
	}
	return at == len(text)
}

// endsValue says whether a value without quotes may end here.
func endsValue(text string, end int) bool {
	if end >= len(text) || isSpace(text[end]) {
		return true
	}
	if text[end] < utf8.RuneSelf {
		return strings.IndexByte(".,;:)]}|&\"'`<\\", text[end]) >= 0
	}
	character, _ := utf8.DecodeRuneInString(text[end:])
	return !isSpacedLetter(character)
}

func isQuote(character byte) bool { return character == '"' || character == '\'' || character == '`' }

var (
	// speaking are words that say what something is, as a sign does.
	speaking = setOf("is are was be to as est es é ist lautet 是 为 為 через")
	// pointing are names that say nothing of their value: the name before them does.
	pointing = union(speaking, setOf(`with for by at in of on from the a an via mit für de do da del la le value val v input input_value provided given
		got received using use used default str string text set new old header bearer basic stringvalue secretstr assert out not params`))
)

// reported are the words of validation errors for the value of the field in the line above.
var reported = setOf("input_value given")

// lineAbove returns where the line above a place stands, if it is one name.
func (s *scan) lineAbove(at int) (int, int) {
	from := max(0, at-longestName*4)
	stop := from + strings.LastIndexByte(s.text[from:at], '\n')
	if stop < from {
		return 0, 0
	}
	for stop > from && isSpace(s.text[stop-1]) {
		stop--
	}
	start, stop := s.nameEndingAt(stop)
	if start > 0 && s.text[start-1] != '\n' {
		return 0, 0
	}
	return start, stop
}

func union(sets ...map[string]bool) map[string]bool {
	all := map[string]bool{}
	for _, set := range sets {
		for word := range set {
			all[word] = true
		}
	}
	return all
}

// nameBack returns where the nearest name before a place stands, and the sign between the two; 0 for none.
func (s *scan) nameBack(at int) (int, int, byte) {
	text, sign := s.text, byte(0)
	for limit := max(0, at-mostJoint); at > limit; {
		character, size := rune(text[at-1]), 1
		if character >= utf8.RuneSelf {
			if character, size = utf8.DecodeLastRuneInString(text[:at]); unicode.IsLetter(character) || unicode.IsMark(character) {
				break
			}
			character = '='
		} else if isWordByte(text[at-1]) || strings.IndexByte("/.@%#$&;}", text[at-1]) >= 0 && !(text[at-1] == '/' && sign == ' ' && at > 1 && text[at-2] == ' ') {
			break
		}
		at -= size
		switch character {
		case '/': // user / password
			sign = ':'
		case '=', ':', '|', '(', ',', '>', '[', '{', '\n':
			if sign == 0 || strings.IndexByte(" ([{", sign) >= 0 {
				sign = byte(character)
			}
		default:
			if sign == 0 {
				sign = ' '
			}
		}
	}
	start, stop := s.nameEndingAt(at)
	return start, stop, sign
}

// nameEndingAt returns the name that ends at a place, without signs at its beginning; letters of any script belong to it.
func (s *scan) nameEndingAt(stop int) (int, int) {
	text, at := s.text, stop
	for limit := max(0, stop-nameReach); at > limit; {
		if text[at-1] < utf8.RuneSelf {
			if !isNameByte(text[at-1]) {
				break
			}
			at--
			continue
		}
		character, size := utf8.DecodeLastRuneInString(text[:at])
		if !unicode.IsLetter(character) && !unicode.IsMark(character) {
			break
		}
		at -= size
	}
	for at < stop && !isWordByte(text[at]) {
		at++
	}
	return at, stop
}

// hintsBefore returns the best strength of the names on the line before a place, and whether one is that of a known service.
func (s *scan) hintsBefore(at int) (strength, bool) {
	best, vendor := noSecret, false
	limit := max(0, at-hintReach)
	for range mostHints {
		for at > limit && !isWordByte(s.text[at-1]) {
			if s.text[at-1] == '\n' {
				return best, vendor
			}
			at--
		}
		start, stop := s.nameEndingAt(at)
		if start == stop {
			if at <= limit {
				return best, vendor
			}
			at-- // a sign of another script
			continue
		}
		best = max(best, s.hintOf(start, stop))
		vendor = vendor || hasWord(s.text[start:stop], vendorNames)
		at = start
	}
	return best, vendor
}

// hintsAfter returns the best strength of the names on the line behind a value: assert 'value' == api_key.
func (s *scan) hintsAfter(at int) strength {
	best := noSecret
	limit := min(len(s.text), at+hintReach/2)
	for range mostHints / 2 {
		for at < limit && !isWordByte(s.text[at]) {
			if s.text[at] == '\n' {
				return best
			}
			at++
		}
		start := at
		for at < limit && isNameByte(s.text[at]) {
			at++
		}
		if at == start {
			break
		}
		best = max(best, s.hintOf(start, at))
	}
	return best
}

func (s *scan) hintOf(start, stop int) strength {
	name := s.text[start:stop]
	if bareWord(name, "pass") { // more often a verb
		return noSecret
	}
	power := nameStrength(s.text[s.spokenName(start, name):stop])
	if power == tokenName && bareWord(name, "token") { // more often one of a language model
		return weakName
	}
	for part := range strings.SplitSeq(name, ".") {
		power = max(power, nameStrength(part))
	}
	switch {
	case power < tokenName && hasWord(name, loginWords):
		return tokenName
	case power == noSecret && hasWord(name, hintWords):
		return weakName
	}
	return power
}

var (
	// loginWords speak of a credential as clearly as its name does.
	loginWords = setOf("authorization bearer oauth username login logged signin auth authenticate authenticated authentication credentials creds secrets apikeys anmeldung 登录")
	// hintWords may speak of one.
	hintWords = setOf("api access account client cli sdk tokens keys connexion vault keyring")
)

// meanCredential decides by the grade of the value, and where that may be an id by the name.
func (a surroundings) meanCredential(graded grade, text string) bool {
	things := fillWords[a.last] || isFileName(a.name) || speaksOfThings(a.name[strings.LastIndexByte(a.name, '.')+1:])
	assigned := a.quoted || a.sign != ' ' || isConstant(a.name) && strings.Contains(a.name, "_")
	switch {
	case graded == idGrade && isRequestID(a.name):
		return false
	case a.strength >= strongName:
		return graded > idGrade || assigned
	case a.strength == tokenName:
		return graded > idGrade || !things && (assigned || !a.alone || a.vendor)
	case len(text) > longestRandom || len(text) < shortestRandom || !strings.ContainsAny(text, "0123456789"):
		return false
	case loginWords[a.last]:
		return true
	case things:
		return false
	case a.strength == weakName:
		return graded >= mixedGrade || a.vendor || assigned && (graded > idGrade || !a.alone || a.hint >= tokenName)
	case a.hint >= tokenName:
		return graded >= mixedGrade || assigned
	case (a.hint == weakName || a.vendor) && graded > idGrade && assigned:
		return true
	}
	if !isBareName(a.last) || graded == idGrade {
		return false
	}
	if a.lone && graded >= mixedGrade {
		return true
	}
	return (a.quoted || a.lone) && isMachineMade(text) && (a.sign != ' ' || isUpper(a.name[0]) || a.name == a.last)
}

// isBareName says whether a word may be the name of a service.
func isBareName(word string) bool {
	return len(word) >= 2 && len(word) <= 20 && allBytes(word, isAlnum) && isLetter(word[0])
}

// speaksOfThings says whether a name is that of an id, a digest, a place or a piece of data, whose value may look random.
func speaksOfThings(name string) bool { return hasWord(name, idWords) || hasWord(name, thingWords) }

// fillWords are words of sentences and programs that name nothing.
var fillWords = setOf(`import from return assert print raise yield await def class equal equals in is and or not to with as of at by for on the a an`)

// thingWords name values that look random and are no credentials: ids, digests, encoded data, positions.
var thingWords = setOf(`accessor avatar gravatar prefix suffix commit experiment cf sha sha1 sha256 sha512 md5 blake blake3 crc oid rid uid guid pid tid nonce cursor next previous prev page pagination continuation
	offset marker after before since etag digest integrity resolved rev ref refs tag branch tree blob object parent child node edge actor task worker job run step
	session request response trace span parent correlation message msg event conversation thread turn batch group sample rollout episode trajectory prompt
	completion text content data payload body raw encoded base64 b64 bytes buffer image images img audio video pixel pixels mask frame thumbnail icon logo font
	png jpeg jpg gif svg pdf svg html css script src href link href media file filename folder path dir url uri host domain email user username account owner author
	checkpoint ckpt model tokenizer weight weights tensor shard layer param params dataset split row column cell table index bucket state seed hash hashes
	fingerprint checksum sum signature sig cert certificate pubkey public pem x509 thumbprint serial issuer subject address wallet contract tx block ip mac
	version release build label title description name alias slug title key_id kid expected actual result output input answer label
	docker container pod image layer snapshot volume instance subnet vpc cluster zone region arn namespace deployment replica service deploy
	test case example fixture golden snapshot vector vectors embedding embeddings feature features score reward metric loss
	xpath selector token_ids ids id tokens vocab merges unicode regex pattern format schema proto descriptor pickled pickle zlib gzip compressed`)
