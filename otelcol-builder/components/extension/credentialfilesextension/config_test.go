package credentialfilesextension

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/confmap"
)

const (
	certificateName = "CERT_FILE"
	authorityName   = "CA_FILE"
	keyName         = "KEY_FILE"
	secretName      = "TOKEN_FILE"
)

// certificate returns one in PEM that is valid from `begin` to `end`, both counted from now.
func certificate(t *testing.T, begin, end time.Duration) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gateway"},
		NotBefore: now.Add(begin), NotAfter: now.Add(end),
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}))
}

// file writes a file of this mode and returns its path.
func file(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// parsed returns the configuration that a collector makes of these settings.
func parsed(t *testing.T, settings map[string]any) *Config {
	t.Helper()
	config := NewFactory().CreateDefaultConfig().(*Config)
	if err := confmap.NewFromStringMap(settings).Unmarshal(config); err != nil {
		t.Fatal(err)
	}
	return config
}

func of(kind, name string, path any) map[string]any {
	return map[string]any{"required": map[string]any{kind: map[string]any{name: path}}}
}

func TestFilesThatCanBeMeantAreAccepted(t *testing.T) {
	old, good := certificate(t, -2*time.Hour, -time.Hour), certificate(t, -time.Hour, time.Hour)
	for name, settings := range map[string]map[string]any{
		"nothing":                         {},
		"certificate that others read":    of("certificates", certificateName, file(t, good, 0o644)),
		"authorities with an old one too": of("authorities", authorityName, file(t, old+good, 0o644)),
		"key of this user":                of("keys", keyName, file(t, "key", 0o600)),
		"key of this user's group":        of("keys", keyName, file(t, "key", 0o640)),
		"token":                           of("secrets", secretName, file(t, "token\n", 0o400)),
		"optional files that nobody names": {"optional": map[string]any{
			"authorities": map[string]any{authorityName: ""}, "keys": map[string]any{keyName: nil},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := parsed(t, settings).Validate(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestFilesThatCannotBeMeantAreRefusedWithTheNameAndTheFix(t *testing.T) {
	old, young := certificate(t, -2*time.Hour, -time.Hour), certificate(t, time.Hour, 2*time.Hour)
	good := certificate(t, -time.Hour, time.Hour)
	broken := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")}))
	for name, test := range map[string]struct {
		settings map[string]any
		says     string
	}{
		"no certificate named":      {of("certificates", certificateName, ""), "CERT_FILE is not set: name the file of the certificate"},
		"no authority named":        {of("authorities", authorityName, nil), "CA_FILE is not set: name the file of the certificate authority"},
		"no token named":            {of("secrets", secretName, ""), "TOKEN_FILE is not set: name the file of the token or password"},
		"missing":                   {of("certificates", certificateName, "/nowhere/cert.pem"), "CERT_FILE: /nowhere/cert.pem does not exist; put the file there"},
		"folder":                    {of("keys", keyName, t.TempDir()), "cannot be read (is a directory); correct the path"},
		"empty certificate":         {of("certificates", certificateName, file(t, "", 0o644)), "is empty; write it"},
		"empty authority":           {of("authorities", authorityName, file(t, "\n", 0o644)), "is empty; write it"},
		"empty key":                 {of("keys", keyName, file(t, "", 0o600)), "is empty; write it"},
		"empty token":               {of("secrets", secretName, file(t, " \n", 0o600)), "is empty; write it"},
		"no PEM":                    {of("certificates", certificateName, file(t, "certificate", 0o644)), "has no certificate in PEM"},
		"broken":                    {of("certificates", certificateName, file(t, broken, 0o644)), "has a certificate that cannot be read"},
		"expired":                   {of("certificates", certificateName, file(t, old, 0o644)), "has expired on "},
		"expired in the chain":      {of("certificates", certificateName, file(t, good+old, 0o644)), "(CN=gateway); renew it"},
		"not valid yet":             {of("certificates", certificateName, file(t, young, 0o644)), "correct the clock of this machine"},
		"every authority expired":   {of("authorities", authorityName, file(t, old+old, 0o644)), "has expired on "},
		"key for everybody":         {of("keys", keyName, file(t, "key", 0o644)), "is open to every user of this machine (mode 0644); run chmod o= on it"},
		"token that others write":   {of("secrets", secretName, file(t, "token", 0o602)), "(mode 0602)"},
		"optional file not there":   {map[string]any{"optional": of("keys", keyName, "/nowhere/key")["required"]}, "KEY_FILE: /nowhere/key does not exist"},
		"optional that has expired": {map[string]any{"optional": of("authorities", authorityName, file(t, old, 0o644))["required"]}, "has expired on "},
	} {
		t.Run(name, func(t *testing.T) {
			err := parsed(t, test.settings).Validate()
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("%v does not say %q", err, test.says)
			}
		})
	}
}

func TestEveryProblemIsNamedAndNoContent(t *testing.T) {
	err := parsed(t, map[string]any{"required": map[string]any{
		"secrets": map[string]any{"FIRST": file(t, "s3cret-token", 0o644), "SECOND": "/nowhere/token"},
		"keys":    map[string]any{"THIRD": file(t, "-----BEGIN PRIVATE KEY-----", 0o666)},
	}}).Validate()
	if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "PRIVATE KEY") {
		t.Fatalf("content in: %v", err)
	}
	for _, name := range []string{"FIRST: ", "SECOND: ", "THIRD: "} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is missing in: %v", name, err)
		}
	}
}
