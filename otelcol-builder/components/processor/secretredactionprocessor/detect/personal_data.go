package detect

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// PersonalDataClasses are the classes of personal data that can be asked for.
var PersonalDataClasses = []string{
	"email", "phone", "card", "iban", "ip_address", "us_social_security_number", "de_tax_id", "nl_citizen_number",
	"es_national_id", "it_fiscal_code", "pl_national_id", "fr_social_security_number", "uk_national_insurance_number",
	"br_taxpayer_number", "in_aadhaar_number", "cn_resident_id", "se_personal_number", "ca_social_insurance_number",
	"au_tax_file_number",
}

// personalData says which classes are asked for.
type personalData struct {
	email, phone, card, iban, address, italian bool
	nationals                                  []nationalID
}

func newPersonalData(classes []string) (personalData, error) {
	var chosen personalData
	for _, class := range classes {
		switch class {
		case "email":
			chosen.email = true
		case "phone":
			chosen.phone = true
		case "card":
			chosen.card = true
		case "iban":
			chosen.iban = true
		case "ip_address":
			chosen.address = true
		default:
			index := slices.IndexFunc(nationalIDs, func(id nationalID) bool { return id.class == class })
			if index < 0 {
				return chosen, fmt.Errorf("personal_data: %q is not a class; known are %s", class, strings.Join(PersonalDataClasses, ", "))
			}
			chosen.nationals = append(chosen.nationals, nationalIDs[index])
			chosen.italian = chosen.italian || class == italian
		}
	}
	return chosen, nil
}

// addPersonal notes personal data, which a fingerprint could give away.
func (s *scan) addPersonal(start, end int, class string) {
	s.addFinding(Finding{Start: start, End: end, Class: class, LowEntropy: true})
}

// emailAddress looks around an "@".
func (s *scan) emailAddress(at, end int) {
	text := s.text
	start := localStart(text, at)
	for start < at && (text[start] == '.' || text[start] == '-' || text[start] == '+' || text[start] == '%') {
		start++
	}
	stop := domainEnd(text, end)
	if start < at && text[start] == '_' && stop < len(text) && text[stop] == '_' { // _mara@northlab.io_
		start++
	}
	if start == at || stop == end || start > 0 && (text[start-1] == '/' || text[start-1] == '@' || text[start-1] == ':') && s.isAccount(start) || s.inAddress(start) {
		return
	}
	local, domain := text[start:at], text[end:stop]
	if isMailDomain(domain) && !isMachineAccount(local, domain) && !(stop < len(text) && (text[stop] == '@' || text[stop] == ':' && s.isRemotePath(stop))) {
		s.addPersonal(start, stop, "email")
	}
}

// localStart returns where the part before an "@" begins. Letters of other scripts belong to it, but no text that is
// written without blanks. An apostrophe does so in names such as o'neil.
func localStart(text string, at int) int {
	limit := max(0, at-64)
	start := at
	for start > limit {
		if isLocalByte(text[start-1]) {
			start--
			continue
		}
		character, size := utf8.DecodeLastRuneInString(text[limit:start])
		if size == 1 || !isSpacedLetter(character) {
			break
		}
		start -= size
	}
	if start >= limit+2 && start < at && text[start-1] == '\'' && text[start-2]|0x20 == 'o' && !wordEndsAt(text, start-2) {
		start -= 2
	}
	return start
}

// domainEnd returns where the part behind an "@" ends: at its last letter or digit.
func domainEnd(text string, start int) int {
	stop, last := start, start
	for limit := min(len(text), start+255); stop < limit; {
		if isAlnum(text[stop]) {
			stop++
			last = stop
			continue
		}
		if text[stop] == '.' || text[stop] == '-' {
			stop++
			continue
		}
		character, size := utf8.DecodeRuneInString(text[stop:limit])
		if size == 1 || !isSpacedLetter(character) {
			break
		}
		stop += size
		last = stop
	}
	return last
}

// isAccount says whether what is before an "@" is the account of an address such as ssh://git@host.
func (s *scan) isAccount(start int) bool { return strings.HasSuffix(s.text[:start], "://") }

// inAddress says whether a name stands behind the colon of an account in an address: http://user:name@host.
func (s *scan) inAddress(start int) bool {
	if start == 0 || s.text[start-1] != ':' {
		return false
	}
	before := s.text[max(0, start-80):start]
	scheme := strings.LastIndex(before, "://")
	return scheme >= 0 && !strings.ContainsAny(before[scheme+3:], " /\"'")
}

// isRemotePath says whether a host and colon are followed by a path, as in git@host:team/repo.
func (s *scan) isRemotePath(colon int) bool {
	rest := s.text[colon+1 : min(len(s.text), colon+64)]
	end := strings.IndexFunc(rest, func(character rune) bool {
		return character == ' ' || character == '\n' || character == '"' || character == '\''
	})
	if end >= 0 {
		rest = rest[:end]
	}
	return strings.Contains(rest, "/")
}

func isLocalByte(character byte) bool {
	return isAlnum(character) || strings.IndexByte("._%+-", character) >= 0
}

// isMachineAccount leaves the addresses of documentation and of machines, which are nobody's.
func isMachineAccount(local, domain string) bool {
	lowered := strings.ToLower(domain)
	switch strings.ToLower(local) {
	case "git", "hg", "svn", "noreply", "no-reply", "donotreply", "do-not-reply", "nobody":
		return true
	}
	for _, reserved := range []string{"example.com", "example.org", "example.net", "users.noreply.github.com", "gserviceaccount.com", "localhost.localdomain"} {
		if lowered == reserved || strings.HasSuffix(lowered, "."+reserved) {
			return true
		}
	}
	return false
}

// isMailDomain says whether a host name is one that mail goes to: labels, and letters as the last.
func isMailDomain(domain string) bool {
	labels := strings.Split(domain, ".")
	if len(labels) < 2 || len(domain) > 253 {
		return false
	}
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	top := labels[len(labels)-1]
	return len(top) >= 2 && len(top) <= 18 && allBytes(top, isLetter) && !notTopLevel[strings.ToLower(top)] && !allBytes(labels[0], isDigit)
}

// notTopLevel are endings of files, methods and local hosts.
var notTopLevel = setOf(`py js ts jsx tsx go rs java rb php c h cpp hpp cs json yaml yml toml txt md html css png jpg jpeg gif svg pdf csv
	log lock sh bat exe dll so zip gz tar whl jar class local localhost internal lan invalid test example setter getter deleter
	property register command route get post put patch delete fixture mark parametrize dataclass lru cache wraps jit compile
	forward override init parquet jsonl safetensors ckpt bin onnx gguf proto cfg ini conf grad weight bias shape dtype detach`)
