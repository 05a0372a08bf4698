package main

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

const (
	digits  = "0123456789"
	lower   = "abcdefghijklmnopqrstuvwxyz"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters = lower + upper
)

// alphabets of the placeholders {<letter><length>}.
var alphabets = map[byte]string{
	'd': digits, 'h': "0123456789abcdef", 'H': "0123456789ABCDEF", 'a': lower + digits, 'U': upper + digits,
	'A': letters + digits, 'L': letters, 'l': lower, 'b': letters + digits + "-_", 'B': letters + digits + "+/", 'c': letters + digits + "./",
}

type maker struct{ *rand.Rand }

// fill replaces the placeholders of a shape; what is no placeholder stays.
func (m *maker) fill(shape string) string {
	var result strings.Builder
	for rest := shape; rest != ""; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			result.WriteString(rest)
			break
		}
		result.WriteString(rest[:open])
		length := strings.IndexByte(rest[open:], '}')
		if length < 0 {
			result.WriteString(rest[open:])
			break
		}
		if value, ok := m.value(rest[open+1 : open+length]); ok {
			result.WriteString(value)
			rest = rest[open+length+1:]
			continue
		}
		result.WriteByte('{')
		rest = rest[open+1:]
	}
	return result.String()
}

func (m *maker) value(name string) (string, bool) {
	switch name {
	case "w":
		return m.password(), true
	case "u":
		return m.uuid(), true
	case "email":
		return m.pick("mara.lindqvist", "j_okafor", "pavel+rl", "tess") + "@" + m.pick("northlab", "quarrel-ai", "fjord") + m.pick(".io", ".net", ".co.uk"), true
	case "basic":
		return base64.StdEncoding.EncodeToString([]byte("trainer:" + m.password())), true
	case "base64_password":
		return base64.StdEncoding.EncodeToString([]byte(m.password() + m.password())), true
	case "base64_assignment":
		return base64.StdEncoding.EncodeToString([]byte("user=trainer\npassword=" + m.password() + m.from("A", 9) + "\n")), true
	case "sas":
		return m.from("A", 40) + "%2B" + m.from("A", 2) + "%3D", true
	case "card":
		return m.card(), true
	case "iban":
		return m.iban(), true
	case "tensor":
		return m.tensor(), true
	case "base32_16":
		return m.characters("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16), true
	case "bech58":
		return m.characters("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58), true
	}
	if lines, ok := strings.CutPrefix(name, "pem"); ok {
		return m.pem(lines), true
	}
	if value, known := m.personal(name); known {
		return value, true
	}
	if len(name) < 2 {
		return "", false
	}
	length, err := strconv.Atoi(name[1:])
	if err != nil || alphabets[name[0]] == "" {
		return "", false
	}
	return m.from(name[:1], length), true
}

func (m *maker) pick(choices ...string) string { return choices[m.IntN(len(choices))] }

func (m *maker) from(alphabet string, length int) string {
	return m.characters(alphabets[alphabet[0]], length)
}

func (m *maker) characters(alphabet string, length int) string {
	result := make([]byte, length)
	for position := range result {
		result[position] = alphabet[m.IntN(len(alphabet))]
	}
	return string(result)
}

// password is what people choose: a word, a digit group, a sign.
func (m *maker) password() string {
	word := m.pick("Harbor", "quince", "Lantern", "velvet", "Gravel", "otter", "Mango", "cobalt", "Tundra", "Pickle")
	return word + m.pick("!", "#", "_", ".", "-", "$", "") + m.from("d", 2+m.IntN(3)) + m.pick("x", "Zq", "kT", "", "!")
}

func (m *maker) uuid() string {
	return fmt.Sprintf("%s-%s-4%s-a%s-%s", m.from("h", 8), m.from("h", 4), m.from("h", 3), m.from("h", 3), m.from("h", 12))
}

func (m *maker) pem(lines string) string {
	if lines == "escaped" {
		return m.from("B", 64) + `\n` + m.from("B", 64)
	}
	count, _ := strconv.Atoi(lines)
	rows := make([]string, count)
	for row := range rows {
		rows[row] = m.from("B", 64)
	}
	return strings.Join(rows, "\n")
}

func (m *maker) card() string {
	number := m.pick("4", "51", "37", "6011") + ""
	length := 16
	if strings.HasPrefix(number, "37") {
		length = 15
	}
	number += m.from("d", length-1-len(number))
	for check := range 10 {
		if candidate := number + strconv.Itoa(check); luhn(candidate) {
			if length == 16 && m.IntN(2) == 0 {
				return candidate[:4] + " " + candidate[4:8] + " " + candidate[8:12] + " " + candidate[12:]
			}
			return candidate
		}
	}
	return number
}

func luhn(number string) bool {
	sum := 0
	for position := range len(number) {
		digit := int(number[len(number)-1-position] - '0')
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

func (m *maker) iban() string {
	account := m.from("d", 18)
	remainder := 0
	for _, character := range account + "131400" { // DE00 moved to the end, letters as numbers
		remainder = (remainder*10 + int(character-'0')) % 97
	}
	number := fmt.Sprintf("DE%02d%s", 98-remainder, account)
	if m.IntN(2) == 0 {
		return number
	}
	var groups []string
	for ; len(number) > 4; number = number[4:] {
		groups = append(groups, number[:4])
	}
	return strings.Join(append(groups, number), " ")
}

func (m *maker) tensor() string {
	raw := make([]byte, 240)
	for position := range raw {
		raw[position] = byte(m.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)
}
