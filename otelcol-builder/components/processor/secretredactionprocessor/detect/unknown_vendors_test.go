package detect

import (
	"math/rand/v2"
	"strings"
	"testing"
)

const lettersAndDigits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func drawn(random *rand.Rand, alphabet string, length int) string {
	var text strings.Builder
	for range length {
		text.WriteByte(alphabet[random.IntN(len(alphabet))])
	}
	return text.String()
}

func TestARandomValueBehindTheTokenOrKeyOfAnUnknownVendorIsMasked(t *testing.T) {
	d := newTestDetector(t)
	random := rand.New(rand.NewPCG(11, 3))
	for _, around := range []string{
		"Kovaly token = '%'", "kovaly_token: %", "Kovaly token - '%'", "kovaly token - %", "Kovaly token '%'", "Kovaly token is '%'", "KOVALY_TOKEN=%",
		"Kovaly key = '%'", "kovaly key - '%'", "Kovaly key '%'", "kovaly_key = \"%\"", "Kovaly '%'", "Kovaly: '%'", "kovaly = '%'", "const kovaly = \"%\"",
	} {
		missed := 0
		for _, length := range []int{20, 24, 32, 40, 64, 120, 200} {
			for range 10 {
				if value := drawn(random, lettersAndDigits, length); !hides(t, d, strings.Replace(around, "%", value, 1), value) {
					missed++
				}
			}
		}
		if missed > 7 { // chance makes some that hold hardly a digit
			t.Errorf("%s: %d of 70 missed", around, missed)
		}
	}
	for _, value := range []string{"3f2b8c1d-9a47-4e60-b1f5-7c2d8e904a6b", "a8d03f92e1c7b6045d9a8e7f6c5b4a3920de1f7c"} {
		for _, around := range []string{"Kovaly token = '%'", "Kovaly token - '%'", "Kovaly key = '%'", "kovaly_key: \"%\""} {
			if !hides(t, d, strings.Replace(around, "%", value, 1), value) {
				t.Errorf("%s: %s is missed", around, value)
			}
		}
	}
}

func TestRandomValuesOfTrainingRunsStay(t *testing.T) {
	d := newTestDetector(t)
	for _, text := range []string{
		`pad_token = "<|im_end|>"`, "num_tokens = 4183", "token: 'Hello'", `eos_token: "<|endoftext|>"`, "token_ids = [151644, 8948, 198, 2610]",
		"rollout_id = 'V1StGXR8Z5jdHi6BmyT3xQ'", "run 'a8Kd03jfLs92mZqPw7XcVb51nRtYuE6H' resumed", "tool_call_id = 'call_8Kd03jfLs92mZqPw7XcVb51n'",
		`{"id": "chatcmpl-8Kd03jfLs92mZqPw7XcVb51nRtYuE", "object": "chat.completion"}`, `{"image": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"}`,
		"commit '9fceb02d0ae598e95dc970b74767f19372d61af8'", "sha256: 'n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg='", `"integrity": "sha512-8Kd03jfLs92mZqPw7XcVb51nRtYuE6HgT4oPq=="`,
		"checkpoint = 'step0001200model00003of00007x'", "cache key = '9f86d081884c7d659a2feaa0c55ad015'", "primary key '3f2b8c1d-9a47-4e60-b1f5-7c2d8e904a6b'",
		"prompt_key = \"9f86d081884c7d659a2feaa0c55ad015\"", "seed '8Kd03jfLs92mZqPw7XcV'", "cursor: 'WyIyMDI2LTExLTIyIiwgMTIzNDVd8Kd03jf'", "expected '8Kd03jfLs92mZqPw7XcVb51n' got 'x'",
		"block = 'Qwen2DecoderLayer28Attention16Heads'", "tokenizer 'Qwen2TokenizerFastV2Rev3b1c8'",
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestPlaceholdersCountOnlyAsWordsAndNotBesideARandomValue(t *testing.T) {
	d := newTestDetector(t)
	for _, secret := range []string{
		"rl-sampler-" + "9f8Qz1x", "Resample" + "2026!x", "sample-" + "4821xQ", "@dmin" + "Pass", "$uper" + "SecretPw", "a8Kd03jfLs" + "exampleZqPw7XcVb51nRtYuE6H", "Zk83" + "your-Q92mZqPw7XcVb51nRtYuE6H",
	} {
		for _, text := range []string{"password=" + secret, "DB_PASSWORD=" + secret + " set"} {
			if !hides(t, d, text, secret) {
				t.Errorf("%s passes", text)
			}
		}
	}
	for _, text := range []string{
		"password=example", "api_key=your_api_key_here", "api_key=sk-xxxxxxxxxxxx", "password=<your-password>", "password=$DB_PASSWORD", "password=${PASSWORD}", "password = @password", "password=$password", "password=changeme",
		"AKIAIOSFODNN7EXAMPLE", "api_key=yourapikey", "password=sample2", "token=example-token-1", "password=dummy-password",
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestPasswordsOfConnectionStringsAreMaskedInAnyForm(t *testing.T) {
	d := newTestDetector(t)
	secret := "Mango_" + "5417x"
	for _, text := range []string{
		"postgresql://trainer:%@db.internal:5432/rl", "mongodb+srv://trainer:%@cluster0.mongodb.net", "amqps://trainer:%@mq", "clickhouse+native://u:%@ch:9000/db", "redis://:%@cache:6379/0",
		"smb://corp;trainer:%@files/share", "jdbc:mysql://rl:%@db/rl", "jdbc:sqlserver://db:1433;user=rl;password=%", "Server=db;Uid=rl;Pwd=%;", "trainer:%@tcp(db.internal:3306)/rl?parseTime=true",
		"scott/%@//db:1521/orcl", `DirectoryEntry("LDAP://dc1.corp/DC=corp", "svc_ldap", "%")`,
	} {
		if !hides(t, d, strings.Replace(text, "%", secret, 1), secret) {
			t.Errorf("%s passes", text)
		}
	}
	for _, text := range []string{"dial tcp(10.0.0.1:4317)", "see //db:1521/orcl", "a/b@//c", "user@//host"} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestTokensThatOnceWereMissedAreMasked(t *testing.T) {
	d := newTestDetector(t)
	for _, each := range []struct{ text, secret string }{
		{"110201543:" + "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"}, {"NRAK-" + "8K3JX9QWERTYUIOPLKJHGFDSAZX2C", "8K3JX9QWERTYUIOPLKJHGFDSAZX2C"},
		{"kubelet --tls-bootstrap-token 07401b." + "f395accd246ae52d --x", "f395accd246ae52d"}, {`jwtsecret: "k#9f!` + `2xLq@77z"`, "k#9f!" + "2xLq@77z"},
		{`{"method":"auth.login_with_api_key","params":["1-kJ8s7Dhf` + `83kLmN4pQ2"]}`, "1-kJ8s7Dhf" + "83kLmN4pQ2"},
	} {
		if !hides(t, d, each.text, each.secret) {
			t.Errorf("%s passes", each.text)
		}
	}
}
