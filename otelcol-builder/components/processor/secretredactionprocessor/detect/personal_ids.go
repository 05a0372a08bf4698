package detect

import (
	"strings"
)

// wordReach is how far before a number its name is looked for.
const wordReach = 40

// nationalID is a number that a state gives its people, with what tells it from other numbers.
type nationalID struct {
	class string
	words string                          // one of these stands near it, for numbers whose form says little
	valid func(digits string) bool        // of numbers that consist of digits
	form  func(piece, digits string) bool // a way to write it that needs no word
	// lettered matches numbers that hold letters, in capitals and without separators.
	lettered func(compact string) bool
}

var nationalIDs = []nationalID{
	{class: "us_social_security_number", words: "ssn social_security socialsecurity", valid: validSocialSecurity, form: inGroups("3-2-4")},
	{class: "de_tax_id", words: "steuer tax idnr identifikationsnummer", valid: validGerman},
	{class: "nl_citizen_number", words: "bsn burgerservicenummer sofi sofinummer", valid: func(digits string) bool {
		return len(digits) == 9 && weighted(digits, []int{9, 8, 7, 6, 5, 4, 3, 2, -1})%11 == 0
	}},
	{class: "pl_national_id", words: "pesel", valid: func(digits string) bool {
		return len(digits) == 11 && weighted(digits, []int{1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1})%10 == 0
	}},
	{
		class: "fr_social_security_number", words: "insee nir secu sécu securite sécurité", valid: validFrench, form: inGroups("1 2 2 2 3 3 2"),
		lettered: validCorsican,
	},
	{class: "br_taxpayer_number", words: "cpf", valid: validBrazilian, form: inGroups("3.3.3-2")},
	{class: "in_aadhaar_number", words: "aadhaar aadhar adhaar uidai आधार", valid: func(digits string) bool {
		return len(digits) == 12 && digits[0] >= '2' && verhoeff(digits)
	}},
	{class: swedish, words: "personnummer personnr pers.nr persnr pnr personal samordningsnummer", valid: validSwedish},
	{class: "ca_social_insurance_number", words: "sin nas insurance assurance", valid: func(digits string) bool {
		return len(digits) == 9 && passesLuhn(digits) && digits[0] != '0'
	}},
	{class: "au_tax_file_number", words: "tfn tax", valid: func(digits string) bool {
		return len(digits) == 9 && weighted(digits, []int{1, 4, 3, 7, 5, 8, 6, 9, 10})%11 == 0
	}},
	{class: "cn_resident_id", valid: validChinese, form: inGroups("6 8 4"), lettered: validChinese},
	{class: spanish, words: "dni nif nie d.n.i n.i.f n.i.e documento", lettered: validSpanish},
	{class: italian, lettered: validItalian},
	{class: british, lettered: validBritish},
}

// Classes with a way of their own to be written: the first two with blanks between letters and digits.
const (
	british = "uk_national_insurance_number"
	italian = "it_fiscal_code"
	// spanish is the class that is also written with dots.
	spanish = "es_national_id"
	// swedish is the class that has a plus sign for whoever is a hundred years old.
	swedish = "se_personal_number"
)

// inGroups returns what says whether a number is written in such groups, with such separators.
func inGroups(format string) func(piece, digits string) bool {
	return func(piece, _ string) bool {
		position := 0
		for _, part := range []byte(format) {
			if !isDigit(part) {
				if position >= len(piece) || piece[position] != part {
					return false
				}
				position++
				continue
			}
			for range part - '0' {
				if position >= len(piece) || !isDigit(piece[position]) {
					return false
				}
				position++
			}
		}
		return position == len(piece)
	}
}

// national masks the numbers that consist of digits, and those with blanks around theirs.
func (s *scan) national(start, end int) bool {
	chosen := s.detector.personal.nationals
	if len(chosen) == 0 {
		return false
	}
	piece := s.text[start:end]
	digits := digitsOf(piece)
	for _, id := range chosen {
		if id.class == british && s.spacedBritish(start, end, digits) || id.class == spanish && s.spacedSpanish(id, start, end, digits) {
			return true
		}
		number, stop := digits, end
		if id.class == swedish && end < len(s.text) && s.text[end] == '+' && digitsEnd(s.text, end+1) == end+5 {
			stop = end + 5
			number += s.text[end+1 : stop]
		}
		if id.valid == nil || !id.valid(number) || wordBeginsAt(s.text, stop) {
			continue
		}
		if id.form != nil && id.form(piece, digits) || namesNear(s.text[max(0, start-wordReach):start], id.words) {
			s.addPersonal(start, stop, id.class)
			return true
		}
	}
	return false
}

