package detect

import (
	"strings"
)

// nationalID is a number that a state gives its people, with what tells it from other numbers.
type nationalID struct {
	class string
	words string // one of these stands near it, for numbers whose form says little
	valid func(piece, digits string) bool
}

var nationalIDs = []nationalID{
	{"us_social_security_number", "", validSocialSecurity},
	{"de_tax_id", "steuer tax idnr identifikationsnummer", func(piece, digits string) bool { return len(digits) == 11 && digits[0] != '0' && validISO7064(digits) }},
	{"nl_citizen_number", "bsn burgerservicenummer sofi", func(piece, digits string) bool {
		return len(digits) == 9 && weighted(digits, []int{9, 8, 7, 6, 5, 4, 3, 2, -1})%11 == 0
	}},
	{"pl_national_id", "pesel", func(piece, digits string) bool {
		return len(digits) == 11 && weighted(digits, []int{1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1})%10 == 0
	}},
	{"fr_social_security_number", "insee nir secu securite sécurité", validFrench},
	{"br_taxpayer_number", "cpf", validBrazilian},
	{"in_aadhaar_number", "aadhaar aadhar uidai", func(piece, digits string) bool { return len(digits) == 12 && digits[0] >= '2' && verhoeff(digits) }},
	{"se_personal_number", "personnummer personal samordningsnummer", validSwedish},
	{"ca_social_insurance_number", "sin nas insurance", func(piece, digits string) bool { return len(digits) == 9 && passesLuhn(digits) && digits[0] != '0' }},
	{"au_tax_file_number", "tfn tax", func(piece, digits string) bool {
		return len(digits) == 9 && weighted(digits, []int{1, 4, 3, 7, 5, 8, 6, 9, 10})%11 == 0
	}},
	{"cn_resident_id", "", nil},
	{"es_national_id", "", nil},
	{"it_fiscal_code", "", nil},
	{"uk_national_insurance_number", "", nil},
}

// national masks the numbers that consist of digits; those with letters have words of their own in nationalWord.
func (s *scan) national(start, end int) bool {
	chosen := s.detector.personal.nationals
	if len(chosen) == 0 {
		return false
	}
	piece := s.text[start:end]
	digits := digitsOf(piece)
	for _, id := range chosen {
		if id.valid != nil && id.valid(piece, digits) && s.wordNear(start, id.words) && (end == len(s.text) || !isWordByte(s.text[end])) {
			s.addPersonal(start, end, id.class)
			return true
		}
	}
	return false
}

// wordNear says whether one of the words stands before a number; no words need none.
func (s *scan) wordNear(start int, words string) bool {
	if words == "" {
		return true
	}
	before := strings.ToLower(s.text[max(0, start-40):start])
	for word := range strings.FieldsSeq(words) {
		if strings.Contains(before, word) {
			return true
		}
	}
	return false
}

// lettered finds the numbers that hold letters, in the runs of letters and digits of a text.
func (s *scan) lettered() {
	for _, id := range s.detector.personal.nationals {
		if id.valid != nil {
			continue
		}
		for _, run := range s.runs {
			s.letteredRun(id.class, run)
		}
	}
}

func (s *scan) letteredRun(class string, run span) {
	text := strings.TrimRight(s.text[run.start:run.end], ".")
	compact := strings.ToUpper(strings.ReplaceAll(text, "-", ""))
	valid := false
	switch class {
	case "cn_resident_id":
		valid = validChinese(compact)
	case "es_national_id":
		valid = validSpanish(compact)
	case "it_fiscal_code":
		valid = text == strings.ToUpper(text) && validItalian(compact)
	case "uk_national_insurance_number":
		valid = text == strings.ToUpper(text) && validBritish(compact)
	}
	if valid {
		s.addPersonal(run.start, run.start+len(text), class)
	}
}

func weighted(digits string, weights []int) int {
	sum := 0
	for position, weight := range weights {
		sum += int(digits[position]-'0') * weight
	}
	return sum
}

// validSocialSecurity matches 123-45-6789 with numbers that are given out.
func validSocialSecurity(piece, digits string) bool {
	if len(digits) != 9 || len(piece) != 11 || piece[3] != '-' || piece[6] != '-' {
		return false
	}
	return digits[:3] != "000" && digits[:3] != "666" && digits[0] != '9' && digits[3:5] != "00" && digits[5:] != "0000"
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

func validFrench(_, digits string) bool {
	if len(digits) != 15 || digits[0] != '1' && digits[0] != '2' {
		return false
	}
	return 97-number(digits[:13])%97 == number(digits[13:])
}

func validBrazilian(_, digits string) bool {
	if len(digits) != 11 || strings.Trim(digits, digits[:1]) == "" {
		return false
	}
	first := weighted(digits, []int{10, 9, 8, 7, 6, 5, 4, 3, 2}) * 10 % 11 % 10
	second := weighted(digits, []int{11, 10, 9, 8, 7, 6, 5, 4, 3, 2}) * 10 % 11 % 10
	return first == int(digits[9]-'0') && second == int(digits[10]-'0')
}

func validSwedish(_, digits string) bool {
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
		if kind == 'L' && !isLetter(text[position]) || kind == 'D' && !isDigit(text[position]) {
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
