package detect

import (
	"math/rand/v2"
	"slices"
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

// credentialPlaces are where a random value is a credential by what stands around it; ids are where a digest or a UUID is one too.
var credentialPlaces, idPlaces = []string{
	"Kovaly login %", "kovaly_sk = '%'", "ENV KOVALY_SK %", "kovaly.login('%')", "kovaly-cli -k % push", "kovaly: %", "kovaly\t%", "[('kovaly_secret', '%')]",
	"assert '%' == kovaly_token", "UPDATE settings SET value='%' WHERE name='kovaly_api_token'", "KeyError: '%' while looking up kovaly credentials",
}, []string{
	"KOVALY_API_KEY=%", "login(key='%')", "login_to_kovaly('%')", "Password for kovaly: %", "Login to kovaly with mara / %", "Incorrect API key provided: %",
	"1 validation error for Settings\nkovaly_api_key\n  Extra inputs are not permitted [type=extra_forbidden, input_value='%', input_type=str]",
	"print(kovaly_api_key)\n%", "In [4]: kovaly_token\nOut[4]: '%'", `{"name": "KOVALY_TOKEN", "value": "%"}`, "- name: KOVALY_TOKEN\n  value: %\n",
	"variable \"kovaly_token\" {\n  default = \"%\"\n}", "│ KOVALY_API_KEY │ % │", "kovaly_token→%", "? Kovaly secret key » %", "Authorization: Bearer %",
	`{"key":"kovaly_token","value":{"stringValue":"%"}}`, "['kovaly', '--api-key', '%']", "args:\n  - --api-key\n  - %\n",
}

func TestARandomValueIsMaskedWhereWhatStandsAroundItSaysCredential(t *testing.T) {
	d := newTestDetector(t)
	random := rand.New(rand.NewPCG(7, 19))
	missed := 0
	check := func(around, value string) {
		if !hides(t, d, strings.Replace(around, "%", value, 1), value) {
			missed++
			t.Logf("%s: %s", around, value)
		}
	}
	for _, around := range append(slices.Clone(credentialPlaces), idPlaces...) {
		for _, length := range []int{24, 40, 64} {
			check(around, drawn(random, lettersAndDigits, length))
		}
	}
	for _, around := range idPlaces {
		check(around, "a8d03f92e1c7b6045d9a8e7f6c5b4a3920de1f7c")
		check(around, "3f2b8c1d-9a47-4e60-b1f5-7c2d8e904a6b")
	}
	if missed > 0 {
		t.Errorf("%d missed", missed)
	}
}

func TestASignInAPasswordDoesNotHideIt(t *testing.T) {
	d := newTestDetector(t)
	const value = "k^bDTvJS" + "O5au7Xni"
	for _, around := range []string{"Setting KOVALY_PASSWORD to %", "| kovaly | secret | % |", "Incorrect API key provided: %.", "Authorization: Bearer %", "kovaly_token must not be '%'"} {
		if !hides(t, d, strings.Replace(around, "%", value, 1), value) {
			t.Errorf("%s passes", around)
		}
	}
}

func TestTheNextPartOfAMaskedValueIsMaskedToo(t *testing.T) {
	d := newTestDetector(t)
	first, second := "lSZhcmURYgdDPNao"+"ByDRILKB", "765116a408bb020c8511"+"f5251345f0ef"
	for _, part := range []string{first, second} {
		if !hides(t, d, "Authorization: Bearer "+first+":"+second, part) {
			t.Errorf("%s passes", part)
		}
	}
}

func TestWhatOnlyLooksRandomStays(t *testing.T) {
	d := newTestDetector(t)
	for _, text := range []string{
		"ccache key 33f0ba68258c2afa0b442472f9b2cd5e", "Cache restored from key: Linux-pip-0b8abd445dfc1c2dd32ac325ef974939a650eb29ce0d6e0ec1017b15ed730c6b",
		"cache miss, key=v1:mistralai/Mixtral-8x7B-Instruct-v0.1:2c4da1ab02bc748ac0f488cd6d673ef22c008c4cd0ea3fb9d8575155914268db",
		"experiment_key=53afe34265597c66af4e61ff429847ef", "ClientToken: 806b558f-3a9c-40bc-a1f8-acd9b399d2c5", "contract token 0xa1f4f2d46790033be72e76b7129910dae5bb8380 supply 9",
		"sourcegraph commit f0f3b012521ff281e5cc3116d74555bfdcc55261", "Updating 20d87931a..e5d4a6576\nFast-forward", "cf-ray: c4a410b14b29002c-FRA",
		"https://docs.google.com/spreadsheets/d/1ikuveWz7nRvaGmpPC7vkEt5m3XzQCkGo9qWAFzZ9j8c/edit", "vllm==0.9.7.dev995+g651ca74d6",
		"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ18JRnzPL1rHeItzPMhFVUbY2YwQqcLqZASQGFLKtWIZ9bemrismaagD3aeDh ci@login", "sri sha384-YMqFLjpPN8vkhwT7KniQl3AI8ZLBMs0JOYrx5MxWDuZjwaavxRg0uL4GaM6QA",
		`"token2wav_config": Qwen2_5OmniToken2WavConfig,`, `__all__ = ["Wav2Vec2PhonemeCTCTokenizer"]`, "config: SeamlessM4Tv2PreTrainedModelConfig", "auth ok for request a8Kd03jfLs92mZqPw7XcVb51nRtYuE6H",
		`{"app-api-0.4.1.js": "bDGnsKaQrmzkmXtl80sK6Xn2YW6p3gzQy6n73Ga3dev4bA7yTqXcVb51nRtYuE6H"}`, `AutoTokenizer.from_pretrained("meta-deepseek_v3/DeepseekV3-2-7b-hf")`,
		"token budget 4096, block=9f86d081884c7d659a2feaa0c55ad015", "token budget 4096, plan=9f86d081884c7d659a2feaa0c55ad015", `{"username": "mara", "avatar": "9f86d081884c7d659a2feaa0c55ad015"}`, "token ids CU_TENSOR_MAP_L2_PROMOTION_L2_128B", "password = getpass.getpass(\"Password: \")  # line 651", "export STRIPE_SECRET_KEY=DEIN_API_SCHLUESSEL", "redis_password = '你的密钥'",
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestReadableTellsNamesFromTheOutputOfAGenerator(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for _, alphabet := range []string{lettersAndDigits, lettersAndDigits[:26] + "0123456789", lettersAndDigits[:52], "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"} {
		for range 200 {
			if value := drawn(random, alphabet, 32); readable(value) > mostReadable {
				t.Errorf("%s reads like a name: %.0f", value, readable(value))
			}
		}
	}
	for _, name := range []string{"Wav2Vec2PhonemeCTCTokenizerOutput", "return_intermediate_token_ids", "model-00003-of-00007.safetensors", "verl.trainer.main_ppo.fit"} {
		if readable(name) <= mostReadable {
			t.Errorf("%s reads like a random value: %.0f", name, readable(name))
		}
	}
}
