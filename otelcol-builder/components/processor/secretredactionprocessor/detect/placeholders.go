package detect

import "strings"

// placeholderWords are values, or the beginning and end of values, that stand for a secret in documentation.
var placeholderValues = setOf(`password passwd pass pwd secret token apikey api_key api-key key null none nil undefined true
	false yes no on off string str text bytes int integer float float32 float64 int32 int64 uint8 uint16 uint32 uint64 number bool boolean object any optional required empty unset default
	example sample test testing dummy fake foobar foo bar baz redacted filtered masked hidden removed omitted censored
	sanitized placeholder changeme change_me change-me changeit replaceme replace_me todo tbd fixme your_password
	yourpassword mypassword mysecret mytoken username user root admin-password credentials credential enter
	password123 passw0rd secret123 incorrect invalid wrong missing expired rejected denied failed failure error
	unknown not-set notset n/a na auto system self this value values var varchar varchar2 nvarchar char field input type
	hash salt bearer basic digest negotiate file path env environ environment prompt stdin keyring vault <none>
	anonymous public private nopass nopassword nopasswd`)

var placeholderParts = []string{
	"example", "your_", "your-", "yourapi", "yourtoken", "yoursecret", "yourkey", "your ", "my_api", "my-api", "placeholder", "changeme",
	"change_me", "change-me", "replace_", "replace-", "replaceme", "insert_", "insert-", "xxxx", "****", "...", "____",
	"redacted", "dummy", "<your", "put_your", "put-your", "enter_your", "fake-", "fake_", "_here", "-here", "not-a-real", "notareal",
	"goes-here", "goeshere", "sample", "testtest", "foobar", "***", "dein_", "dein-", "votre_", "tu_", "你的",
}

// placeholderFinder says in one pass whether any of the parts is there: mostly none is.
var placeholderFinder = func() *automaton {
	words := make([]word, 0, len(placeholderParts))
	for _, part := range placeholderParts {
		words = append(words, word{text: part})
	}
	return newAutomaton(words)
}()

// isPlaceholder says whether a value stands for a secret, as in documentation, templates and masked output.
func isPlaceholder(value string) bool {
	if len(value) > 256 {
		return false
	}
	value = strings.Trim(value, " ")
	if value == "" || isReference(value) {
		return true
	}
	var buffer [256]byte
	lowered := buffer[:len(value)]
	for position := range len(value) {
		lowered[position] = lowerASCII(value[position])
	}
	if placeholderValues[string(lowered)] || isDocumented(value) {
		return true
	}
	if placeholderFinder.holdsWord(value) {
		if rest, found := withoutPlaceholders(string(lowered)); found && !isMixedRest(value, rest) {
			return true
		}
	}
	return isMonotonous(string(lowered))
}

// withoutPlaceholders takes the words of placeholders out of a value. A word counts where it stands by itself: "sampler" and
// "resample" are no placeholders.
func withoutPlaceholders(lowered string) (string, bool) {
	found := false
	for _, part := range placeholderParts {
		for from := 0; ; {
			at := strings.Index(lowered[from:], part)
			if at < 0 {
				break
			}
			at += from
			end := at + len(part)
			if at > 0 && isLetter(part[0]) && isLetter(lowered[at-1]) || end < len(lowered) && isLetter(part[len(part)-1]) && isLetter(lowered[end]) && !gluedPlaceholders[part] {
				from = end
				continue
			}
			lowered, from, found = lowered[:at]+"-"+lowered[end:], at+1, true
		}
	}
	return lowered, found
}

// gluedPlaceholders may run into the next word: yourapikey.
var gluedPlaceholders = setOf("yourapi yourtoken yoursecret yourkey changeme replaceme placeholder dummy xxxx *** 你的")

// isMixedRest says whether what stands beside the words of a placeholder is a secret by itself: letters and digits mixed.
func isMixedRest(value, rest string) bool {
	rest = strings.Trim(rest, "-_ .")
	counted := shapeOf(rest)
	if placeholderValues[rest] || counted.digits < 2 || counted.letters() < 2 || counted.letters()+counted.digits < 6 {
		return false
	}
	return !isWordLike(rest) || !isWordLike(value)
}

