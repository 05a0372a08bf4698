package detect

import (
	"fmt"
	"strconv"
	"strings"
)

// piece is a part of a vendor's token: a literal, or characters of a kind.
type piece struct {
	literal  string
	kind     byte
	min, max int
}

// tokenShape is a vendor's token as documented: literals and runs of characters.
type tokenShape struct {
	class  string
	pieces []piece
	anchor int // the literal that the first pass looks for
	loose  bool
}

// kinds of characters, as in the tables: {A36} is 36 letters or digits, {A20-40} between 20 and 40, {A20-} at least 20.
var kinds = map[byte]func(byte) bool{
	'd': isDigit,
	'h': func(b byte) bool { return isDigit(b) || b >= 'a' && b <= 'f' },
	'x': isHex,
	'a': func(b byte) bool { return isDigit(b) || isLower(b) },
	'U': func(b byte) bool { return isDigit(b) || isUpper(b) },
	'A': isAlnum,
	'L': isLetter,
	'l': isLower,
	'w': func(b byte) bool { return isAlnum(b) || b == '_' },
	'b': func(b byte) bool { return isAlnum(b) || b == '_' || b == '-' },
	'B': func(b byte) bool { return isAlnum(b) || b == '+' || b == '/' },
	's': func(b byte) bool { return isAlnum(b) || strings.IndexByte("+/=_-", b) >= 0 },
	'j': func(b byte) bool { return isAlnum(b) || strings.IndexByte("_-.=", b) >= 0 },
	'n': func(b byte) bool { return isAlnum(b) || strings.IndexByte("_-.~", b) >= 0 },
	'u': func(b byte) bool { return isHex(b) || b == '-' },
	'p': func(b byte) bool { return !isSpace(b) && strings.IndexByte("\"'`<>\\", b) < 0 },
}

const (
	longestToken        = 16 << 10
	firstKind, lastKind = 'A', 'z'
)

// parseShapes reads a table: a line for each shape, the class and the pattern. A class that begins with "+" needs no
// border before its first literal.
func parseShapes(table string) ([]tokenShape, error) {
	var shapes []tokenShape
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		class, loose := strings.CutPrefix(fields[0], "+")
		for _, pattern := range fields[1:] {
			pieces, err := parsePieces(pattern)
			if err != nil {
				return nil, fmt.Errorf("shape of %s: %w", class, err)
			}
			shape := tokenShape{class: class, pieces: pieces, loose: loose, anchor: -1}
			for index, piece := range pieces {
				if piece.literal != "" && (shape.anchor < 0 || len(piece.literal) > len(pieces[shape.anchor].literal) && len(pieces[shape.anchor].literal) < 3) {
					shape.anchor = index
				}
			}
			if shape.anchor < 0 {
				return nil, fmt.Errorf("shape of %s: no literal to look for in %s", class, pattern)
			}
			for _, head := range pieces[:shape.anchor] {
				if head.literal == "" && head.min != head.max {
					return nil, fmt.Errorf("shape of %s: a length that varies before the first literal in %s", class, pattern)
				}
			}
			shapes = append(shapes, shape)
		}
	}
	return shapes, nil
}

func parsePieces(pattern string) ([]piece, error) {
	var pieces []piece
	for rest := pattern; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		if literal != "" {
			pieces = append(pieces, piece{literal: literal, min: len(literal), max: len(literal)})
		}
		if !found {
			break
		}
		inner, next, closed := strings.Cut(after, "}")
		if !closed || len(inner) < 2 || kinds[inner[0]] == nil {
			return nil, fmt.Errorf("%q is not understood", pattern)
		}
		one, err := parseLength(inner)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, one)
		rest = next
	}
	return pieces, nil
}

func parseLength(inner string) (piece, error) {
	from, to, varies := strings.Cut(inner[1:], "-")
	one := piece{kind: inner[0]}
	var err error
	if one.min, err = strconv.Atoi(from); err != nil {
		return one, err
	}
	one.max = one.min
	if varies {
		one.max = longestToken
		if to != "" {
			one.max, err = strconv.Atoi(to)
		}
	}
	return one, err
}

