package detect

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzFindingsAreSoundAndMasksStay(f *testing.F) {
	for _, texts := range [][]string{cleanTexts, denseTexts, secretTexts} {
		for _, text := range texts {
			f.Add("", text)
			f.Add("judge.api_key", text)
		}
	}
	for _, text := range []string{
		"password=\xff\xfeGravel-48é21x", "password=\"", "-----BEGIN RSA PRIVATE KEY-----", "://:@", "a://b:c@", "%%41%", "\\u00", "&quot;password&quot;=x1y2z3&", "Cookie: a=;b", "$2a$", ":::", "IBAN DE", "[redacted", "[redacted:", "password=[redacted:x] [redacted]", "curl -u", "net use \\\\a /user:b",
		"jörg@vesperdata.de o'neil@oakmere.org", "from 10.1.2.3 to [2001:db8::1]:80, version 1.2.3.4", "NINO AB 12 34 56 C, DNI 12.345.678-Z, SSN 219 09 9999", "电话：+86 138 0013 5209。",
	} {
		f.Add("", text)
	}
	d, err := New(Config{PersonalData: PersonalDataClasses})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key, text string) {
		found, err := d.Find(key, text)
		if err != nil {
			t.Fatal(err)
		}
		assertSound(t, text, found)
		masked := text
		for range 4 {
			next := maskAll(t, d, "", masked)
			if next == masked {
				return
			}
			masked = next
		}
		t.Errorf("still changes after four passes: %q of %q", masked, text)
	})
}

// assertSound checks that findings are inside of the text, in order, apart, and cut no character of a valid text.
func assertSound(t *testing.T, text string, found []Finding) {
	t.Helper()
	end := 0
	for _, finding := range found {
		if finding.Start < end || finding.End <= finding.Start || finding.End > len(text) || finding.Class == "" {
			t.Fatalf("unsound findings %v in %d bytes", found, len(text))
		}
		if utf8.ValidString(text) && !(utf8.ValidString(text[:finding.Start]) && utf8.ValidString(text[finding.Start:finding.End])) {
			t.Fatalf("finding %v cuts a character of %q", finding, text)
		}
		end = finding.End
	}
}

// hostilePieces are repeated to texts that make naive rules look again and again.
var hostilePieces = []string{
	"password", "password=", "password:\"", "token key secret ", "://", "a://b:", "-----BEGIN PRIVATE KEY-----", "eyJ", "eyJhbGciOiJIUzI1NiJ9.", "%41%42", "\\\"", "\\\\", "@", "a@",
	"1 ", "1-", "+1 ", "$2a$", "curl -u ", "Cookie: a=b; ", "\"kty\"", "<RSAKeyValue>", "net use ", "echo a | ", "--password-stdin ", "DE12", "authorization: ", "aaaa", "A1b2", "[redacted",
	"[redacted:x]", "&quot;", "github key ", "github token 9fceb02d0ae598e9 ", "é", "value=", "{ssha}", ":::", "api_key(", "password is ", "password:a&", "password=&", "&amp;",
	"é@", "o'a@b.io ", "1.2.3.4 ", "10.1.2.3/8,", "v1.2.3.4, ", "version 1.2.3.4 ", ":1", "::", "2001:db8::1 ", "fe80:", "a.b:", "4111 1111 1111 1111 ", "+1 415 555 0134 ", "(11) 91234-5678 ",
	"0049 30 1234567 ", "卡1", "tel 123456789 ", "AB 12 34 56 C ", "12.345.678-Z ", "a1.b2-", "de12-", "DE12 3704 ", "bsn 111222333 ", "219-09-9999 ", "pnr-811218-9876 ", "sin_130692544 ", "0 ", "\u00a0", "1\u00a0", "\u2011a", "10.1.2.3.4 > ", "dni 12345678 Z ", "a/b1", "RSS MRA 85T10 A562S ", "RSSMRA 85T10 A562T ",
	"-sig=", "-$2a$", "-x-honeycomb-team-", "-cc_test_reporter_id_", "-xoxb-", "-glpat-", "-pypi-", "-cookie=", "eyJhbGciOiJ", "a@b.co ", "https://a:b@", "-----BEGIN RSA PRIVATE KEY-----", "%70%61%73%73", "\\u0070", "&#112;", "{'a':", "key: ", "Bearer ", "AKIA", "+49 30 123456", "1.2.3.4:", "DE89370400440532013000 ", "token token ", "=\"", "secret_secret_", "\\\\\\\"", "[[", "{\"a\":\"", "c2VjcmV0", "0123456789abcdef",
	"A1b2c3d4!", "kovaly,secret\n", "token\n", "| key | ", "key,", ") values (", "(password) values ('a", "password:\n", "password: |\n ", "\x1b[1m", "：", "密码", "login a8Kd03jfLs92mZqP ", "key a8Kd03jfLs92mZqPw7Xc\n", "\"v\": 'a8Kd03jfLs92mZqPw7Xc", "  password\n", "input_value='a8Kd03jfLs92mZqPw7Xc' ", "5403926876 ", "463-612-6138x036 ",
}

func TestHostileTextsAreScannedWhole(t *testing.T) {
	d := newTestDetector(t)
	for _, piece := range hostilePieces {
		text := strings.Repeat(piece, 32<<10/len(piece)) + "\npassword=Gravel-" + "4821x"
		found, err := d.Find("", text)
		if err != nil {
			t.Fatal(err)
		}
		assertSound(t, text, found)
		if !hides(t, d, text, "Gravel-"+"4821x") {
			t.Errorf("the secret behind %d times %q is missed", 32<<10/len(piece), piece)
		}
	}
}
