package addresses

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

func TestNoSecretOfAnAddressIsShownAndAllElseIs(t *testing.T) {
	var cases []struct{ Text, Shown string }
	text, err := os.ReadFile("testdata/cases.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) == 0 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for _, each := range cases {
		if found := WithoutSecrets(each.Text); found != each.Shown {
			t.Errorf("%s\n got %s\nwant %s", each.Text, found, each.Shown)
		}
	}
}

func TestAShownErrorIsTheErrorInEveryOtherRespect(t *testing.T) {
	inside := fmt.Errorf("Post http://team:S3cr3t@host: %w", io.ErrUnexpectedEOF)
	err := Shown(inside)
	if strings.Contains(err.Error(), "S3cr3t") || !strings.Contains(err.Error(), "http://host") {
		t.Error(err)
	}
	if around := Shown(fmt.Errorf("Post http://team:S3cr3t@proxy: %w", err)); strings.Contains(around.Error(), "S3cr3t") {
		t.Error(around)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, inside) {
		t.Errorf("%v is no longer what it was", err)
	}
}

func TestAnErrorWithoutSecretsStaysItself(t *testing.T) {
	if err := errors.New("dial tcp 127.0.0.1:9: connection refused"); Shown(err) != err {
		t.Error("another error")
	}
	if Shown(nil) != nil {
		t.Error("an error out of nothing")
	}
}
