package detect

import "strings"

// numbers walks over the groups of digits of a text and asks for cards, phones, IBANs and national numbers.
func (s *scan) numbers() {
	chosen := &s.detector.personal
	if s.classes&digitByte == 0 || !chosen.card && !chosen.phone && !chosen.iban && !chosen.address && len(chosen.nationals) == 0 {
		return
	}
	text := s.text
	for position := 0; position < len(text); position++ {
		if !isDigit(text[position]) {
			continue
		}
		if !s.goOn(stepsOfGroup) {
			return
		}
		if chosen.iban && position >= 2 && s.bankAccount(position-2) {
			position = s.groupEnd(position)
			continue
		}
		if chosen.address {
			if end, found := s.address4(position); found {
				position = end - 1
				continue
			}
		}
		if chosen.italian && s.spacedItalian(position) {
			position = s.groupEnd(position)
			continue
		}
		end := s.groupEnd(position)
		if chosen.address {
			end = beforeAddress(text, position, end)
		}
		s.numberGroup(position, end)
		position = end
	}
}

// groupEnd returns where a group of digits with single separators between them ends.
func (s *scan) groupEnd(position int) int {
	text := s.text
	for limit := min(len(text), position+40); position < limit; {
		if isDigit(text[position]) {
			position++
			continue
		}
		next := position + 1
		if next < limit && text[position] == ')' && (text[next] == ' ' || text[next] == '-') {
			next++
		}
		if (text[position] == ' ' || text[position] == '-') && strings.HasPrefix(text[next:limit], "(0)") { // +49 (0)30 1234567
			next++
		}
		if next >= len(text) || !isDigit(text[next]) || strings.IndexByte(" -.()/", text[position]) < 0 {
			return position
		}
		position = next
	}
	for position < len(text) && isDigit(text[position]) {
		position++
	}
	return position
}

// beforeAddress cuts a group of numbers in front of an IPv4 address, as in "64 10.1.2.3".
func beforeAddress(text string, start, end int) int {
	if strings.Count(text[start:end], ".") < 3 {
		return end
	}
	for position := start; position < end; position++ {
		if text[position] == ' ' || text[position] == '(' || text[position] == '/' {
			if _, found := dottedEnd(text, position+1); found {
				return position
			}
		}
	}
	return end
}

func (s *scan) numberGroup(start, end int) {
	chosen := &s.detector.personal
	if wordEndsAt(s.text, start) || start > 0 && (s.text[start-1] == '.' || s.text[start-1] == '-' && start > 1 && isWordByte(s.text[start-2])) {
		return
	}
	if extended := s.extensionEnd(start, end); extended > end && chosen.phone {
		s.addPersonal(s.beforeBracket(start), extended, "phone")
		return
	}
	if wordBeginsAt(s.text, end) || end < len(s.text) && s.text[end] == '-' && wordBeginsAt(s.text, end+1) {
		return
	}
	if chosen.card && s.card(start, end) || s.national(start, end) {
		return
	}
	if chosen.phone {
		s.phone(start, end)
	}
}

// digitsOf returns the digits of a piece, at most 24 of them.
func digitsOf(text string) string {
	var buffer [24]byte
	count := 0
	for position := range len(text) {
		if isDigit(text[position]) && count < len(buffer) {
			buffer[count] = text[position]
			count++
		}
	}
	return string(buffer[:count])
}

// card masks payment card numbers: a known prefix and length, the check digit of Luhn, usual grouping.
func (s *scan) card(start, end int) bool {
	piece := s.text[start:end]
	if expiry := strings.IndexByte(piece, '/'); expiry > 13 && expiry <= len(piece)-3 && piece[expiry-3] == ' ' {
		piece = piece[:expiry-3] // 4111 1111 1111 1111 12/29
		end = start + len(piece)
	}
	if len(piece) < 12 || len(piece) > 23 || strings.ContainsAny(piece, "./()") {
		return false
	}
	digits := digitsOf(piece)
	if !isCardNumber(digits) || !usualCardGroups(piece) || strings.Trim(digits, digits[:1]) == "" {
		return false
	}
	if len(piece) == len(digits) && !s.speaksOfCard(start, end) && (s.countsSomething(start) || isCounted(s.text, end) || !isCommonCard(digits) && !s.inSentence(start)) {
		return false
	}
	s.addPersonal(start, end, "card")
	return true
}

