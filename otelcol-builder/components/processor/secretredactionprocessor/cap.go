package secretredactionprocessor

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// scannedBeyondCap is how much of a long content value is scanned behind its cap, so that a secret that lies across the
// cap is seen whole.
const scannedBeyondCap = 16384

var onlyMarker = regexp.MustCompile(`^\[truncated, [0-9]+ (bytes|values)\]$`)

// bytesPerNumber is what a number, true or false counts against the cap, and the key of an entry, however long.
const bytesPerNumber = 8

// budget is what is left of the bytes that one content value, which may be a tree of maps and lists, keeps. When it is used
// up texts become markers; when the markers, keys and numbers have used as much again what is left of the tree is removed.
type budget struct {
	left, lowest int
}

func (b *budget) take(bytes int) {
	if b != nil {
		b.left -= bytes
	}
}

func (b *budget) usedUp() bool { return b != nil && b.left < b.lowest }

// cappedItems removes the items of a list that go beyond the cap and says how many these were.
func (w *walk) cappedItems(items pcommon.Slice, at place) {
	removed := 0
	items.RemoveIf(func(item pcommon.Value) bool {
		if at.budget.usedUp() && !isCountOfValues(item) {
			removed++
			return true
		}
		w.value(item, at)
		return false
	})
	if removed > 0 {
		w.counts.content++
		marker := fmt.Sprintf("[truncated, %d values]", removed)
		at.budget.take(len(marker))
		items.AppendEmpty().SetStr(marker)
	}
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

// isCountOfValues: what an earlier hop wrote at the end of a list stays there.
func isCountOfValues(value pcommon.Value) bool {
	return value.Type() == pcommon.ValueTypeStr && isMark(value.Str()) && strings.HasSuffix(value.Str(), " values]")
}
