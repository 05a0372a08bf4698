package main

import (
	"fmt"
	"strconv"
	"strings"
)

// nationalValue returns a made-up number of a state's register, with valid check digits.
func (m *maker) nationalValue(name string) (string, bool) {
	switch name {
	case "ssn":
		return fmt.Sprintf("%03d%02d%04d", 100+m.IntN(500), 1+m.IntN(99), 1+m.IntN(9999)), true
	case "steuer":
		return m.german(), true
	case "bsn":
		return m.until(func() string { return m.from("d", 9) }, func(number string) bool {
			return number[0] != '0' && products(number, 9, 8, 7, 6, 5, 4, 3, 2, -1)%11 == 0
		}), true
	case "dni":
		return m.spanish("", m.from("d", 8)), true
	case "nie":
		first := m.IntN(3)
		return m.spanish(string("XYZ"[first]), strconv.Itoa(first)+m.from("d", 7)), true
	case "cf":
		return m.italian(), true
	case "cf_lower":
		return strings.ToLower(m.italian()), true
	case "pesel":
		return withCheckDigit(m.birth("060102")+m.from("d", 4), func(number string) bool {
			return products(number, 1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)%10 == 0
		}), true
	case "nir":
		return french(m.pick("1", "2") + m.birth("0601") + m.between(10, 19) + m.from("d", 6)), true
	case "nir_corsica":
		return french(m.pick("1", "2") + m.birth("0601") + "2A" + m.from("d", 6)), true
	case "nino":
		return m.pick("AB", "CE", "JK", "LM", "PR", "SW", "TY") + m.from("d", 6) + m.pick("A", "B", "C", "D"), true
	case "cpf":
		return brazilian(m.from("d", 9)), true
	case "aadhaar":
		return withCheckDigit(m.between(2, 9)+m.from("d", 10), verhoeff), true
	case "cnid":
		return m.until(m.chinese, func(number string) bool { return !strings.HasSuffix(number, "X") }), true
	case "cnid_x":
		return m.until(m.chinese, func(number string) bool { return strings.HasSuffix(number, "X") }), true
	case "pnr":
		return withCheckDigit(m.birth("060102")+m.from("d", 3), luhn), true
	case "pnr12":
		return "19" + withCheckDigit(m.birth("060102")+m.from("d", 3), luhn), true
	case "sin":
		return withCheckDigit(m.between(1, 7)+m.from("d", 7), luhn), true
	case "tfn":
		return m.until(func() string { return m.from("d", 9) }, func(number string) bool {
			return number[0] != '0' && products(number, 1, 4, 3, 7, 5, 8, 6, 9, 10)%11 == 0
		}), true
	}
	return "", false
}

func (m *maker) until(propose func() string, valid func(string) bool) string {
	for {
		if proposed := propose(); valid(proposed) {
			return proposed
		}
	}
}

// birth returns a date of the years 1950 to 1999 as year, month and, where the layout has one, day.
func (m *maker) birth(layout string) string {
	date := fmt.Sprintf("%02d%02d%02d", 50+m.IntN(50), 1+m.IntN(12), 1+m.IntN(28))
	return date[:len(layout)]
}

func products(number string, weights ...int) int {
	sum := 0
	for position, weight := range weights {
		sum += weight * int(number[position]-'0')
	}
	return sum
}

// german has one digit twice among its first ten, and a check digit of ISO 7064 (11, 10).
func (m *maker) german() string {
	order := m.Perm(10)
	order[1+m.IntN(9)] = order[0]
	if order[0] == 0 {
		for position := range order {
			order[position] = (order[position] + 1) % 10
		}
	}
	number, product := "", 10
	for _, digit := range order {
		number += strconv.Itoa(digit)
		sum := (digit + product) % 10
		if sum == 0 {
			sum = 10
		}
		product = sum * 2 % 11
	}
	return number + strconv.Itoa((11-product)%10)
}

// spanish appends the letter of the number; the letter before a foreigner's number stands for its first digit.
func (m *maker) spanish(prefix, number string) string {
	value, _ := strconv.Atoi(number)
	if prefix != "" {
		number = prefix + number[1:]
	}
	return number + string("TRWAGMYFPDXBNJZSQVHLCKE"[value%23])
}

func (m *maker) italian() string {
	consonants := "BCDFGLMNPRSTV"
	code := m.characters(consonants, 6) + fmt.Sprintf("%02d", 50+m.IntN(50)) + m.characters("ABCDEHLMPRST", 1) +
		fmt.Sprintf("%02d", 1+m.IntN(28)) + m.characters("ABCDEFGHIL", 1) + m.from("d", 3)
	odd := []int{1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23}
	sum := 0
	for position, character := range code {
		value := int(character - 'A')
		if character <= '9' {
			value = int(character - '0')
		}
		if position%2 == 0 {
			value = odd[value]
		}
		sum += value
	}
	return code + string(upper[sum%26])
}

// french appends the key; the departments of Corsica count as 19 and 18.
func french(number string) string {
	value, _ := strconv.ParseInt(strings.NewReplacer("2A", "19", "2B", "18").Replace(number), 10, 64)
	return number + fmt.Sprintf("%02d", 97-value%97)
}

func brazilian(number string) string {
	for first := 10; first <= 11; first++ {
		sum := 0
		for position, character := range number {
			sum += (first - position) * int(character-'0')
		}
		number += strconv.Itoa(sum * 10 % 11 % 10)
	}
	return number
}

func (m *maker) chinese() string {
	number := m.pick("110101", "310104", "440305", "510107") + "19" + m.birth("060102") + m.from("d", 3)
	sum := products(number, 7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
	return number + string("10X98765432"[sum%11])
}

// verhoeff checks a number by the group of the symmetries of a pentagon.
func verhoeff(number string) bool {
	multiply := func(a, b int) int {
		switch {
		case a < 5 && b < 5:
			return (a + b) % 5
		case a < 5:
			return (a+b-5)%5 + 5
		case b < 5:
			return (a-5-b+5)%5 + 5
		default:
			return (a - b + 5) % 5
		}
	}
	permutation := []int{1, 5, 7, 6, 2, 8, 3, 0, 9, 4}
	check := 0
	for position := range len(number) {
		digit := int(number[len(number)-1-position] - '0')
		for range position % 8 {
			digit = permutation[digit]
		}
		check = multiply(check, digit)
	}
	return check == 0
}