// spacedBritish masks AB 12 34 56 C: two letters, six digits in pairs or together, one letter.
func (s *scan) spacedBritish(start, end int, digits string) bool {
	text := s.text
	if len(digits) != 6 || !(end-start == 6 || inGroups("2 2 2")(text[start:end], digits)) {
		return false
	}
	if start < 3 || end+2 > len(text) || text[start-1] != ' ' || text[end] != ' ' || wordEndsAt(text, start-3) || wordBeginsAt(text, end+2) {
		return false
	}
	if !validBritish(text[start-3:start-1] + digits + text[end+1:end+2]) {
		return false
	}
	s.addPersonal(start-3, end+2, british)
	return true
}

// spacedSpanish masks 12345678 Z, 12.345.678 Z and X 1234567 L behind their name.
func (s *scan) spacedSpanish(id nationalID, start, end int, digits string) bool {
	text := s.text
	if len(digits) != 7 && len(digits) != 8 || end+2 > len(text) || text[end] != ' ' || wordBeginsAt(text, end+2) {
		return false
	}
	from, prefix := start, ""
	if len(digits) == 7 && start >= 2 && text[start-1] == ' ' && !wordEndsAt(text, start-2) {
		from, prefix = start-2, text[start-2:start-1]
	}
	if !validSpanish(prefix+digits+text[end+1:end+2]) || !namesNear(text[max(0, from-wordReach):from], id.words) {
		return false
	}
	s.addPersonal(from, end+2, spanish)
	return true
}

// spacedItalian masks RSSMRA 85T10 A562S and RSS MRA 85T10 A562S, whose first digit stands at the start.
func (s *scan) spacedItalian(start int) bool {
	text := s.text
	end := start + len("85T10 A562S")
	if start < 7 || end > len(text) || text[start-1] != ' ' || text[start+5] != ' ' || !isUpper(text[start+2]) || wordBeginsAt(text, end) {
		return false
	}
	from, letters := start-7, text[start-7:start-1]
	if text[start-5] == ' ' && start >= 8 {
		from, letters = start-8, text[start-8:start-5]+text[start-4:start-1]
	}
	if wordEndsAt(text, from) || !validItalian(letters+text[start:start+5]+text[start+6:end]) {
		return false
	}
	s.addPersonal(from, end, italian)
	return true
}

const (
	// shortestLettered and longestLettered are the lengths of the numbers with letters, separators counted.
	shortestLettered = 9
	longestLettered  = 24
)

// lettered finds the numbers that hold letters, in the runs of letters and digits of a text.
func (s *scan) lettered() {
	if len(s.detector.personal.nationals) == 0 {
		return
	}
	for _, run := range s.runs {
		if slash := strings.IndexByte(s.text[run.start:run.end], '/'); slash >= 0 && run.end-run.start <= 2*longestLettered {
			s.letteredRun(run.start, s.text[run.start:run.start+slash])
			run.start += slash + 1
		}
		s.letteredRun(run.start, s.text[run.start:run.end])
	}
}

func (s *scan) letteredRun(start int, text string) {
	text = strings.TrimRight(text, ".-")
	if len(text) < shortestLettered || len(text) > longestLettered {
		return
	}
	var buffer [longestLettered]byte
	compact, small, dots := buffer[:0], false, false
	for position := range len(text) {
		switch character := text[position]; {
		case isLower(character):
			compact, small = append(compact, character-caseBit(character)), true
		case isAlnum(character):
			compact = append(compact, character)
		case character == '.':
			dots = true
		case character != '-':
			return
		}
	}
	number := string(compact)
	if small && text != strings.ToLower(text) || dots && !dottedSpanish(text) {
		return
	}
	for _, id := range s.detector.personal.nationals {
		if id.lettered == nil || id.class == british && small || dots && id.class != spanish {
			continue
		}
		if id.lettered(number) {
			s.addPersonal(start, start+len(text), id.class)
		}
	}
}

// dottedSpanish says whether a number has dots between its thousands: 12.345.678-Z, X-1.234.567-L.
func dottedSpanish(text string) bool {
	digits := strings.TrimRight(text[:len(text)-1], "-")
	groups := strings.Split(strings.TrimLeft(digits, "XYZxyz-."), ".")
	return len(groups) == 3 && len(groups[0]) <= 2 && len(groups[1]) == 3 && len(groups[2]) == 3
}

func weighted(digits string, weights []int) int {
	sum := 0
	for position, weight := range weights {
		sum += int(digits[position]-'0') * weight
	}
	return sum
}

