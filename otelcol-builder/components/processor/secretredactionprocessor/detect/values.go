package detect

import "strings"

// shape holds what is counted of a value in one pass.
type shape struct {
	length, digits, lower, upper, other, separators int
	longestSame                                     int
	changes                                         int // between letters and digits
}

func shapeOf(value string) shape {
	counted := shape{length: len(value)}
	same := 0
	previous, before := byte(0), uint8(0)
	for position := range len(value) {
		character := value[position]
		class := byteClass[character]
		switch {
		case class&digitByte != 0:
			counted.digits++
			if before&(lowerByte|upperByte) != 0 {
				counted.changes++
			}
		case class&(lowerByte|upperByte) != 0:
			if class&upperByte != 0 {
				counted.upper++
			} else {
				counted.lower++
			}
			if before&digitByte != 0 {
				counted.changes++
			}
		case character == '-' || character == '_' || character == '.' || character == '/' || character == ':':
			counted.separators++
		default:
			counted.other++
		}
		if position > 0 && character == previous {
			same++
		} else {
			same = 1
		}
		counted.longestSame = max(counted.longestSame, same)
		previous, before = character, class
	}
	return counted
}

func (s shape) letters() int { return s.lower + s.upper }

// looksRandom says whether a value of at least this length can hardly be words: made by a machine.
func looksRandom(value string, shortest int) bool {
	if len(value) < shortest || isPlaceholder(value) {
		return false
	}
	value = judged(value)
	counted := shapeOf(value)
	if counted.letters() == 0 || counted.other > counted.length/4 || counted.longestSame > 6 {
		return false
	}
	if isWordLike(value) && (len(value) < shortestWord || readable(value) > mostReadable) || isPath(value) {
		return false
	}
	if counted.digits == 0 {
		return counted.upper > 1 && counted.lower > 1 && counted.length >= 16 && entropy(value) > 3.5
	}
	return entropy(value) > minimumEntropy(len(value))
}

// minimumEntropy is well below what random hexadecimal digits of a length have.
func minimumEntropy(length int) float64 {
	switch {
	case length < 12:
		return 2.2
	case length < 20:
		return 2.6
	default:
		return 3.0
	}
}

// isWordLike says whether a value is made of words and numbers: names of models, files, functions, hosts.
func isWordLike(value string) bool {
	value = judged(value)
	letters, wordLetters, pieces, joints := 0, 0, 0, 0
	separators := strings.Count(value, "-") + strings.Count(value, "_") + strings.Count(value, ".") + strings.Count(value, "/")
	for start := 0; start < len(value); {
		if !isAlnum(value[start]) {
			start++
			continue
		}
		end := start + 1
		for end < len(value) && isPieceByte(value, start, end) {
			end++
		}
		if end < len(value) && isAlnum(value[end]) && isDigit(value[end]) != isDigit(value[end-1]) {
			joints++
		}
		if piece := value[start:end]; isLetter(piece[0]) {
			pieces++
			letters += len(piece)
			if isWord(piece) || len(piece) == 3 && separators > 1 { // an abbreviation in a name such as gpt-4o-mini
				wordLetters += len(piece)
			}
		}
		start = end
	}
	if pieces == 0 || joints > 2+len(value)/16 || letters < 3*pieces && pieces > 1 && (separators < 2 || letters*2 < 5*pieces) {
		return false
	}
	return wordLetters*10 >= letters*8 && letters*3 >= len(value)
}

// isPieceByte says whether a byte continues the piece that began at start: one kind of characters, a capital first.
func isPieceByte(value string, start, position int) bool {
	character := value[position]
	if !isAlnum(character) {
		return false
	}
	if position == start {
		return true
	}
	previous := value[position-1]
	if isDigit(character) != isDigit(previous) {
		return false
	}
	if isUpper(character) && isLower(previous) {
		return false
	}
	startsWord := isUpper(character) && isUpper(previous) && position+2 < len(value) && isLower(value[position+1]) && isLower(value[position+2])
	return !startsWord
}

// isWord says whether letters could be a word: vowels and consonants in a natural rhythm.
func isWord(piece string) bool {
	if len(piece) <= 2 {
		return true
	}
	consonants, longest, vowels := 0, 0, 0
	for position := range len(piece) {
		if position > 0 && isUpper(piece[position]) != isUpper(piece[len(piece)-1]) {
			return false
		}
		switch lowerASCII(piece[position]) {
		case 'a', 'e', 'i', 'o', 'u', 'y':
			vowels++
			consonants = 0
		default:
			consonants++
			longest = max(longest, consonants)
		}
	}
	return vowels > 0 && longest <= 4 && vowels*7 >= len(piece)
}

// isPath says whether a value is a path of a file or an address.
func isPath(value string) bool {
	if strings.HasPrefix(value, "/") || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../") || strings.HasPrefix(value, "~/") {
		return strings.Count(value, "/") > 1 && !strings.ContainsAny(value, "+=") && !hasRandomSegment(value) || len(value) < 20
	}
	return strings.Contains(value, "://") || strings.Count(value, "/") > 3 && isWordLike(value)
}

// hasRandomSegment says whether a part of a path is longer and more mixed than names of files are.
func hasRandomSegment(value string) bool {
	for segment := range strings.SplitSeq(value, "/") {
		if counted := shapeOf(segment); counted.length >= 20 && counted.lower > 2 && counted.upper > 2 && counted.digits > 1 && counted.separators == 0 {
			return true
		}
	}
	return false
}

// isUUID says whether a value is a UUID in its usual form.
func isUUID(value string) bool {
	if len(value) != 36 {
		return false
	}
	for position := range len(value) {
		if position == 8 || position == 13 || position == 18 || position == 23 {
			if value[position] != '-' {
				return false
			}
		} else if !isHex(value[position]) {
			return false
		}
	}
	return true
}

// isDigest says whether a value has the form of a common digest or id in hexadecimal digits.
func isDigest(value string) bool {
	switch len(value) {
	case 16, 24, 32, 40, 48, 56, 64, 96, 128:
		return allBytes(value, isHex)
	}
	return false
}
