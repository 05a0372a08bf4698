package detect

const (
	digitByte uint8 = 1 << iota
	lowerByte
	upperByte
	hexByte
	valueByte // may stand inside of an unquoted token
	spaceByte
	separatorByte
	escapeByte // may begin an escape, or what a word processor puts in the place of a blank
)

var byteClass = classifyBytes()

func classifyBytes() (class [256]uint8) {
	for character := range 256 {
		b := byte(character)
		switch {
		case b >= '0' && b <= '9':
			class[b] = digitByte | hexByte | valueByte
		case b >= 'a' && b <= 'z':
			class[b] = lowerByte | valueByte
		case b >= 'A' && b <= 'Z':
			class[b] = upperByte | valueByte
		}
	}
	for _, b := range []byte("abcdefABCDEF") {
		class[b] |= hexByte
	}
	for _, b := range []byte("_-+/.~") {
		class[b] |= valueByte | separatorByte
	}
	for _, b := range []byte{'\\', '%', '&', noBreakLead, typesetLead, wideLead, escapeLead} {
		class[b] |= escapeByte
	}
	for _, b := range []byte(" \t\r\n\v\f") {
		class[b] |= spaceByte
	}
	return class
}

func isDigit(b byte) bool  { return byteClass[b]&digitByte != 0 }
func isLetter(b byte) bool { return byteClass[b]&(lowerByte|upperByte) != 0 }
func isAlnum(b byte) bool  { return byteClass[b]&(lowerByte|upperByte|digitByte) != 0 }
func isHex(b byte) bool    { return byteClass[b]&hexByte != 0 }
func isSpace(b byte) bool  { return byteClass[b]&spaceByte != 0 }
func isUpper(b byte) bool  { return byteClass[b]&upperByte != 0 }
func isLower(b byte) bool  { return byteClass[b]&lowerByte != 0 }

// isWordByte says whether a byte may stand in a name; bytes of other scripts count as letters.
func isWordByte(b byte) bool { return isAlnum(b) || b == '_' || b >= 0x80 }

// allBytes says whether every byte of a text passes, and the text is not empty.
func allBytes(text string, pass func(byte) bool) bool {
	for position := range len(text) {
		if !pass(text[position]) {
			return false
		}
	}
	return text != ""
}
