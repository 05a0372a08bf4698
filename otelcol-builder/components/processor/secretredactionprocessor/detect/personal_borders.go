package detect

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// shortWord is a word that is too often the beginning of another one.
const shortWord = 4

// unspaced are scripts that put no blank between words, or none between a word and a number.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai}

// joinsWords makes one word of those with blanks or hyphens between them.
var joinsWords = strings.NewReplacer(" ", "_", "-", "_")

// wordEndsAt says whether a name or word reaches up to a position, so that no number begins there.
func wordEndsAt(text string, position int) bool {
	if position == 0 {
		return false
	}
	if before := text[position-1]; before < utf8.RuneSelf {
		return isWordByte(before)
	}
	character, _ := utf8.DecodeLastRuneInString(text[:position])
	return isSpacedLetter(character)
}

// wordBeginsAt says whether a name or word goes on at a position, so that no number ends there.
func wordBeginsAt(text string, position int) bool {
	if position >= len(text) {
		return false
	}
	if next := text[position]; next < utf8.RuneSelf {
		return isWordByte(next)
	}
	character, _ := utf8.DecodeRuneInString(text[position:])
	return isSpacedLetter(character)
}

func isSpacedLetter(character rune) bool {
	return unicode.IsLetter(character) && !unicode.In(character, unspaced...)
}

// namesNear says whether one of the words stands in a text: not inside of another one, as "sin" in "using". A new word
// begins at a capital (steuerIdNr), and only short words have to end, since long ones are beginnings of compounds. An
// underscore in a word stands for a blank and a hyphen as well.
func namesNear(text, words string) bool {
	lowered := strings.ToLower(text)
	if len(lowered) != len(text) {
		text = lowered
	}
	joined := ""
	for word := range strings.FieldsSeq(words) {
		lowered := lowered
		if strings.IndexByte(word, '_') > 0 {
			if joined == "" {
				joined = joinsWords.Replace(lowered)
			}
			lowered = joined
		}
		for from := 0; from < len(lowered); {
			index := strings.Index(lowered[from:], word)
			if index < 0 {
				break
			}
			start := from + index
			if standsAlone(text, start, start+len(word)) {
				return true
			}
			from = start + len(word)
		}
	}
	return false
}

func standsAlone(text string, start, end int) bool {
	if start > 0 && isLetter(text[start-1]) && !(isLower(text[start-1]) && isUpper(text[start])) {
		return false
	}
	if end-start > shortWord || end == len(text) || !isLetter(text[end]) {
		return true
	}
	return isUpper(text[end]) && isLower(text[end-1])
}
