package main

import (
	"fmt"
	"strconv"
	"strings"
)

// personal returns made-up personal data. A format behind the name gives the lengths of its groups and what stands between
// them: {cpf:3.3.3-2}. With `not_` before the name the last character is wrong.
func (m *maker) personal(name string) (string, bool) {
	name, format, _ := strings.Cut(name, ":")
	name, wrong := strings.CutPrefix(name, "not_")
	value, known := m.personalValue(name)
	if !known {
		return "", false
	}
	if wrong {
		value = spoiled(value)
	}
	return grouped(value, format), true
}

func (m *maker) personalValue(name string) (string, bool) {
	if country, found := strings.CutPrefix(name, "iban_"); found && countryAccounts[country] != "" {
		return m.countryAccount(country), true
	}
	if prefixes, found := cardPrefixes[name]; found {
		return m.cardOf(prefixes), true
	}
	switch name {
	case "mail":
		return m.mail(), true
	case "mail_percent":
		return strings.ReplaceAll(m.mail(), "@", "%40"), true
	case "iban":
		return m.countryAccount("DE"), true
	case "iban_de_lower":
		return strings.ToLower(m.countryAccount("DE")), true
	case "card":
		return m.cardOf(cardPrefixes["visa"]), true
	case "byte":
		return m.between(1, 254), true
	case "ip4":
		return m.address4(), true
	case "ip6":
		return m.address6(), true
	}
	return m.nationalValue(name)
}

// spoiled replaces the last character, which each check digit notices.
func spoiled(value string) string {
	last := value[len(value)-1]
	switch last {
	case '9', 'Z', 'X':
		last -= 2
	default:
		last++
	}
	return value[:len(value)-1] + string(last)
}

// grouped puts the separators of a format such as "3.3.3-2" into a value.
func grouped(value, format string) string {
	if format == "" {
		return value
	}
	var result strings.Builder
	for position, character := range format {
		if character < '0' || character > '9' {
			result.WriteRune(character)
			continue
		}
		end := position + 1
		for end < len(format) && format[end] >= '0' && format[end] <= '9' {
			end++
		}
		if position > 0 && format[position-1] >= '0' && format[position-1] <= '9' {
			continue
		}
		length, _ := strconv.Atoi(format[position:end])
		result.WriteString(value[:length])
		value = value[length:]
	}
	return result.String()
}

func (m *maker) between(least, most int) string { return strconv.Itoa(least + m.IntN(most-least+1)) }

func (m *maker) mail() string {
	local := m.pick("mara.okafor", "j_lindqvist", "t-leroux", "annotator"+m.from("d", 2), "p.sato+rl", "jo", "x.y.z", "Tess.Maier")
	domain := m.pick("quillmoor", "tarnfield-ai", "vesperdata", "oakmere-robotics", "mail.quillmoor", "eu.vesperdata")
	return local + "@" + domain + m.pick(".io", ".net", ".co.uk", ".de", ".ai", ".com.br", ".edu", ".org", ".com", ".engineering")
}

// address4 returns an address of a private network or of one that is reserved for documentation or tests.
func (m *maker) address4() string {
	network := m.pick("10."+m.between(0, 255)+"."+m.between(0, 255), "192.168."+m.between(0, 255), "172."+m.between(16, 31)+"."+m.between(0, 255),
		"203.0.113", "198.51.100", "192.0.2", "100."+m.between(64, 127)+"."+m.between(0, 255), "198.18."+m.between(0, 255))
	return network + "." + m.between(1, 254)
}

func (m *maker) address6() string {
	short := func() string { return strconv.FormatInt(int64(1+m.IntN(0xffff)), 16) }
	switch m.IntN(5) {
	case 0:
		return "2001:db8::" + short()
	case 1:
		return "2001:db8:" + short() + ":" + short() + "::" + short()
	case 2:
		return "fd" + m.from("h", 2) + ":" + short() + ":" + short() + "::" + short() + ":" + short()
	case 3:
		return "2001:db8:" + short() + ":" + short() + ":" + short() + ":" + short() + ":" + short() + ":" + short()
	default:
		return "fe80::" + short() + ":" + short() + ":" + short() + ":" + short()
	}
}

// cardPrefixes begin the numbers of a network; the dots are the digits behind them, the check digit among them.
var cardPrefixes = map[string]string{
	"visa": "4...............", "master": "53..............", "amex": "37.............", "discover": "6011............",
	"maestro": "6759............", "diners": "36............", "jcb": "3528............", "unionpay": "6212............",
}

func (m *maker) cardOf(pattern string) string {
	number := []byte(pattern)
	for position := range number {
		if number[position] == '.' {
			number[position] = digits[m.IntN(10)]
		}
	}
	return withCheckDigit(string(number[:len(number)-1]), luhn)
}

// withCheckDigit appends the digit that makes a number valid.
func withCheckDigit(number string, valid func(string) bool) string {
	for check := range 10 {
		if candidate := number + strconv.Itoa(check); valid(candidate) {
			return candidate
		}
	}
	return ""
}

// countryAccounts are the accounts behind the check digits of an IBAN: a letter, a digit, or either.
var countryAccounts = map[string]string{
	"DE": "dddddddddddddddddd", "GB": "aaaadddddddddddddd", "FR": "ddddddddddcccccccccccdd", "AT": "dddddddddddddddd",
	"CH": "dddddcccccccccccc", "NL": "aaaadddddddddd", "ES": "dddddddddddddddddddd", "IT": "addddddddddcccccccccccc", "NO": "ddddddddddd",
	"BE": "dddddddddddd", "PL": "dddddddddddddddddddddddd", "SE": "dddddddddddddddddddd", "PT": "ddddddddddddddddddddd",
	"IE": "aaaadddddddddddddd", "DK": "dddddddddddddd", "FI": "dddddddddddddd", "LU": "dddccccccccccccc", "CZ": "dddddddddddddddddddd",
}

func (m *maker) countryAccount(country string) string {
	var account strings.Builder
	for _, kind := range countryAccounts[country] {
		account.WriteString(m.characters(map[rune]string{'d': digits, 'a': upper, 'c': digits + upper}[kind], 1))
	}
	remainder := 0
	for _, character := range account.String() + country + "00" {
		if character >= 'A' {
			remainder = (remainder*100 + int(character-'A') + 10) % 97
		} else {
			remainder = (remainder*10 + int(character-'0')) % 97
		}
	}
	return fmt.Sprintf("%s%02d%s", country, 98-remainder, account.String())
}