// handlerOf returns who checks a shape around its anchor.
func (t *tokenShape) handlerOf() handler {
	return func(s *scan, start, end int) {
		if last := len(s.found) - 1; last >= 0 && s.found[last].Start < start && s.found[last].End >= end {
			return // inside of what was just found
		}
		if s.text[start:end] != t.pieces[t.anchor].literal {
			return
		}
		from, ok := t.matchBefore(s.text, start)
		if !ok {
			return
		}
		if !t.loose && from > 0 && isAlnum(s.text[from-1]) && !afterEscape(s.text, from) {
			return
		}
		stop, ok := t.matchAfter(s, end)
		if !ok {
			return
		}
		if stop == s.refusedToken && stop-from > longestJudged {
			return // the end of a long run that was none
		}
		variable := s.text[from:stop]
		if stop-end > 8 && from == start {
			variable = s.text[end:stop]
		}
		if isPlaceholder(variable) || len(variable) >= 16 && entropy(variable) < 2.6 || isName(judged(s.text[end:stop])) {
			s.refusedToken = stop
			return
		}
		s.add(from, stop, t.class)
	}
}

// isName says whether what follows a vendor's literal is a name that only begins like a token. Names do not mix both
// cases and several digits without a separator, however much their letters read like words.
func isName(tail string) bool {
	counted := shapeOf(tail)
	mixed := counted.digits >= 3 && counted.upper > 0 && counted.lower > 0 && counted.separators == 0
	return counted.length > 8 && !mixed && isWordLike(tail)
}

// afterEscape says whether the letter before a token belongs to an escape such as \n.
func afterEscape(text string, position int) bool {
	return position >= 2 && text[position-2] == '\\' && strings.IndexByte("nrt", text[position-1]) >= 0 || position >= 3 && text[position-3] == '%' && isHex(text[position-2]) && isHex(text[position-1])
}

// matchBefore matches the pieces before the anchor, which have a fixed length.
func (t *tokenShape) matchBefore(text string, start int) (int, bool) {
	for index := t.anchor - 1; index >= 0; index-- {
		one := t.pieces[index]
		if start < one.min || !one.matches(text[start-one.min:start]) {
			return 0, false
		}
		start -= one.min
	}
	return start, true
}

func (p piece) matches(text string) bool {
	if p.literal != "" {
		return text == p.literal
	}
	return allBytes(text, kinds[p.kind])
}

// matchAfter matches the pieces behind the anchor; a run takes all it can, and a token ends where its kind does.
func (t *tokenShape) matchAfter(s *scan, position int) (int, bool) {
	text := s.text
	last, open := byte(0), false
	for index := t.anchor + 1; index < len(t.pieces); index++ {
		one := t.pieces[index]
		if one.literal != "" {
			if !strings.HasPrefix(text[position:], one.literal) {
				return 0, false
			}
			position += len(one.literal)
			last = 0
			continue
		}
		length := min(one.max, s.kinds[one.kind-firstKind].endOf(text, position, kinds[one.kind])-position)
		if length < one.min {
			return 0, false
		}
		position += length
		last, open = one.kind, one.max == longestToken
	}
	if last != 0 && position < len(text) && (isAlnum(text[position]) || open && !t.loose && strings.IndexByte("+/=", text[position]) >= 0) {
		return 0, false // the middle of something longer, such as base64
	}
	return position, true
}

// vendorTables are the tables of the other files of this name.
var vendorTables = []string{cloudTokens, modelTokensTable, developmentTokens, businessTokens, messagingTokens, operationsTokens}

// addVendors registers the shapes of all tables.
func addVendors(add func(text string, handler handler)) error {
	for _, table := range vendorTables {
		shapes, err := parseShapes(table)
		if err != nil {
			return err
		}
		for _, shape := range shapes {
			add(shape.pieces[shape.anchor].literal, shape.handlerOf())
		}
	}
	return nil
}
