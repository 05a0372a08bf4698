package detect

import (
	"strings"
	"testing"
)

func TestALabelTellsASecretThatHasNoFormOfItsOwn(t *testing.T) {
	d := newTestDetector(t)
	hexLine, digits := "8f3a0c19d27e4b5566a1907cfe3d82b4", strings.Repeat("38261945", 10)
	for text, secret := range map[string]string{
		"-----BEGIN OpenVPN Static key V1-----\n" + hexLine + "\n" + hexLine + "\n-----END OpenVPN Static key V1-----": hexLine,
		"$ANSIBLE_VAULT;1.1;AES256\n" + digits + "\n" + digits:                                                         digits,
		"Unseal Key 1: OahabBAo/zyhiqlqXpGBF1upCnDRrQdxcRfEfLGeTTKd":                                                   "OahabBAo/zyhiqlqXpGBF1upCnDRrQdxcRfEfLGeTTKd",
		"recovery_code: ij4sl-roq8q":                         "ij4sl-roq8q",
		"mysqldump --user=root --password=HqprEizgGVXf runs": "HqprEizgGVXf",
		"password=correct-horse-battery":                     "correct-horse-battery",
		"echo Lantern885 | sudo -S apt update":               "Lantern885",
	} {
		if !hides(t, d, text, secret) {
			t.Errorf("not found in %q", text)
		}
	}
	for _, text := range []string{
		"login(password=get_password, user=me)", "f(password=userPassword)", "connect(password=dbConfigHolder)", "pass=one-two-three",
		"password=my-app-db-password", "recovery code: 500, retry 3", "backup_codes: list[str]", "recovery_code=generate_code()",
		"Unseal Key 1 of 5: see the operator", "$ANSIBLE_VAULT;1.1;AES256 is the header of such files",
	} {
		if found, err := d.Find("", text); err != nil || len(found) > 0 {
			t.Errorf("%q: %v %v", text, found, err)
		}
	}
}
