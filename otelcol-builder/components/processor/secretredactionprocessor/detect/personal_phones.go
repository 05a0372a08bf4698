package detect

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// phoneReach is how far before a number a word that calls it a telephone number is looked for.
	phoneReach = 32
	// shortestPlain is how many digits a number with a plus sign and without groups has when nothing calls it a telephone number.
	shortestPlain = 10
)

// phoneWords call a number a telephone number, in the languages of the grouping that the rules know.
const phoneWords = "phone telephone cellphone smartphone tel tel. telf mobile mobil mob cell call calling dial dialled reach contact my_number your_number his_number her_number their_number new_number sms fax whatsapp" +
	" telefon telefonnummer mobiltelefon mobilnummer handy handynummer rufnummer téléphone telephone portable teléfono telefono móvil" +
	" cellulare telefone celular fone telefoon telefoonnummer bel telefonu телефон тел 电话 電話 手机 手機 携帯 전화 휴대폰"

// phoneFinder says in one pass whether any of the words may be there: before most numbers none is.
var phoneFinder = func() *automaton {
	var words []word
	for text := range strings.FieldsSeq(phoneWords) {
		forms := []string{text, strings.ReplaceAll(text, "_", " "), strings.ReplaceAll(text, "_", "-")}
		if first, size := utf8.DecodeRuneInString(text); size > 1 { // the automaton folds only ASCII
			forms = append(forms, string(unicode.ToUpper(first))+text[size:])
		}
		for _, form := range forms {
			words = append(words, word{text: form})
		}
	}
	return newAutomaton(words)
}()

// phone masks telephone numbers: with a country code, or in the grouping of a country, or called so.
func (s *scan) phone(start, end int) {
	text := s.text
	from := start
	plus := from > 0 && text[from-1] == '+'
	if from > 0 && text[from-1] == '(' && strings.IndexByte(text[start:end], ')') > 0 {
		from--
		plus = from > 0 && text[from-1] == '+'
	}
	if code, found := countryCodeBefore(text, from); found && isNorthAmerican(text[from:end]) {
		s.addPersonal(code, end, "phone")
		return
	}
	if plus {
		end = withoutNeighbours(text, start, end)
	}
	piece := text[start:end]
	digits := digitsOf(piece)
	if len(digits) < 7 || len(digits) > 15 {
		return
	}
	if plus {
		if from--; s.isPlusNumber(from, end, piece, digits) {
			if from > 0 && text[from-1] == '(' && strings.Count(piece, ")") > strings.Count(piece, "(") { // (+49) 30 1234567
				from--
			}
			s.addPersonal(from, end, "phone")
		}
		return
	}
	if isNorthAmerican(text[from:end]) || isBrazilian(text[from:end]) || isEuropean(piece) || isInternational(piece, digits) ||
		isWrittenAsPhone(piece, digits) && s.saysPhone(from) && !isCounted(text, end) {
		s.addPersonal(from, end, "phone")
	}
}

// countryCodeBefore returns where the "+1 " in front of an area code in brackets begins.
func countryCodeBefore(text string, bracket int) (int, bool) {
	if bracket < 3 || bracket >= len(text) || text[bracket] != '(' || text[bracket-3:bracket] != "+1 " && text[bracket-3:bracket] != "+1-" || wordEndsAt(text, bracket-3) {
		return 0, false
	}
	return bracket - 3, true
}

// units are what a number counts that stands before them.
var units = setOf("ns us ms s b kb mb gb bytes tokens steps samples calls items rows params flops")

// isCounted says whether a unit follows a number.
func isCounted(text string, end int) bool {
	if end >= len(text) || text[end] != ' ' {
		return false
	}
	stop := end + 1
	for limit := min(len(text), end+9); stop < limit && isLetter(text[stop]); {
		stop++
	}
	return units[strings.ToLower(text[end+1:stop])]
}

// isPlusNumber says whether a number behind a plus sign is a telephone number, and no sum, decimal number or count.
func (s *scan) isPlusNumber(plus, end int, piece, digits string) bool {
	if wordEndsAt(s.text, plus) || digits[0] == '0' || len(digits) < 8 || strings.Contains(piece, "/") || isSum(s.text, plus, end) {
		return false
	}
	if strings.Count(piece, ".") == 1 && !strings.ContainsAny(piece, " -") {
		return false // a decimal number
	}
	if len(piece) > len(digits) {
		return true
	}
	return !isCounted(s.text, end) && (len(digits) >= shortestPlain || s.saysPhone(plus))
}

// withoutNeighbours ends a number behind a plus sign before what is no part of it: a time, or what follows the eleven digits
// of a North American number.
func withoutNeighbours(text string, start, end int) int {
	if end+1 < len(text) && text[end] == ':' && isDigit(text[end+1]) {
		if blank := strings.LastIndexByte(text[start:end], ' '); blank > 0 {
			end = start + blank
		}
	}
	if text[start] != '1' {
		return end
	}
	count := 0
	for position := start; position < end; position++ {
		if isDigit(text[position]) {
			count++
		} else if count == 11 && text[position] == ' ' {
			return position
		}
	}
	return end
}

