package detect

import (
	"slices"
	"strings"
)

// Values of vendors that no table knows have no form and often no name that says what they are: the value decides.
const (
	shortestUnnamed = 16
	longestUnnamed  = 200
	shortestBare    = 20
	nameReach       = 64 // how far before a value its name ends
)

// unnamed is a value and what stands before it.
type unnamed struct {
	text   string
	name   string // the name with the word before it, as people write it: "acme token"
	last   string // the last word of the name
	sign   byte   // what stands between: = : - or a space
	quoted bool
}

// matchUnnamed masks random values behind a "token", a "key" or the bare name of something, however they are written.
func (s *scan) matchUnnamed() {
	if s.depth > 0 && len(s.runs) > mostCompared {
		return
	}
	next := 0
	findings := s.sortedFindings(true)
	for _, run := range s.runs {
		if length := run.end - run.start; length < shortestUnnamed-2 || length > longestUnnamed {
			continue
		}
		for next < len(findings) && findings[next].end <= run.start {
			next++
		}
		if next < len(findings) && findings[next].start < run.end {
			continue // found already
		}
		if !s.goOn(stepsOfLook) {
			return
		}
		if found, end, ok := s.unnamedAt(run); ok && acceptUnnamed(found) {
			s.add(run.start, end, "unnamed_credential")
		}
	}
}

// sortedFindings returns the places of what was found, in order; all, or those of secrets.
func (s *scan) sortedFindings(all bool) []span {
	places := make([]span, 0, len(s.found))
	for _, each := range s.found {
		if all || !each.LowEntropy {
			places = append(places, span{each.Start, each.End})
		}
	}
	slices.SortFunc(places, func(a, b span) int { return a.start - b.start })
	end := 0
	for index := range places { // one that lies inside of another ends where that one does
		end = max(end, places[index].end)
		places[index].end = end
	}
	return places
}

// unnamedAt reads what stands around a run of token characters: its quotes, a sign, a name.
func (s *scan) unnamedAt(run span) (unnamed, int, bool) {
	text, end := s.text, run.end
	for range 2 {
		if end < len(text) && text[end] == '=' {
			end++
		}
	}
	found := unnamed{text: text[run.start:end]}
	at := run.start
	if at > 0 && isQuote(text[at-1]) {
		if end >= len(text) || text[end] != text[at-1] {
			return found, end, false
		}
		found.quoted = true
		at--
	} else if end < len(text) && !isSpace(text[end]) && strings.IndexByte(".,;)", text[end]) < 0 {
		return found, end, false
	}
	at, found.sign = s.signBefore(at)
	if found.sign == 0 {
		return found, end, false
	}
	stop := at
	for stop > 0 && (isQuote(text[stop-1]) || text[stop-1] == ']') && at-stop < 2 {
		stop--
	}
	start := stop
	for limit := max(0, stop-nameReach); start > limit && isNameByte(text[start-1]); {
		start--
	}
	if start == stop || start > 0 && strings.IndexByte("/\\%@#?&", text[start-1]) >= 0 {
		return found, end, false
	}
	found.name = text[start:stop]
	if strings.EqualFold(found.name, "is") && found.sign == ' ' && start > 1 {
		stop = start - 1
		for start = stop; start > max(0, stop-nameReach) && isNameByte(text[start-1]); {
			start--
		}
		found.name, found.sign = text[start:stop], ':'
	}
	found.last = lastWord(found.name)
	found.name = text[s.spokenName(start, found.name):stop]
	return found, end, true
}

func isQuote(character byte) bool { return character == '"' || character == '\'' || character == '`' }

// signBefore skips the sign between a name and a value backwards; 0 for none.
func (s *scan) signBefore(at int) (int, byte) {
	text, sign := s.text, byte(' ')
	spaces := 0
	back := func() {
		for at > 0 && text[at-1] == ' ' && spaces < 4 {
			at--
			spaces++
		}
	}
	back()
	if at > 0 && (text[at-1] == '=' || text[at-1] == ':' || text[at-1] == '-' && spaces > 0 || text[at-1] == '>') {
		sign = text[at-1]
		for at > 0 && strings.IndexByte("=:>-", text[at-1]) >= 0 && spaces < 8 {
			at--
			spaces += 2
		}
		back()
	} else if spaces == 0 {
		return at, 0
	}
	return at, sign
}

