package detect

import "strings"

// isGenericValue says whether a value without a form of its own can be a secret: no words, paths, ids or placeholders.
func isGenericValue(text string) bool {
	if len(text) < runBytes || isPlaceholder(text) || isNumber(text) || isPath(text) || isUUID(text) || isVersion(text) {
		return false
	}
	counted := shapeOf(text)
	if counted.digits == 0 && !strings.ContainsAny(text, "=") && counted.upper*counted.lower == 0 {
		return false
	}
	return !isWordLike(text)
}

// isVersion says whether a value is a version, a date or a number.
func isVersion(text string) bool {
	return allBytes(text, func(character byte) bool { return isDigit(character) || strings.IndexByte(".-+:eETZ_", character) >= 0 })
}

// isNumber says whether a value is a hexadecimal number of a program.
func isNumber(text string) bool {
	return len(text) <= 18 && (strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X")) && allBytes(text[2:], isHex)
}

// acceptGeneric decides about a match of a generic rule by its value and by the name in front of it.
func acceptGeneric(before, secret string) bool {
	name := nameBefore(before)
	if isFileName(name) {
		return false
	}
	power := nameStrength(name)
	if isUUID(secret) {
		return power >= tokenName
	}
	if other, value, assigned := strings.Cut(secret, "="); !isGenericValue(secret) || assigned && value != "" && isIdentifier(other) {
		return false
	}
	if power == noSecret && (speaksOfThings(name) || isDigest(secret) || isPlainKey(name) || !hints(before)) {
		return false
	}
	if power <= weakName && isGeneratedName(secret) {
		return false
	}
	return power >= tokenName || !isDigest(secret) || speaksOfSecrets(name)
}

// isGeneratedName says whether a value is an id as services, schedulers and databases make them.
func isGeneratedName(text string) bool {
	for _, prefix := range generatedPrefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	counted := shapeOf(text)
	if counted.upper == 0 && counted.other == 0 && strings.Count(text, "-") > 1 {
		return true // a name with a hash behind it, such as that of a pod
	}
	if tail := text[strings.LastIndexAny(text, "-:")+1:]; len(tail) < len(text) && isDigest(tail) && readable(text[:len(text)-len(tail)]) > mostReadable {
		return true // words with a digest behind them
	}
	return len(text) == 26 && counted.lower == 0 && counted.separators+counted.other == 0 && text[0] <= '7' // ULID
}

var generatedPrefixes = []string{
	"req_", "call_", "chatcmpl-", "cmpl-", "resp_", "msg_", "run_", "toolu_", "job-", "job_", "step_", "thread_", "asst_", "file-", "ft-", "ftjob-", "batch_", "evt_", "cus_",
	"sha1-", "sha256-", "sha384-", "sha512-", "i-", "vol-", "sg-", "subnet-", "vpc-", "ami-", "eni-", "urn:", "arn:",
}

// isFileName says whether a name ends as those of files do: what is assigned to it is a digest.
func isFileName(name string) bool {
	return strings.LastIndexByte(name, '.') > 0 && notTopLevel[lastWord(name)]
}

// isPlainKey says whether a name is that of a key or token which is no credential.
func isPlainKey(name string) bool {
	last := lastWord(name)
	return last == "key" || last == "keys" || last == "token" || last == "tokens"
}

// hints says whether more than the word "key" stands in front of a value.
func hints(before string) bool {
	lowered := strings.ToLower(before)
	for _, word := range []string{"token", "secret", "passw", "passwd", "api", "auth", "cred", "access", "apikey"} {
		if strings.Contains(lowered, word) {
			return true
		}
	}
	return false
}

// nameBefore returns the name that a value is assigned to.
func nameBefore(before string) string {
	end := len(before)
	for end > 0 && !isWordByte(before[end-1]) {
		end--
	}
	start := end
	for start > 0 && isNameByte(before[start-1]) {
		start--
	}
	return strings.Trim(before[start:end], "-.")
}

var (
	idWords = setOf(`id ids hash sha md digest checksum fingerprint etag uuid commit revision version name path file dir url uri host
		tokenizer tokens model public pub cache primary foreign partition sort index keyid thumbprint signature certificate cert issuer serial address`)
	secretWords = setOf("secret password passwd apikey token credential credentials creds auth")
)

func speaksOfSecrets(name string) bool { return hasWord(name, secretWords) }

func hasWord(name string, set map[string]bool) bool {
	if len(name) > longestName {
		name = name[len(name)-longestName:]
	}
	var lowered [longestName]byte
	words := splitName(name, &lowered)
	for index := range words.count {
		if set[string(words.list[index])] {
			return true
		}
	}
	return false
}

func classRank(class string) int {
	switch class {
	case classWeak, "generic_api_key", "unnamed_credential":
		return 3
	case classSecret, classPassword:
		return 2
	case "encoded_secret":
		return 1
	}
	return 0
}
