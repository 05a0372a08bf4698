package detect

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

const (
	deepestWrapping  = 3
	shortestWrapped  = 20
	longestUnwrapped = 1 << 20
	longestColour    = 24
	wideFirst        = '\uff01'
	wideLast         = '\uff5e'
)

// matchWrapped decodes what is escaped or encoded, and scans it again.
func (s *scan) matchWrapped() {
	if s.depth >= deepestWrapping {
		return
	}
	if s.classes&escapeByte != 0 {
		s.matchEscaped()
	}
	for _, run := range s.runs {
		if !s.goOn(stepsOfLook) {
			return
		}
		if run.end-run.start >= shortestWrapped && run.end-run.start <= longestUnwrapped {
			s.matchEncoded(run)
		}
	}
}

// matchEscaped scans the text with its escapes resolved and maps the findings back.
func (s *scan) matchEscaped() {
	decoded, places := unescapeText(s.text)
	if decoded == "" {
		return
	}
	for _, finding := range s.findInside(decoded) {
		last := int(places[finding.End-1])
		if finding.Start, finding.End = int(places[finding.Start]), int(places[finding.End]); isAlnum(s.text[last]) {
			finding.End = last + 1 // no colour behind it
		}
		s.addFinding(finding)
	}
}

// unescapeText resolves JSON, percent and HTML escapes and typeset blanks and hyphens; places maps each byte of the result, and its end, to the
// source. The result is empty when nothing was escaped.
func unescapeText(text string) (string, []int32) {
	var result []byte
	var places []int32
	copied := 0
	for position := 0; position < len(text); {
		character := text[position]
		if byteClass[character]&escapeByte == 0 {
			position++
			continue
		}
		decoded, length := escapeAt(text[position:])
		if length == 0 {
			position++
			continue
		}
		if places == nil {
			result = make([]byte, 0, len(text))
			places = make([]int32, 0, len(text)+1)
		}
		result, places = appendPlain(result, places, text, copied, position)
		for _, b := range []byte(decoded) {
			result = append(result, b)
			places = append(places, int32(position))
		}
		position += length
		copied = position
	}
	if places == nil {
		return "", nil
	}
	result, places = appendPlain(result, places, text, copied, len(text))
	return string(result), append(places, int32(len(text)))
}

func appendPlain(result []byte, places []int32, text string, from, to int) ([]byte, []int32) {
	result = append(result, text[from:to]...)
	for position := from; position < to; position++ {
		places = append(places, int32(position))
	}
	return result, places
}

// Blanks and hyphens that do not break a line, as word processors and web pages put them between the groups of a number.
// What has no width is nothing.
var typesetBytes = map[string]string{
	"\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2010": "-", "\u2011": "-", "\u00ad": "",
	"\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "",
}

const (
	noBreakLead = 0xc2 // begins U+00A0 in UTF-8
	typesetLead = 0xe2 // begins those of U+20..
	wideLead    = 0xef // begins full-width signs, and U+FEFF
	escapeLead  = 0x1b // begins what colours a terminal
)

const longestHTMLEscape = len("&quot;")

var htmlEscapes = map[string]string{"&quot;": `"`, "&apos;": "'", "&amp;": "&", "&lt;": "<", "&gt;": ">", "&#34;": `"`, "&#39;": "'", "&#x27;": "'", "&#61;": "="}

// escapeAt returns what an escape stands for and how long it is; 0 when it is none.
func escapeAt(text string) (string, int) {
	switch text[0] {
	case escapeLead:
		return "", colourLength(text)
	case noBreakLead, typesetLead, wideLead:
		for length := 2; length <= min(3, len(text)); length++ {
			if plain, known := typesetBytes[text[:length]]; known {
				return plain, length
			}
		}
		return wideAt(text)
	case '%':
		if len(text) >= 3 {
			if raw, err := hex.DecodeString(text[1:3]); err == nil && raw[0] >= 0x20 && raw[0] < 0x7f {
				return string(raw), 3
			}
		}
	case '&':
		if end := strings.IndexByte(text[:min(len(text), longestHTMLEscape)], ';'); end > 0 {
			if plain := htmlEscapes[text[:end+1]]; plain != "" {
				return plain, end + 1
			}
		}
	case '\\':
		return backslashAt(text)
	}
	return "", 0
}

// colourLength returns the length of the sequence that colours a terminal at the start of a text.
func colourLength(text string) int {
	if len(text) < 3 || text[1] != '[' {
		return 0
	}
	for at := 2; at < min(len(text), longestColour); at++ {
		if isLetter(text[at]) {
			return at + 1
		}
		if !isDigit(text[at]) && text[at] != ';' && text[at] != '?' {
			return 0
		}
	}
	return 0
}

// wideAt returns the plain form of a full-width letter or digit, or of one of the signs between a name and a value.
func wideAt(text string) (string, int) {
	character, size := utf8.DecodeRuneInString(text)
	if character < wideFirst || character > wideLast {
		return "", 0
	}
	if plain := byte(character - wideFirst + '!'); isAlnum(plain) || strings.IndexByte(":=_-", plain) >= 0 {
		return string(rune(plain)), size
	}
	return "", 0
}

func backslashAt(text string) (string, int) {
	if len(text) < 2 {
		return "", 0
	}
	switch text[1] {
	case 'n':
		return "\n", 2
	case 't':
		return "\t", 2
	case 'r':
		return "\r", 2
	case '"', '\'', '/', '\\', '`':
		return text[1:2], 2
	case 'x':
		if len(text) >= 4 {
			if raw, err := hex.DecodeString(text[2:4]); err == nil && raw[0] < 0x7f {
				return string(raw), 4
			}
		}
	case 'u':
		if len(text) >= 6 {
			if raw, err := hex.DecodeString(text[2:6]); err == nil {
				character := rune(raw[0])<<8 | rune(raw[1])
				if utf8.ValidRune(character) {
					return string(character), 6
				}
			}
		}
	}
	return "", 0
}

// matchEncoded masks a whole run of base64 or hexadecimal digits that hides a secret.
func (s *scan) matchEncoded(run span) {
	text := s.text[run.start:run.end]
	decoded, ok := decodeRun(text)
	if !ok || len(s.findInside(decoded)) == 0 {
		return
	}
	for range 2 {
		if run.end < len(s.text) && s.text[run.end] == '=' {
			run.end++
		}
	}
	s.add(run.start, run.end, "encoded_secret")
}

// decodeRun returns the text that a run encodes, if it encodes text.
func decodeRun(text string) (string, bool) {
	if len(text)%2 == 0 && allBytes(text, isHex) {
		raw, err := hex.DecodeString(text)
		return string(raw), err == nil && isPrintable(string(raw))
	}
	if strings.ContainsAny(text, ".~") {
		return "", false
	}
	head := text[:min(len(text), 16)]
	if decoded, ok := decodeBase64(head); !ok || !isPrintable(decoded) {
		return "", false
	}
	decoded, ok := decodeBase64(text)
	return decoded, ok && isPrintable(decoded)
}