// acceptUnnamed decides by the value, and where that may be an id by the name.
func acceptUnnamed(found unnamed) bool {
	text := found.text
	if len(text) < shortestUnnamed || isPlaceholder(text) || isPath(text) || isVersion(text) {
		return false
	}
	isID := isUUID(text) || isDigest(text)
	if !isID && (isGeneratedName(text) || !isOneWord(text) || !looksRandom(text, shortestUnnamed)) {
		return false
	}
	power := nameStrength(found.name)
	switch {
	case speaksOfThings(found.name):
		return false
	case found.last == "token" || found.last == "secret":
		return power >= tokenName && (!isID || found.quoted || found.sign != ' ' || found.name != found.last)
	case found.last == "key":
		return power >= weakName && (!isID || found.name != found.last)
	}
	return found.quoted && !isID && isMachineMade(text) && isBareName(found.last) && (found.sign != ' ' || isUpper(found.name[0]) || found.name == found.last)
}

// isOneWord says whether a value is letters and digits, or base64, with few signs in it: no list and no name of several parts.
func isOneWord(text string) bool {
	counted := shapeOf(text)
	return counted.letters() >= 4 && counted.digits > 0 && counted.separators <= 2+counted.length/12 &&
		counted.length-counted.separators-counted.other >= shortestUnnamed-2 && !strings.ContainsAny(strings.TrimRight(text, "="), ".~=")
}

// isMachineMade says whether letters and digits are mixed as no name mixes them.
func isMachineMade(text string) bool {
	counted := shapeOf(text)
	if counted.length < shortestBare && (counted.upper < 2 || counted.lower < 2 || counted.changes < 4) {
		return false
	}
	return counted.digits > 1 && counted.changes > 2 && entropy(text) > 3.2 &&
		(counted.upper == 0 || counted.lower == 0 || counted.upper > 1 && counted.lower > 1)
}

// isBareName says whether a word may be the name of a vendor: letters, and none of the words for what is no secret.
func isBareName(word string) bool {
	return len(word) >= 3 && len(word) <= 20 && allBytes(word, isLetter)
}

// speaksOfThings says whether a name is that of an id, a digest, a place or a piece of data, whose value may look random.
func speaksOfThings(name string) bool { return hasWord(name, idWords) || hasWord(name, thingWords) }

// thingWords name values that look random and are no credentials: ids, digests, encoded data, positions.
var thingWords = setOf(`accessor commit sha sha1 sha256 sha512 md5 blake blake3 crc oid rid uid guid pid tid nonce cursor next previous prev page pagination continuation
	offset marker after before since etag digest integrity resolved rev ref refs tag branch tree blob object parent child node edge actor task worker job run step
	session request response trace span parent correlation message msg event conversation thread turn batch group sample rollout episode trajectory prompt
	completion text content data payload body raw encoded base64 b64 bytes buffer image images img audio video pixel pixels mask frame thumbnail icon logo font
	png jpeg jpg gif svg pdf svg html css script src href link href media file filename folder path dir url uri host domain email user username account owner author
	checkpoint ckpt model tokenizer weight weights tensor shard layer param params dataset split row column cell table index bucket state seed hash hashes
	fingerprint checksum sum signature sig cert certificate pubkey public pem x509 thumbprint serial issuer subject address wallet contract tx block ip mac
	version release build label title description name alias slug title key_id kid x y z n e p q value values expected actual result output input answer label
	docker container pod image layer snapshot volume instance subnet vpc cluster zone region arn namespace deployment replica service deploy
	test case example fixture golden snapshot vector vectors embedding embeddings feature features score reward metric loss
	xpath selector token_ids ids id tokens vocab merges unicode regex pattern format schema proto descriptor pickled pickle zlib gzip compressed cookie
	import from return assert print raise yield await def class equal equals in is and or not to with as of at by for on the a an`)