// isWrittenAsPhone says whether a number that is called a telephone number has the length and the grouping of one.
func isWrittenAsPhone(piece, digits string) bool {
	separators := len(piece) - len(digits)
	return len(digits) >= 9 && len(digits) <= 13 && separators*2 <= len(digits) && !strings.Contains(piece, ".")
}

// isBrazilian matches (11) 91234-5678.
func isBrazilian(piece string) bool {
	if len(piece) < 13 || piece[0] != '(' || piece[3] != ')' || piece[1] == '0' || piece[2] == '0' {
		return false
	}
	first, last, found := strings.Cut(strings.TrimPrefix(piece[4:], " "), "-")
	return found && len(last) == 4 && allBytes(last, isDigit) && allBytes(first, isDigit) && (len(first) == 4 || len(first) == 5 && first[0] == '9')
}

// isInternational matches 0049 30 12345678: two zeros and a country code, then groups that are not filled up with zeros.
func isInternational(piece, digits string) bool {
	groups := strings.FieldsFunc(piece, func(character rune) bool { return character == ' ' || character == '-' })
	if len(groups) < 3 || !strings.HasPrefix(piece, "00") || digits[2] == '0' || len(digits) < 11 || strings.ContainsAny(piece, "./()") {
		return false
	}
	return len(groups[0]) >= 4 && len(groups[0]) <= 5 && groups[1][0] != '0'
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
	for _, country := range []string{"001-", "1-", "1 "} {
		piece = strings.TrimPrefix(piece, country)
	}
	digits := digitsOf(piece)
	if len(digits) != 10 || digits[0] < '2' {
		return false
	}
	piece = strings.TrimPrefix(piece, "(")
	switch {
	case bracket && len(piece) >= 12 && piece[3] == ')':
		rest := strings.TrimLeft(piece[4:], " -")
		return len(rest) == 8 && (rest[3] == '-' || rest[3] == ' ' || rest[3] == '.')
	case len(piece) == 12 && piece[3] == piece[7] && (piece[3] == '-' || piece[3] == '.'):
		return true
	}
	return false
}

// isEuropean matches numbers with a trunk zero in groups, such as 030 1234 5678, 020 7946 0123, 06 12 34 56 78, 0171/1234567,
// 07700 900123. Digits that are all 0 or 1 are binary ones.
func isEuropean(piece string) bool {
	digits := digitsOf(piece)
	if piece[0] != '0' || len(piece) < 2 || piece[1] == '0' || len(digits) < 9 || len(digits) > 12 || strings.Trim(digits, "01") == "" {
		return false
	}
	if strings.Count(piece, ".") == 4 && len(piece) == len("06.12.34.56.78") {
		return piece[2] == '.' && piece[5] == '.' && piece[8] == '.' && piece[11] == '.'
	}
	if slash := strings.IndexByte(piece, '/'); slash >= 3 && slash <= 6 && strings.Count(piece, "/") == 1 {
		return true
	}
	groups := strings.FieldsFunc(piece, func(character rune) bool { return character == ' ' || character == '-' })
	if strings.ContainsAny(piece, "./()") || len(groups) < 2 {
		return false
	}
	if len(groups) == 2 {
		return isMobile(groups[0], groups[1])
	}
	pairs := len(groups) == 5
	for _, group := range groups {
		pairs = pairs && len(group) == 2
	}
	return pairs || len(groups) <= 4 && len(groups[0]) >= 3 && len(groups[0]) <= 5
}

// isMobile matches the British 07700 900123, the German 0171 1234567 and the Dutch 06-12345678.
func isMobile(first, rest string) bool {
	switch len(first) {
	case 2:
		return first == "06" && len(rest) == 8
	case 4:
		return first[1] == '1' && first[2] >= '5' && first[2] <= '7' && (len(rest) == 7 || len(rest) == 8)
	case 5:
		return first[1] == '7' && len(rest) == 6
	}
	return false
}

// saysPhone says whether the words before a number call it a telephone number. A call of a tool is none.
func (s *scan) saysPhone(start int) bool {
	before := s.text[max(0, start-phoneReach):start]
	return phoneFinder.holdsWord(before) && namesNear(before, phoneWords) && !namesNear(before, "tool function")
}

// extensionEnd returns where the extension behind a North American number ends: 463-612-6138x036.
func (s *scan) extensionEnd(start, end int) int {
	at := end
	if at >= len(s.text) || s.text[at] != 'x' || !isNorthAmerican(s.text[s.beforeBracket(start):end]) {
		return end
	}
	for at++; at < len(s.text) && isDigit(s.text[at]); {
		at++
	}
	if at-end < 2 || at-end > 7 || wordBeginsAt(s.text, at) {
		return end
	}
	return at
}

// beforeBracket widens a number by the bracket of its area code.
func (s *scan) beforeBracket(start int) int {
	if start > 0 && s.text[start-1] == '(' {
		return start - 1
	}
	return start
}
