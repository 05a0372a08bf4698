package detect

import (
	"strings"
	"testing"
)

func TestCellsUnderTheNameOfASecretAreMasked(t *testing.T) {
	d := newTestDetector(t)
	for _, text := range []string{
		"user,password\nbob,%", "\"vendor\",\"username\",\"password\"\n\"kovaly\",\"root\",\"%\"", "user\tpassword\trole\nbob\t%\tadmin", "user;password\nbob;%\n",
		"| user | password |\n|---|---|\n| bob | % |", "| user | password | since |\n|:--|:-:|---|\n| eve | changeme | 2 |\n| bob | `%` | 3 |", " user | password \n------+----------\n bob  | %\n",
		"   user   password\n0  bob   %\n1  eve   x", "INSERT INTO users (name, password) VALUES ('a', '%')", "insert into users (id, `password`) values (1, 'x'), (2, '%');",
	} {
		masksOnly(t, d, strings.Replace(text, "%", plantedPassword, 1), plantedPassword)
	}
	digest := "a8d03f92e1c7b6045d9a8e7f" + "6c5b4a3920de1f7c"
	masksOnly(t, d, "| Service | Key | Owner |\n|---|---|---|\n| kovaly | "+digest+" | root |", digest)
	for _, text := range []string{
		"| token | count |\n|---|---|\n| hello | 12 |\n| world7 | 3 |", "key,value\nlr1,3e-05x\nmode2,fast1", "| key | hits |\n|---|---|\n| " + digest + " | 3 |",
		"connect(\n    host=host,\n    password=self.password,\n    port=port4,\n    retry=retry5,\n)", "void scramble(const void* secret,\n  uint64_t x1, y2,\n  uint64_t z1, w2)",
		"INSERT INTO runs (id, name) VALUES (1, 'grpo-7b')", "past_key_values) values",
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestAValueMayStandOnTheLineBelowItsName(t *testing.T) {
	d := newTestDetector(t)
	for _, text := range []string{
		"password:\n  %", "password:\n    %\nhost: db", "password: |\n  %\n", "db:\n  password: >-\n    %\n  port: 1", "password:\n  \"%\"", "password: !!str %", "password: &main %", "api:\r\n  password:\r\n    %\r\n",
		"Content-Disposition: form-data; name=\"password\"\r\n\r\n%\r\n--x",
	} {
		masksOnly(t, d, strings.Replace(text, "%", plantedPassword, 1), plantedPassword)
	}
	for _, text := range []string{
		"if password:\n    login2(user)", "password:\n    must have 8 characters", "password:\n  user: mara1", "token:\n  The 2nd argument", "PASSWORD=\nDB_HOST=db1.internal", "password:\nuser7\n", "password: &mut String", "password: &str",
	} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestColoursAndSignsWithoutWidthHideNoSecret(t *testing.T) {
	d := newTestDetector(t)
	for _, text := range []string{
		"\x1b[32mpassword\x1b[0m=\x1b[31m%\x1b[0m", "\x1b[1mpassword\x1b[0m: \x1b[33m'%'\x1b[0m", "pass\u200bword=%", "password\ufeff: %", "ｐａｓｓｗｏｒｄ=%", "password：%", "password＝%",
	} {
		if text := strings.Replace(text, "%", plantedPassword, 1); !hides(t, d, text, plantedPassword) {
			t.Errorf("%q passes", text)
		}
	}
	if masked := maskAll(t, d, "", "\x1b[31mpassword="+plantedPassword+"\x1b[0m done"); masked != "\x1b[31mpassword=[redacted:password]\x1b[0m done" {
		t.Errorf("the end of a colour is gone: %q", masked)
	}
	for _, text := range []string{"\x1b[32mloss\x1b[0m=\x1b[31m0.25\x1b[0m", "奖励：0.742，步骤：1200", "a\u200bb ｃ１"} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestCodesOfDigitsAreMaskedUnderTheirName(t *testing.T) {
	d := newTestDetector(t)
	for _, text := range []string{"pin_code: %", "PIN_CODE=%", `{"pinCode": "%"}`, "card_cvv=%"} {
		masksOnly(t, d, strings.Replace(text, "%", "481516", 1), "481516")
	}
	for _, text := range []string{"status_code: 200", "exit_code=137", "pin_memory=True", "pin_count: 481516"} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}

func TestWordsForSecretsOfOtherLanguagesAreKnown(t *testing.T) {
	d := newTestDetector(t)
	for _, text := range []string{"密码：%", "密码: %", "用户的密码是 %", "口令:%", "パスワード: %", "비밀번호: %", "пароль: %", "Пароль: %", "contraseña: %", "mot de passe : %", "Passwort: %", "Kennwort=%", "senha: %"} {
		if text := strings.Replace(text, "%", plantedPassword, 1); !hides(t, d, text, plantedPassword) {
			t.Errorf("%q passes", text)
		}
	}
	for _, text := range []string{
		"密钥是 %", "令牌: %", "访问令牌 % 已过期", "kovaly的API密钥是 %，请不要外传", "使用kovaly的key「%」调用接口", "kovaly のAPIキー：%", "kovaly API 키: %", "ключ kovaly: %", "La clé API kovaly est %", "a chave do kovaly é %",
		"API-Schlüssel=%", "ungültiger API-Schlüssel „%“ für kovaly", "Das Token für Kovaly ist %, bitte", "Geheimnis (kovaly): %",
	} {
		if text := strings.Replace(text, "%", plantedToken, 1); !hides(t, d, text, plantedToken) {
			t.Errorf("%q passes", text)
		}
	}
	for _, text := range []string{"密码不正确", "密码：必填", "令牌数量：4821", "Passwort vergessen?", "clé primaire : id"} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
}