// isDocumented says whether a value ends as those in the documentation of clouds do: AKIAIOSFODNN7EXAMPLE.
func isDocumented(value string) bool {
	return strings.HasSuffix(value, "EXAMPLE") || strings.HasSuffix(value, "EXAMPLEKEY")
}

// isReference says whether a value names where the secret comes from: a variable, a template, a call.
func isReference(value string) bool {
	switch value[0] {
	case '$':
		if standsForLetter("s", value[1:]) {
			return false
		}
		return len(value) > 1 && (value[1] == '{' || value[1] == '(' || value[1] == '$' && len(value) > 2 && value[2] == '{' || isVariable(value[1:]))
	case '<':
		return strings.HasSuffix(value, ">") || strings.HasPrefix(value, "<%")
	case '{':
		return strings.HasPrefix(value, "{{") || strings.HasSuffix(value, "}") && !strings.HasPrefix(strings.ToUpper(value), "{S") && !strings.HasPrefix(value, "{AQA")
	case '%':
		return len(value) > 2 && value[len(value)-1] == '%' || len(value) == 2 || strings.HasPrefix(value, "%(") || strings.HasPrefix(value, "%{")
	case '[':
		return strings.HasSuffix(value, "]")
	case '#':
		return strings.HasPrefix(value, "#{")
	case '@':
		if standsForLetter("a", value[1:]) {
			return false
		}
		return len(value) > 1 && isIdentifier(value[1:]) || strings.HasPrefix(value, "@{") || strings.HasPrefix(value, "@Microsoft")
	}
	return strings.Contains(value, "${") || strings.Contains(value, "{{") || strings.HasPrefix(value, "vault:") ||
		strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "env(") || strings.HasPrefix(value, "arn:aws:") ||
		strings.HasPrefix(value, "ref+") || strings.HasPrefix(value, "op://") || strings.HasPrefix(value, "secretsmanager:")
}

// standsForLetter says whether a sign was typed in place of a letter, as people do in passwords: $uperSecret, @dminPass.
func standsForLetter(letter, rest string) bool {
	word := letter + strings.ToLower(rest)
	for _, begin := range typedBeginnings {
		if strings.HasPrefix(word, begin) {
			return true
		}
	}
	return false
}

var typedBeginnings = strings.Fields("admin apple april august autumn angel alpha access amazing awesome arsenal andrea alex anna " +
	"super secret secure summer spring september sunday saturday sunshine strong shadow silver soccer starwars samsung smile sysadmin")

// isVariable says whether a text is the name of a shell variable, rather than the rest of a password.
func isVariable(name string) bool {
	if name == "" || isDigit(name[0]) {
		return false
	}
	for position := range len(name) {
		if character := name[position]; !isWordByte(character) && character != '.' && character != ':' && character != '-' && character != '>' && character != '[' && character != ']' {
			return false
		}
	}
	return !isDigit(name[len(name)-1]) || allBytes(name, func(character byte) bool { return isUpper(character) || isDigit(character) || character == '_' })
}

// isMonotonous says whether a value has too few different characters, or counts up: no generator makes it.
func isMonotonous(lowered string) bool {
	if len(lowered) < 6 {
		return allSame(lowered)
	}
	var seen [256]bool
	different, rising := 0, 0
	longestRising := 0
	for position := range len(lowered) {
		character := lowered[position]
		if !seen[character] {
			seen[character] = true
			different++
		}
		if position > 0 && character == lowered[position-1]+1 {
			rising++
			longestRising = max(longestRising, rising)
		} else {
			rising = 0
		}
	}
	if different == 2 && isDigest(lowered) {
		return false
	}
	if different <= 3 && len(lowered) >= 8 || different <= 2 {
		return true
	}
	return longestRising >= 6 && longestRising*2 >= len(lowered)-2
}

func allSame(text string) bool {
	for position := range len(text) {
		if text[position] != text[0] {
			return false
		}
	}
	return true
}
