package secretredactionprocessor

import (
	"fmt"
	"regexp"
	"unicode/utf8"
)

// scannedBeyondCap is how much of a long content value is scanned behind its cap, so that a secret that lies across the
// cap is seen whole.
const scannedBeyondCap = 16384

var onlyMarker = regexp.MustCompile(`^\[truncated, [0-9]+ bytes\]$`)

// budget is what is left of the bytes that one content value, which may be a tree of maps and lists, keeps.
type budget struct {
	left int
}

// capped cuts a text to at most limit bytes at the border of a rune and outside of masks, with a marker that states the
// original length.
func capped(text string, limit, originalLength int, incomplete bool) string {
	if !incomplete && len(text) <= limit {
		return text
	}
	marker := fmt.Sprintf("[truncated, %d bytes]", originalLength)
	room := limit - len(marker) - len("... ")
	if room <= 0 {
		return marker
	}
	return text[:cutBefore(text, min(room, len(text)))] + "... " + marker
}

// cutBefore is the last place at or before the limit where the text may be cut.
func cutBefore(text string, limit int) int {
	limit = runeBorder(text, limit)
	for _, mark := range markPattern.FindAllStringIndex(text, -1) {
		if mark[0] < limit && limit < mark[1] {
			return mark[0]
		}
	}
	return limit
}

func runeBorder(text string, limit int) int {
	if limit >= len(text) {
		return len(text)
	}
	for back := 0; back < utf8.UTFMax && back <= limit; back++ {
		if utf8.RuneStart(text[limit-back]) {
			return limit - back
		}
	}
	return limit
}

// window is the part of a long content value that is scanned.
func window(text string, limit int) string {
	if len(text) <= limit+scannedBeyondCap {
		return text
	}
	return text[:runeBorder(text, limit+scannedBeyondCap)]
}
