package detect

import (
	"strings"
	"testing"
)

func TestPersonalDataIsFoundByItsClass(t *testing.T) {
	for class, texts := range map[string][]string{
		"email":                        {"mara@northlab.io", "j.o+rl@quarrel-ai.co.uk"},
		"phone":                        {"+49 30 12345678", "+1 415 555 0134", "(212) 555-0134", "212-555-0134", "+33 1 23 45 67 89", "06 12 34 56 78"},
		"card":                         {"4111 1111 1111 1111", "4111111111111111", "378282246310005", "5555-5555-5555-4444"},
		"iban":                         {"DE89370400440532013000", "GB82 WEST 1234 5698 7654 32", "FR14 2004 1010 0505 0001 3M02 606"},
		"ip_address":                   {"10.1.2.3", "203.0.113.7"},
		"us_social_security_number":    {"219-09-9999"},
		"de_tax_id":                    {"IdNr 86095742719"},
		"nl_citizen_number":            {"BSN 111222333"},
		"es_national_id":               {"12345678Z", "X1234567L"},
		"it_fiscal_code":               {"RSSMRA85T10A562S"},
		"pl_national_id":               {"PESEL 44051401359"},
		"br_taxpayer_number":           {"CPF 529.982.247-25"},
		"cn_resident_id":               {"11010519491231002X"},
		"uk_national_insurance_number": {"AB123456C"},
		"in_aadhaar_number":            {"Aadhaar 2341 2341 2346"},
		"au_tax_file_number":           {"TFN 123 456 782"},
		"ca_social_insurance_number":   {"SIN 130 692 544"},
		"se_personal_number":           {"personnummer 811218-9876"},
		"fr_social_security_number":    {"NIR 2 55 08 14 168 025 38"},
	} {
		d, err := New(Config{PersonalData: []string{class}})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			for _, sentence := range []string{text, "see " + text + ", please"} {
				found, err := d.Find("", sentence)
				if err != nil || len(found) != 1 || found[0].Class != class || !found[0].LowEntropy {
					t.Errorf("%s: %q: %v, %v", class, sentence, found, err)
				}
			}
		}
	}
}

func TestNumbersOfATrainingRunAreNoPersonalData(t *testing.T) {
	d, err := New(Config{PersonalData: PersonalDataClasses})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"step 1200 of 5000, 18422 tokens", "1732190400123456789", "2026-11-21 12:00:01", "0.12345678 -0.98765432", "4111 1111 1111 1112", "seed=4111111111111111",
		"token_id 4111111111111111", "1234567890 + 9876543210", "torch==2.9.0 numpy 2.3.4", "git@github.com:org/repo.git", "user@1.2.3", "@app.route", "someone@example.com",
		"DE00370400440532013000", "127.0.0.1:4317", "123-45-6789a", "000-12-3456", "12345678A", "1-800", "commit 9fceb02d0ae598e95dc970b74767f19372d6f8a1",
		"http://user:pass@host.internal/", "trainer@node17", "10 20 30 40 50 60 70", "shape 128 256 512 1024",
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestAnUnknownClassOfPersonalDataIsRefused(t *testing.T) {
	_, err := New(Config{PersonalData: []string{"shoe_size"}})
	if err == nil || !strings.Contains(err.Error(), "shoe_size") || !strings.Contains(err.Error(), "iban") {
		t.Errorf("%v", err)
	}
	for _, class := range PersonalDataClasses {
		if _, err := New(Config{PersonalData: []string{class}}); err != nil {
			t.Errorf("%s: %v", class, err)
		}
	}
}

func TestWithoutClassesNoPersonalDataIsMasked(t *testing.T) {
	d, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"mara@northlab.io", "4111 1111 1111 1111", "+49 30 12345678", "DE89370400440532013000"} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestNumbersOfCardsAndTelephonesAreFoundInTheFormsOfAllNetworksAndOfACountry(t *testing.T) {
	d := newTestDetector(t)
	for class, texts := range map[string][]string{
		"card": {
			"card 675984103431", "my Maestro: 501800000009", "charges for 675984103431?", "pay with 4652943034623769885 please", "3522235032377454", "180087654321099", "213111111111116", "4222222222222",
		},
		"phone": {
			"phone 5403926876", "call me at 5403926876", "my number is 5403926876", "930.167.3943", "930-167-3943", "463-612-6138x036", "(463)612-6138x036", "001-463-612-6138x03612", "1-463-612-6138x7",
		},
	} {
		for _, text := range texts {
			if found, err := d.Find("", text); err != nil || len(found) != 1 || found[0].Class != class {
				t.Errorf("%q: %v, %v", text, found, err)
			}
		}
	}
	for _, text := range []string{
		"seed 675984103431", "trained on 675984103431 tokens", "num_tokens=675984103431", "dd.span_id=4339042130534105724", "offset 4652943034623769885", "hash=4652943034623769885", `{"seed": 675984103431}`,
		"5403926876 tokens", "total_tokens=5403926876", "seed: 5403926876", "call took 5403926876 ns", "step 5403926876", "1763724000123", "at 1763724000123456789", "463-612-6138x0366666666", "3.930.167.3943",
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}
