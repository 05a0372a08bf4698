package detect

import (
	"strings"
	"testing"
)

// planted passwords that people type, with signs that mean something elsewhere.
const (
	plantedAmpersand = "Tr0ub4dor" + "&3xyz99"
	plantedSigns     = "a&b " + "c!x9"
)

func TestAnAmpersandIsPartOfAValueUnlessAParameterFollows(t *testing.T) {
	d := newTestDetector(t)
	for _, each := range []struct{ text, secret string }{
		{"login with password=" + plantedAmpersand, plantedAmpersand},
		{"PASSWORD=" + plantedAmpersand + " then retry", plantedAmpersand},
		{"password=Tr0ub4dor" + "&3 mail mara", "Tr0ub4dor" + "&3"},
		{"db.password: " + plantedAmpersand + ", host: db", plantedAmpersand},
		{"SECRET_KEY=" + plantedAmpersand, plantedAmpersand},
		{"password=&" + plantedAmpersand, "&" + plantedAmpersand},
		{"password=Gravel" + "&&4821x and more", "Gravel" + "&&4821x"},
		{"password=" + plantedAmpersand + "&user=mara", plantedAmpersand},
		{"a=1&password=secret99&b=2", "secret99"},
		{"a=1&amp;password=secret99&amp;b=2", "secret99"},
		{"a=1&password=secret99&filter[name]=2", "secret99"},
		{"a=1&password=secret99&_=1700000000", "secret99"},
		{"cmd password=" + plantedPassword + " && next", plantedPassword},
		{"cmd password=" + plantedPassword + "&& next", plantedPassword},
		{"cmd password=" + plantedPassword + "& next", plantedPassword},
		{"cmd password=" + plantedPassword + "&", plantedPassword},
		{`open "login?password=` + plantedPassword + `&"`, plantedPassword},
		{"&quot;password=" + plantedPassword + "&quot;", plantedPassword},
		{"<p>password=Tr0ub4dor" + "&amp;3xyz99</p>", "Tr0ub4dor" + "&amp;3xyz99"},
		{`{"msg":"password=Tr0ub4dor` + `\u00263xyz99"}`, "Tr0ub4dor" + `\u00263xyz99`},
	} {
		masksOnly(t, d, each.text, each.secret)
	}
	for _, text := range []string{
		"cmd password=x && next", "login?password=&user=mara", "password = &cfg.Password", "password: &str", "password: &mut String",
		"password: &[u8]", "fn check(password: &'a str)", "password = &user->password", "scanf(\"%s\", &password)", "password=&buffer[0]",
		"token=tokenizer&mask", "pass = flags&mask", "password=&amp;user=mara",
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestAQuotedSecretIsMaskedWithTheBlanksInIt(t *testing.T) {
	d := newTestDetector(t)
	for _, name := range []string{"SECRET_KEY", "secret_key", "AWS_SECRET_ACCESS_KEY", "api_key", "client_secret", "DB_PASSWORD"} {
		for _, quote := range []string{"'", `"`} {
			masksOnly(t, d, "env "+name+"="+quote+plantedSigns+quote+" set by mara", plantedSigns)
		}
	}
	masksOnly(t, d, `{"secret_key": "`+plantedSigns+`", "n": 4}`, plantedSigns)
	masksOnly(t, d, `{\"secret_key\": \"`+plantedSigns+`\", \"n\": 4}`, plantedSigns)
	for _, text := range []string{
		`SECRET_KEY="set it in step 2!"`, `api_key: "must have 32 characters & 1 digit"`, "secret_key: 'tis 9 & more", `api_key="Model 7B (base), rank 3"`,
		`get("secret_key", "rank 9 & more")`, `SECRET_KEY="<your key, 32 signs!>"`, `access_key = "token #1 & token #2"`,
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

// masksOnly checks that a mask stands where the secret stood, and all else stays.
func masksOnly(t *testing.T, d *Detector, text, secret string) {
	t.Helper()
	masked := maskAll(t, d, "", text)
	before, after, _ := strings.Cut(text, secret)
	middle, hasBefore := strings.CutPrefix(masked, before)
	middle, hasAfter := strings.CutSuffix(middle, after)
	if !hasBefore || !hasAfter || !IsMask(middle) {
		t.Errorf("%q became %q", text, masked)
	}
}
