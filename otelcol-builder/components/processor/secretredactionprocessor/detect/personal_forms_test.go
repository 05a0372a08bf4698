package detect

import "testing"

func newPersonalDetector(t testing.TB) *Detector {
	t.Helper()
	d, err := New(Config{PersonalData: PersonalDataClasses})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestPersonalDataIsFoundInItsForms checks place and class: each text is one piece, and some text around it.
func TestPersonalDataIsFoundInItsForms(t *testing.T) {
	d := newPersonalDetector(t)
	for _, one := range []struct{ before, piece, after, class string }{
		{"mail ", "jörg.maier@vesperdata.de", " ok", "email"},
		{"to ", "o'neil@oakmere.org", "!", "email"},
		{"请发送到", "mara@bücher-labor.de", "。谢谢", "email"},
		{"call ", "+1 (212) 555-0134", " now", "phone"},
		{"call ", "+1 415 555 0134", " 2026 times", "phone"},
		{"at ", "+49 30 23125 176", " 12:00 it rang", "phone"},
		{"Büro ", "+49 (0)40 66969 350", ".", "phone"},
		{"", "0049 30 23125 176", " rejected", "phone"},
		{"mob ", "07700 900771", " sort code", "phone"},
		{"fone ", "(11) 91234-5678", "", "phone"},
		{"fixe ", "06.39.98.12.34", ", merci", "phone"},
		{"zurück an ", "(+49) 30 23125 260", ".", "phone"},
		{"Büro ", "+49-(0)30-23125-159", "", "phone"},
		{"direct ", "+1-(415)-555-0140", " please", "phone"},
		{"Phone number (", "415 555 0175", ") was wrong", "phone"},
		{"Tel.: ", "+49\u00a030\u00a023125\u00a0557", "", "phone"},
		{"phone ", "415\u2011555\u20110132", " ok", "phone"},
		{"電話番号は", "03-5550-3209", "です", "phone"},
		{"电话：", "+86 138 0013 5209", "。", "phone"},
		{"卡号：", "4111 1111 1111 1111", "，谢谢", "card"},
		{"VISA ", "4111 1111 1111 1111", " 12/29 123", "card"},
		{"payout→", "DE89370400440532013000", "", "iban"},
		{"iban ", "de89370400440532013000", " lower", "iban"},
		{"iban ", "DE89-3704-0044-0532-0130-00", " ok", "iban"},
		{"inet ", "10.1.2.3", "/24 brd", "ip_address"},
		{"ping 64 ", "10.1.2.3", " 12 ms", "ip_address"},
		{"IP ", "203.0.113.220", ".51234 > host", "ip_address"},
		{"IP6 ", "fe80::d72d:9724:3ceb:98e", ".51234 > host", "ip_address"},
		{"ip-", "10.1.2.3", ": up", "ip_address"},
		{"http://gw/", "52.12.9.33", ":8000", "ip_address"},
		{"at [", "2001:db8::1ab9", "]:29500", "ip_address"},
		{"eth0:", "fe80::31a3:9498", "%eth0 up", "ip_address"},
		{"host ", "2001:0db8:cbff:a5ef:5670:98e6:c654:6d7b", ".", "ip_address"},
		{"from ", "::ffff:10.4.1.2", " accepted", "ip_address"},
		{"social security number: ", "298 20 7194", ".", "us_social_security_number"},
		{`{"ssn":"`, "407882347", `"}`, "us_social_security_number"},
		{"Mi DNI es ", "91.978.166-Q", ", gracias", "es_national_id"},
		{"DNI/NIF ", "12345678 Z", " ok", "es_national_id"},
		{"N.I.E. ", "X 1234567 L", "", "es_national_id"},
		{"NIE:", "X.1.234.567-L", "", "es_national_id"},
		{"C/", "AB123456C", "", "uk_national_insurance_number"},
		{"id no. ", "440305 19880407 7422", "", "cn_resident_id"},
		{"personnummer ", "970325+2669", ".", "se_personal_number"},
		{"pers.nr ", "811218-9876", "", "se_personal_number"},
		{"_", "mara@northlab.io", "_ said", "email"},
		{"card ", "4111\u00a01111\u00a01111\u00a01111", "", "card"},
		{"NIE ", "X-1.234.567-L", " ok", "es_national_id"},
		{"cf ", "rssmra85t10a562s", " ok", "it_fiscal_code"},
		{"CF: ", "RSSMRA 85T10 A562S", ", grazie", "it_fiscal_code"},
		{"CF: ", "RSS MRA 85T10 A562S", "", "it_fiscal_code"},
		{"sécu ", "1 52 12 12 584 717 82", ".", "fr_social_security_number"},
		{"the number ", "1 52 12 12 584 717 82", ".", "fr_social_security_number"},
		{`"nir":"`, "260082A99401115", `"`, "fr_social_security_number"},
		{"No ", "AB 12 34 56 C", ", thanks", "uk_national_insurance_number"},
		{"cliente ", "529.982.247-25", ", ativo", "br_taxpayer_number"},
		{"personnr ", "19811218-9876", ", steg", "se_personal_number"},
		{"assurance sociale ", "130 692 544", "", "ca_social_insurance_number"},
		{"आधार ", "2341 2341 2346", "", "in_aadhaar_number"},
	} {
		text := one.before + one.piece + one.after
		found, err := d.Find("", text)
		wanted := Finding{Start: len(one.before), End: len(one.before) + len(one.piece), Class: one.class, LowEntropy: true}
		if err != nil || len(found) != 1 || found[0] != wanted {
			t.Errorf("%q: %v, %v, wanted %v", text, found, err, wanted)
		}
	}
}

func TestWhatOnlyLooksLikePersonalDataStays(t *testing.T) {
	d := newPersonalDetector(t)
	for _, text := range []string{
		"nvidia-cublas-cu12==12.4.5.8", "nvidia-cudnn-cu12 9.1.0.70", "tokenizer_version=10.0.0.2", `"version": "3.12.4.1"`, "## 4.2.1.3 Ablations",
		"Chrome/124.0.6367.91 Safari", "image: trainer:24.10.0.3", "upgraded flash-attn from 2.5.9.1 to 2.6.3.0", "agent-1.2.3.4 up", "firmware 28.39.110.2", "12.1.105.9+cu121",
		"subnet 10.0.0.0/8, fd00::/8 and 2001:db8::/32", "[::1]:4317 and [::]:4317", "::ffff:127.0.0.1", "std::a::b", "x[2048::512]", "x[1::2]", "ab::cd(1)", "at 12:34:56 or 2026:11:21",
		"224.0.0.251 and ff02::1", `df["2001::"]`, "T@x.grad", "steps 12345678 Z", "970325+2669 tokens", "personnummer 970325+26691", "1.3.6.1.4.1: snmp",
		"0a:1b:2c:3d:4e:5f", "50:06:01:60:3b:60:1f:aa", "ring 0:1:2:3:4:5:6:7 built", "0002:c903:00ef:1234",
		"delta +48211045 bytes", "delta +4821104567 bytes", "010-110-1101 bitmask", "0032 0064 0128 0256", "call 1795262401 ns", "tool call 4815162342", "intel 4815162342",
		"01-23-45-67-89-ab", "using 130692544 samples", "syntax 123456782", "social reward 219099999", "SSN 000-12-3456", "SSN 666-12-3456", "AB 12 34 56 E", "QQ 12 34 56 C",
		"Rssmra85T10a562s", "RSSMRA 85T10 A562T", "XRSSMRA 85T10 A562S", "rssmra 85T10 A562S", "260082A99401116", "91.978.166-A", "de89370400440532013001", "DE89 3704-0044-0532-0130-00", "0.4111111111111111",
		"[0.04347198911094055, 0.06952201574673418]", "HW_UNIT_SMSP = 2837616917", "110105194913310022", "1.23456789Z", "123.456.78-Z",
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestAVersionUnderItsKeyIsNoAddress(t *testing.T) {
	d := newPersonalDetector(t)
	if masked := maskAll(t, d, "service.version", "1.112.0.4"); masked != "1.112.0.4" {
		t.Errorf("the version became %q", masked)
	}
	if masked := maskAll(t, d, "client.address", "1.12.0.4"); masked == "1.12.0.4" {
		t.Error("the address of a client stayed")
	}
}