// cardWords stand near the number of a card.
const cardWords = "card visa master amex maestro pan cc ccn credit creditcard debit payment discover kredit carte tarjeta 卡"

// speaksOfCard says whether a word near a number calls it that of a card.
func (s *scan) speaksOfCard(start, end int) bool {
	return namesNear(s.text[max(0, start-24):start], cardWords) || namesNear(s.text[end:min(len(s.text), end+24)], cardWords)
}

// inSentence says whether a number follows a word and a blank.
func (s *scan) inSentence(start int) bool {
	return start > 2 && s.text[start-1] == ' ' && isLetter(s.text[start-2]) && isLetter(s.text[start-3])
}

// isCommonCard says whether digits have a length that nothing but cards has often: not that of large numbers and times.
func isCommonCard(digits string) bool { return len(digits) >= 13 && len(digits) <= 16 }

// countsSomething says whether a plain number is the value of a metric, a time or an id rather than a card.
func (s *scan) countsSomething(start int) bool {
	before := strings.ToLower(s.text[max(0, start-24):start])
	for _, word := range []string{"id", "time", "_ns", "_us", "stamp", "seed", "count", "bytes", "tokens", "offset", "seq", "hash", "pid", "addr", "size", "total"} {
		if strings.Contains(before, word) {
			return true
		}
	}
	return false
}

func isCardNumber(digits string) bool {
	if len(digits) < 12 || len(digits) > 19 || !passesLuhn(digits) {
		return false
	}
	two, four := number(digits[:2]), number(digits[:4])
	switch {
	case digits[0] == '4':
		return len(digits) == 13 || len(digits) == 16 || len(digits) == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720:
		return len(digits) == 16
	case two == 34, two == 37:
		return len(digits) == 15
	case two == 36, two == 38, two == 39, four >= 3000 && four <= 3059:
		return len(digits) == 14
	case four == 6011, two == 65, four >= 6440 && four <= 6499, two == 62, two == 35:
		return len(digits) == 16 || len(digits) == 19
	case four == 1800, four == 2131:
		return len(digits) == 15
	case two == 50, two == 56, two == 57, two == 58, two == 63, two == 67: // of these networks any length
		return true
	}
	return false
}

// usualCardGroups says whether the digits stand together or in the groups printed on cards.
func usualCardGroups(piece string) bool {
	separator := byte(0)
	var groups []int
	length := 0
	for position := range len(piece) {
		if isDigit(piece[position]) {
			length++
			continue
		}
		if separator != 0 && piece[position] != separator {
			return false
		}
		separator = piece[position]
		groups = append(groups, length)
		length = 0
	}
	groups = append(groups, length)
	switch len(groups) {
	case 1:
		return true
	case 3:
		return groups[0] == 4 && groups[1] == 6 && groups[2] >= 4
	case 4, 5:
		return groups[0] == 4 && groups[1] == 4 && groups[2] == 4
	}
	return false
}

func number(digits string) int {
	value := 0
	for position := range len(digits) {
		value = value*10 + int(digits[position]-'0')
	}
	return value
}

func passesLuhn(digits string) bool {
	sum := 0
	for position := range len(digits) {
		digit := int(digits[len(digits)-1-position] - '0')
		if position%2 == 1 {
			digit *= 2
			if digit > 9 {
				digit -= 9
			}
		}
		sum += digit
	}
	return sum%10 == 0
}
