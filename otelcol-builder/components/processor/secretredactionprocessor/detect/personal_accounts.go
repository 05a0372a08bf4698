package detect

import "strings"

var ibanLengths = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21, "CR": 22,
	"CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22,
	"GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30,
	"KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27,
	"MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31,
	"SE": 24, "SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}

// bankAccount masks an IBAN: a country, its length, and the check digits, in one case and with one separator between groups.
func (s *scan) bankAccount(start int) bool {
	text := s.text
	if !isLetter(text[start]) || isUpper(text[start]) != isUpper(text[start+1]) || !isLetter(text[start+1]) || wordEndsAt(text, start) {
		return false
	}
	inCase := isUpper
	if isLower(text[start]) {
		inCase = isLower
	}
	length := ibanLengths[strings.ToUpper(text[start:start+2])]
	if length == 0 {
		return false
	}
	var compact [40]byte
	var separator byte
	count, position := 0, start
	for position < len(text) && count < length {
		character := text[position]
		switch {
		case isDigit(character) || inCase(character):
			compact[count] = character &^ caseBit(character)
			count++
		case character != ' ' && character != '-' || count%4 != 0 || separator != 0 && separator != character,
			position+1 >= len(text) || !isAlnum(text[position+1]):
			return false
		default:
			separator = character
		}
		position++
	}
	if count < length || wordBeginsAt(text, position) || !passesMod97(compact[:count]) {
		return false
	}
	s.addPersonal(start, position, "iban")
	return true
}

// caseBit is what a small letter has and a capital has not.
func caseBit(character byte) byte {
	if isLower(character) {
		return 'a' - 'A'
	}
	return 0
}

func passesMod97(account []byte) bool {
	remainder := 0
	for index := range account {
		character := account[(index+4)%len(account)]
		if isDigit(character) {
			remainder = (remainder*10 + int(character-'0')) % 97
		} else {
			remainder = (remainder*100 + int(character-'A') + 10) % 97
		}
	}
	return remainder == 1
}
