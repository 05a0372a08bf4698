package detect

import (
	"strings"
	"unicode/utf8"
)

// strength says how much a name tells about its value.
type strength uint8

const (
	noSecret       strength = iota
	weakName                // "key", "auth": only a value that is random without a doubt is a secret
	tokenName               // "token", "secret": a random-looking value is a secret
	strongName              // "api_key", "client_secret": ids and digests are secrets too
	passwordName            // "password": whatever people choose is a secret
	longestName    = 96     // bytes; longer runs of word characters are no names
	mostNameWords  = 24
	secretNounsMax = 14
)

// words of a name, in lower case, without digits at their ends.
type nameWords struct {
	list  [mostNameWords][]byte
	count int
}

// splitName cuts a name at signs and at changes from lower to upper case.
func splitName(name string, lowered *[longestName]byte) nameWords {
	var words nameWords
	length, start := 0, 0
	flush := func() {
		end := length
		for end > start && isDigit(lowered[end-1]) {
			end--
		}
		if end > start && words.count < mostNameWords {
			words.list[words.count] = lowered[start:end]
			words.count++
		}
		start = length
	}
	for position := range len(name) {
		character := name[position]
		if !isWordByte(character) || character == '_' {
			flush()
			continue
		}
		if isUpper(character) && position > 0 {
			nextLower := position+1 < len(name) && isLower(name[position+1])
			if previous := name[position-1]; isLower(previous) || isUpper(previous) && nextLower && position+1 < len(name) {
				flush()
			}
		}
		lowered[length] = lowerASCII(character)
		length++
	}
	flush()
	return words
}

func lowerASCII(character byte) byte {
	if isUpper(character) {
		return character + 'a' - 'A'
	}
	return character
}

// nameStrength says what a value under this name is.
func nameStrength(name string) strength {
	if len(name) > longestName {
		name = name[len(name)-longestName:]
	}
	var lowered [longestName]byte
	words := splitName(withoutVerb(name), &lowered)
	for words.count > 1 && wordKinds[string(words.list[words.count-1])]&trailingWord != 0 {
		words.count--
	}
	if words.count == 0 {
		return noSecret
	}
	last := words.list[words.count-1]
	var before []byte
	if words.count > 1 {
		before = words.list[words.count-2]
	}
	return headStrength(last, before)
}

// withoutVerb takes the word for "is" from a name of a script that puts no blank before it.
func withoutVerb(name string) string {
	if name == "" || name[len(name)-1] < utf8.RuneSelf {
		return name
	}
	for _, verb := range []string{"是", "为", "為", "は"} {
		name = strings.TrimSuffix(name, verb)
	}
	return name
}

// headStrength judges the last word of a name by itself and by the word before it.
func headStrength(last, before []byte) strength {
	kind := wordKinds[string(last)]
	switch {
	case kind&passwordHead != 0:
		if wordKinds[string(before)]&notAPasswordAfter != 0 {
			return noSecret
		}
		return passwordName
	case kind&strongHead != 0:
		return strongName
	case string(last) == "code" && wordKinds[string(before)]&codeWord != 0:
		return passwordName
	case string(last) == "secret" || string(last) == "secrets" || string(last) == "crumb":
		return tokenName
	case string(last) == "token" && string(before) == "key": // PublicKeyToken of an assembly
		return noSecret
	case string(last) == "token":
		return tokenStrength(before)
	case string(last) == "id" && string(before) == "secret":
		return strongName
	case string(last) == "tokens" && wordKinds[string(before)]&strongToken != 0:
		return strongName
	case string(last) == "key" || string(last) == "keys":
		return keyStrength(before)
	case kind&weakHead != 0:
		return weakName
	}
	return gluedStrength(last)
}

func tokenStrength(before []byte) strength {
	switch kind := wordKinds[string(before)]; {
	case kind&modelToken != 0:
		return noSecret
	case kind&strongToken != 0:
		return strongName
	}
	return tokenName
}

func keyStrength(before []byte) strength {
	switch kind := wordKinds[string(before)]; {
	case kind&plainKey != 0:
		return noSecret
	case kind&strongKey != 0:
		return strongName
	}
	return weakName
}

// gluedStrength judges a word such as "dbpassword" or "accesstoken" by how it ends.
func gluedStrength(word []byte) strength {
	for length := min(len(word)-1, secretNounsMax); length >= 3; length-- {
		ending, beginning := word[len(word)-length:], word[:len(word)-length]
		kind := wordKinds[string(ending)]
		switch {
		case kind&gluedPassword != 0:
			return passwordName
		case kind&strongHead != 0:
			return strongName
		case string(ending) == "secret":
			return tokenName
		case string(ending) == "token":
			return tokenStrength(beginning)
		case string(ending) == "key":
			return keyStrength(beginning)
		}
	}
	return noSecret
}
