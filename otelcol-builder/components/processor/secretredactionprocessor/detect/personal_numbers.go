package detect

import "strings"

// card masks payment card numbers: a known prefix and length, the check digit of Luhn, usual grouping.
func (s *scan) card(start, end int) bool {
	piece := s.text[start:end]
	if len(piece) < 13 || len(piece) > 23 || strings.ContainsAny(piece, "./()") {
		return false
	}
	digits := digitsOf(piece)
	if !isCardNumber(digits) || !usualCardGroups(piece) || strings.Trim(digits, digits[:1]) == "" {
		return false
	}
	if len(piece) == len(digits) && (s.countsSomething(start) || len(digits) > 16) {
		return false
	}
	s.addPersonal(start, end, "card")
	return true
}

// countsSomething says whether a plain number is the value of a metric, a time or an id rather than a card.
func (s *scan) countsSomething(start int) bool {
	before := strings.ToLower(s.text[max(0, start-24):start])
	for _, word := range []string{"card", "visa", "master", "amex", "pan", "cc", "credit", "payment", "discover"} {
		if strings.Contains(before, word) {
			return false
		}
	}
	for _, word := range []string{"id", "time", "_ns", "_us", "stamp", "seed", "count", "bytes", "tokens", "offset", "seq", "hash", "pid", "addr", "size", "total"} {
		if strings.Contains(before, word) {
			return true
		}
	}
	return false
}

func isCardNumber(digits string) bool {
	if len(digits) < 13 || len(digits) > 19 || !passesLuhn(digits) {
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
	case four == 6011, two == 65, four >= 6440 && four <= 6499, two == 62, four >= 3528 && four <= 3589:
		return len(digits) == 16 || len(digits) == 19
	case two == 50, two == 56, two == 57, two == 58, two == 63, two == 67:
		return len(digits) == 16
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

// phone masks telephone numbers: with a country code and plus sign, or in the grouping of a country, or called so.
func (s *scan) phone(start, end int) {
	text := s.text
	piece := text[start:end]
	digits := digitsOf(piece)
	if len(digits) < 7 || len(digits) > 15 {
		return
	}
	from := start
	plus := from > 0 && text[from-1] == '+'
	if from > 0 && text[from-1] == '(' {
		from--
		plus = from > 0 && text[from-1] == '+'
	}
	if plus {
		if from--; from > 0 && isWordByte(text[from-1]) || digits[0] == '0' || len(digits) < 8 || strings.Contains(piece, "/") || isSum(text, from, end) {
			return
		}
		if strings.Count(piece, ".") == 1 && !strings.ContainsAny(piece, " -") {
			return // a decimal number
		}
		s.addPersonal(from, end, "phone")
		return
	}
	if isNorthAmerican(text[from:end]) || s.saysPhone(from) && len(digits) >= 9 && len(digits) <= 13 && !strings.Contains(piece, ".") || isEuropean(piece) {
		s.addPersonal(from, end, "phone")
	}
}

// isSum says whether a plus sign adds numbers.
func isSum(text string, plus, end int) bool {
	before := strings.TrimRight(text[max(0, plus-3):plus], " ")
	after := strings.TrimLeft(text[end:min(len(text), end+3)], " ")
	return before != "" && isDigit(before[len(before)-1]) || after != "" && (after[0] == '=' || after[0] == '+' || after[0] == '*')
}

// isNorthAmerican matches (212) 555-0123, 212-555-0123, 212.555.0123 and 1-212-555-0123.
func isNorthAmerican(piece string) bool {
	bracket := strings.HasPrefix(piece, "(")
	piece = strings.TrimPrefix(strings.TrimPrefix(piece, "1-"), "1 ")
	digits := digitsOf(piece)
	if len(digits) != 10 || digits[0] < '2' || digits[3] < '2' {
		return false
	}
	piece = strings.TrimPrefix(piece, "(")
	switch {
	case bracket && len(piece) >= 12 && piece[3] == ')':
		rest := strings.TrimLeft(piece[4:], " ")
		return len(rest) == 8 && (rest[3] == '-' || rest[3] == ' ' || rest[3] == '.')
	case len(piece) == 12 && piece[3] == piece[7] && (piece[3] == '-' || piece[3] == '.'):
		return true
	}
	return false
}

// isEuropean matches numbers with a trunk zero in groups, such as 030 1234 5678, 020 7946 0123, 06 12 34 56 78, 0171/1234567.
func isEuropean(piece string) bool {
	digits := digitsOf(piece)
	if piece[0] != '0' || len(piece) < 2 || piece[1] == '0' || len(digits) < 9 || len(digits) > 12 {
		return false
	}
	if slash := strings.IndexByte(piece, '/'); slash >= 3 && slash <= 6 && strings.Count(piece, "/") == 1 {
		return true
	}
	groups := strings.FieldsFunc(piece, func(character rune) bool { return character == ' ' || character == '-' })
	if strings.ContainsAny(piece, "./()") || len(groups) < 3 {
		return false
	}
	pairs := len(groups) == 5
	for _, group := range groups {
		pairs = pairs && len(group) == 2
	}
	return pairs || len(groups) <= 4 && len(groups[0]) >= 3 && len(groups[0]) <= 5
}

// saysPhone says whether the words before a number call it a telephone number.
func (s *scan) saysPhone(start int) bool {
	before := strings.ToLower(s.text[max(0, start-20):start])
	for _, word := range []string{"phone", "tel:", "tel.", "tel ", "mobile", "cell", "fax", "call ", "whatsapp", "telefon", "handy"} {
		if strings.Contains(before, word) {
			return true
		}
	}
	return false
}
