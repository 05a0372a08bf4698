package detect

import (
	"strings"
	"unicode/utf8"
)

// acceptValue decides whether a value under a name of this strength is a secret.
func acceptValue(power strength, name string, found value) bool {
	text := found.text
	if len(text) < shortestSecret || maskLength(text) > 0 || isPlaceholder(text) || found.quoted && strings.IndexByte("),", text[0]) >= 0 {
		return false
	}
	if !found.quoted && (isCode(found) || isNumber(text)) || strings.Contains(text, `:"`) && found.separator == spaced {
		return false
	}
	if found.separator == called && !found.quoted {
		return false
	}
	if isUUID(text) && isRequestID(name) {
		return false
	}
	switch power {
	case passwordName:
		return acceptPassword(name, found)
	case strongName:
		if found.separator == spaced {
			return looksRandom(text, 16) || isUUID(text)
		}
		if looksRandom(text, 8) || isUUID(text) || isSecretPhrase(found) {
			return true
		}
		return !found.quoted && found.tight && isConstant(name) && len(text) >= 12 && !isPath(text) && !mentionsSecret(text)
	case tokenName:
		if found.separator == spaced || found.separator == spoken {
			return gradeOf(text) > idGrade
		}
		return looksRandom(text, 10) || isUUID(text) || strings.HasSuffix(lastWord(name), "secret") && isSecretPhrase(found)
	default:
		return acceptWeak(found)
	}
}

// isRequestID says whether a name is that of the token by which clouds recognise a request that is sent again.
func isRequestID(name string) bool {
	return strings.HasSuffix(name, "ClientToken") || strings.HasSuffix(name, "RequestToken")
}

// acceptQuotedPassword decides about what stands in quotes behind a name with "password".
func acceptQuotedPassword(quoted string) bool {
	text := strings.Trim(quoted, `"`)
	return !isPlaceholder(text) && !isIdentifier(text) && !mentionsSecret(text)
}

// acceptWeak takes only what was made by a random generator and is no id.
func acceptWeak(found value) bool {
	text := found.text
	if found.quoted && len(text) >= 40 && len(text) <= 128 && isNoise(text) {
		return true // keys and salts of WordPress
	}
	if found.separator == spaced || found.separator == spoken || isUUID(text) || isGeneratedName(text) || isDigest(text) || strings.ContainsAny(text, " \"'\\") {
		return false
	}
	if decoded, ok := decodeBase64(text); ok && len(text) >= 12 && strings.IndexByte(decoded, ':') > 0 && isPrintable(decoded) {
		return true // user:password, as in the configuration of Docker
	}
	if user, password, found := strings.Cut(text, ":"); found && isIdentifier(user) && len(password) < 80 && mixedWord(password) && shapeOf(password).digits > 0 && !isVersion(password) && !isPath(password) {
		return true
	}
	counted := shapeOf(text)
	return counted.digits > 1 && counted.letters() > 4 && looksRandom(text, 20) && entropy(text) > 3.6
}

// isNoise says whether a text is letters, digits and signs without order.
func isNoise(text string) bool {
	counted := shapeOf(text)
	return counted.other >= 6 && counted.digits >= 3 && strings.Count(text, " ") <= 2 && entropy(text) > 4.3 && !looksCalled(text)
}

// isSecretPhrase says whether a quoted value is what people type as a secret: letters, digits and signs mixed.
func isSecretPhrase(found value) bool {
	text := found.text
	counted := shapeOf(text)
	if !found.quoted || counted.other == 0 || counted.digits == 0 || counted.letters() <= 2 || counted.length < 8 || looksCalled(text) {
		return false
	}
	if strings.IndexByte(text, ' ') < 0 {
		return true
	}
	return found.closed && found.separator != called && found.separator != spoken && hasSign(text) && isPhrase(text) && !mentionsSecret(text)
}

// hasSign says whether a text holds a sign that is no punctuation of prose.
func hasSign(text string) bool {
	for position := range len(text) {
		if character := text[position]; !isAlnum(character) && strings.IndexByte(" -_./:,;()'\"?", character) < 0 {
			return true
		}
	}
	return false
}

// looksCalled says whether a text holds a call or an index, as code does: a name and a bracket behind it.
func looksCalled(text string) bool {
	bracket := strings.IndexAny(text, "([{<")
	return bracket > 2 && isIdentifier(text[:bracket]) || bracket == 0 && strings.IndexAny(text, ")]}>") == len(text)-1
}