// validSocialSecurity matches numbers that are given out.
func validSocialSecurity(digits string) bool {
	return len(digits) == 9 && digits[:3] != "000" && digits[:3] != "666" && digits[0] != '9' && digits[3:5] != "00" && digits[5:] != "0000"
}

func validGerman(digits string) bool {
	return len(digits) == 11 && digits[0] != '0' && validISO7064(digits)
}

func validISO7064(digits string) bool {
	product := 10
	for position := range len(digits) - 1 {
		sum := (int(digits[position]-'0') + product) % 10
		if sum == 0 {
			sum = 10
		}
		product = sum * 2 % 11
	}
	check := 11 - product
	if check == 10 {
		check = 0
	}
	return check == int(digits[len(digits)-1]-'0')
}

func validFrench(digits string) bool {
	if len(digits) != 15 || digits[0] != '1' && digits[0] != '2' {
		return false
	}
	return 97-number(digits[:13])%97 == number(digits[13:])
}

// validCorsican matches the numbers of those born in the departments 2A and 2B, which count as 19 and 18.
func validCorsican(text string) bool {
	if len(text) != 15 || text[5] != '2' || text[6] != 'A' && text[6] != 'B' || !allBytes(text[:5], isDigit) || !allBytes(text[7:], isDigit) {
		return false
	}
	return validFrench(text[:5] + map[byte]string{'A': "19", 'B': "18"}[text[6]] + text[7:])
}

func validBrazilian(digits string) bool {
	if len(digits) != 11 || strings.Trim(digits, digits[:1]) == "" {
		return false
	}
	first := weighted(digits, []int{10, 9, 8, 7, 6, 5, 4, 3, 2}) * 10 % 11 % 10
	second := weighted(digits, []int{11, 10, 9, 8, 7, 6, 5, 4, 3, 2}) * 10 % 11 % 10
	return first == int(digits[9]-'0') && second == int(digits[10]-'0')
}

func validSwedish(digits string) bool {
	if len(digits) == 12 {
		digits = digits[2:]
	}
	return len(digits) == 10 && passesLuhn(digits)
}

var (
	verhoeffProduct = [10]string{"0123456789", "1234067895", "2340178956", "3401289567", "4012395678", "5987604321", "6598710432", "7659821043", "8765932104", "9876543210"}
	verhoeffPlace   = [8]string{"0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258"}
)

func verhoeff(digits string) bool {
	check := byte('0')
	for position := range len(digits) {
		digit := verhoeffPlace[position%8][digits[len(digits)-1-position]-'0']
		check = verhoeffProduct[check-'0'][digit-'0']
	}
	return check == '0'
}

func validChinese(text string) bool {
	if len(text) != 18 || !allBytes(text[:17], isDigit) || text[6:8] != "19" && text[6:8] != "20" {
		return false
	}
	if month, day := number(text[10:12]), number(text[12:14]); month < 1 || month > 12 || day < 1 || day > 31 {
		return false
	}
	sum := weighted(text, []int{7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2})
	return text[17] == "10X98765432"[sum%11]
}

func validSpanish(text string) bool {
	if len(text) != 9 || !allBytes(text[1:8], isDigit) || !isLetter(text[8]) {
		return false
	}
	digits := text[:8]
	if place := strings.IndexByte("XYZ", text[0]); place >= 0 {
		digits = string("012"[place]) + text[1:8]
	} else if !isDigit(text[0]) {
		return false
	}
	return "TRWAGMYFPDXBNJZSQVHLCKE"[number(digits)%23] == text[8]
}

func validItalian(text string) bool {
	if len(text) != 16 {
		return false
	}
	for position, kind := range "LLLLLLDDLDDLDDDL" {
		if kind == 'L' && !isUpper(text[position]) || kind == 'D' && !isDigit(text[position]) {
			return false
		}
	}
	odd := [...]int{1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23}
	sum := 0
	for position := range 15 {
		value := int(text[position] - 'A')
		if isDigit(text[position]) {
			value = int(text[position] - '0')
		}
		if position%2 == 0 {
			value = odd[value]
		}
		sum += value
	}
	return byte('A'+sum%26) == text[15]
}

func validBritish(text string) bool {
	if len(text) != 9 || !allBytes(text[:2], isUpper) || !allBytes(text[2:8], isDigit) || text[8] < 'A' || text[8] > 'D' {
		return false
	}
	return strings.IndexByte("DFIQUV", text[0]) < 0 && strings.IndexByte("DFIQUVO", text[1]) < 0
}
