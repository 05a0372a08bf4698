package detect

import "strings"

const (
	maskStart      = "[redacted"
	shortestSecret = 4
	longestMask    = 120
)

type span struct{ start, end int }

// IsMask says whether a text is a mask and nothing else.
func IsMask(text string) bool {
	return maskLength(text) == len(text) && text != ""
}

// maskLength returns the length of the mask that a text starts with, or 0.
func maskLength(text string) int {
	if !strings.HasPrefix(text, maskStart) {
		return 0
	}
	rest := text[len(maskStart):]
	if strings.HasPrefix(rest, "]") {
		return len(maskStart) + 1
	}
	if !strings.HasPrefix(rest, ":") {
		return 0
	}
	for position := 1; position < len(rest) && position < longestMask; position++ {
		character := rest[position]
		if character == ']' {
			return len(maskStart) + position + 1
		}
		if !isWordByte(character) && character != ':' && character != '-' {
			return 0
		}
	}
	return 0
}

// unmaskedSegments returns the pieces between the masks: what a first hop masked stays as it is.
func unmaskedSegments(text string) []span {
	var segments []span
	start := 0
	for position := 0; ; {
		next := strings.Index(text[position:], maskStart)
		if next < 0 {
			break
		}
		next += position
		length := maskLength(text[next:])
		if length == 0 {
			position = next + len(maskStart)
			continue
		}
		segments = appendSegment(segments, start, next)
		start = next + length
		position = start
	}
	return appendSegment(segments, start, len(text))
}

func appendSegment(segments []span, start, end int) []span {
	if end-start < shortestSecret {
		return segments
	}
	return append(segments, span{start, end})
}