// acceptPassword decides about what people choose; words of prose, code and user interfaces are none.
func acceptPassword(name string, found value) bool {
	text := found.text
	counted := shapeOf(text)
	mixed := counted.digits > 0 && counted.letters() > 0 || counted.other > 0
	if strings.ContainsAny(text, " \t\n") && !isPhrase(text) || isSpace(text[0]) {
		return false
	}
	if counted.letters() == 0 && (counted.length < 6 && !found.quoted || counted.separators > 1 || bareWord(name, "pass")) {
		return false
	}
	if !found.quoted && allBytes(text, func(b byte) bool { return b >= utf8.RuneSelf }) {
		return false // words of another script
	}
	if strings.HasPrefix(text, "/") && isPath(text) || strings.Contains(text, "://") {
		return false
	}
	if bareWord(name, "pass") && !found.quoted && strings.Contains(text, "&") && isMember(strings.ReplaceAll(text, "&", ".")) { // flags&mask
		return false
	}
	switch found.separator {
	case spoken, spaced:
		if bareWord(name, "pass") || strings.HasSuffix(text, "=") || found.next == '=' {
			return false
		}
		if found.separator == spaced && found.afterLogin {
			return true
		}
		return mixed && counted.letters() > 0 && counted.length >= 6 && !isVersionNumber(text)
	case called:
		return mixed || counted.length >= 8 && !isIdentifier(text)
	}
	if mixed && counted.letters()+counted.digits > 2 {
		return true
	}
	if bareWord(name, "pass") || mentionsSecret(text) {
		return false
	}
	if found.quoted {
		return counted.length >= 5 && !isTitle(text)
	}
	if found.tight && strings.Count(text, "-") > 1 && counted.letters() >= 12 { // correct-horse-battery
		return true
	}
	if found.tight && counted.upper > 1 && counted.lower > 1 && counted.length >= 8 && !isWordLike(text) { // letters of a generator
		return true
	}
	return counted.length >= 5 && (found.tight && (found.separator == flagged || isConstant(name) || strings.Contains(name, ".") && !strings.Contains(text, "_")) || found.separator == flagged || counted.letters() == 0)
}

// bareWord says whether a name is a word and nothing else.
func bareWord(name, word string) bool { return strings.EqualFold(name, word) }

// isConstant says whether a name is written like an environment variable.
func isConstant(name string) bool { return strings.ToUpper(name) == name }

// isTitle says whether a text is a word as a label shows it.
func isTitle(text string) bool {
	return isUpper(text[0]) && allBytes(text[1:], isLower)
}

// isPhrase says whether a text with spaces is a passphrase and no sentence.
func isPhrase(text string) bool {
	words := strings.Fields(text)
	if len(words) > 8 || len(text) > 80 {
		return false
	}
	for _, word := range words {
		if sentenceWords[strings.ToLower(strings.Trim(word, ".,:;!?"))] {
			return false
		}
	}
	return true
}

var sentenceWords = setOf(`your you the a an is are be must should please enter type not or and for to of in on with at least
	too short long password passwords secret invalid incorrect wrong required field characters confirm new old this that
	must-be can cannot may no set if from by has have was were it its as`)

// mentionsSecret says whether a value is a name about secrets, such as "db_password" or "user_secret".
func mentionsSecret(text string) bool {
	lowered := strings.ToLower(text)
	for _, word := range []string{"password", "passwd", "passphrase", "secret", "token", "credential", "getpass", "apikey", "api_key", "input", "value"} {
		if strings.Contains(lowered, word) {
			return true
		}
	}
	return false
}

func isIdentifier(text string) bool {
	return allBytes(text, func(character byte) bool { return isLetter(character) || character == '_' })
}

// isCode says whether an unquoted value is an expression of a program.
func isCode(found value) bool {
	text := found.text
	if text[0] == '&' { // the address of a variable, a borrowed type
		if text = strings.TrimLeft(text, "&"); text == "" || found.next == '>' || isMember(text) {
			return true
		}
	}
	if found.next == '(' || found.next == '[' || strings.ContainsAny(text, "(") || text[0] == '{' || text[0] == '[' {
		return true
	}
	if bracket := strings.IndexByte(text, '['); bracket > 0 && (isIdentifier(text[:bracket]) && bracket <= 24 || isVariableName(text[:bracket])) {
		return true
	}
	if (text[0] == '*' || text[0] == '!') && len(text) > 1 && isVariableName(text[1:]) {
		return true
	}
	dot := strings.IndexByte(text, '.')
	if dot <= 0 {
		return strings.Contains(text, "->") || strings.Contains(text, "::") && !looksRandom(text, 16)
	}
	if strings.Contains(text, "[") {
		return true
	}
	for _, part := range strings.Split(text, ".") {
		if part == "" || !isVariableName(part) {
			return false
		}
	}
	return found.separator != spoken
}

// isMember says whether a text is a variable, or a field of one.
func isMember(text string) bool {
	for part := range strings.FieldsFuncSeq(text, func(character rune) bool { return character == '.' || character == ':' }) {
		if !isIdentifier(part) && !isVariableName(part) {
			return false
		}
	}
	return true
}

// isVersionNumber says whether a text is the version of a package, such as 1:4.13+dfsg1-1.
func isVersionNumber(text string) bool {
	return isDigit(text[0]) && strings.Contains(text, ".") && strings.ContainsAny(text, "+:-~")
}

// isVariableName says whether a text reads like a name in a program: words, at most a short number at the end.
func isVariableName(text string) bool {
	if isDigit(text[0]) {
		return false
	}
	return allBytes(text, isWordByte) && isWordLike(text)
}
