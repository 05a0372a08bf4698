package detect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const judgeRule = `
[[rules]]
id = "judge-badge"
description = "badge of the judge"
regex = '''\bjdg-[a-z]{4}\b'''
keywords = ["jdg-"]
`

func withRules(t *testing.T, content string) (*Detector, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.toml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return New(Config{RulesFile: file})
}

func TestAFileReplacesTheBuiltInRules(t *testing.T) {
	d, err := withRules(t, judgeRule)
	if err != nil {
		t.Fatal(err)
	}
	found, err := d.Find("", "badge jdg-zqxw, 12345678 shown")
	if err != nil || len(found) != 1 || found[0].Class != "judge_badge" {
		t.Errorf("found %v, %v", found, err)
	}
	if len(d.rules) != 1 {
		t.Errorf("%d rules", len(d.rules))
	}
}

func TestAFileCanExtendTheBuiltInRulesAgainAndAgain(t *testing.T) {
	builtIn := newTestDetector(t)
	for range 4 {
		d, err := withRules(t, "[extend]\nuseDefault = true\ndisabledRules = [\"jwt\"]\n"+judgeRule+"# "+t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if len(d.rules) != len(builtIn.rules) {
			t.Fatalf("%d rules of %d, one added and one left out", len(d.rules), len(builtIn.rules))
		}
	}
}

func TestAnUnusableFileIsRefusedWithTheReason(t *testing.T) {
	for content, reason := range map[string]string{
		"rules = [": "TOML", "title = \"none\"": "no rule", "[[rules]]\nid = \"a\"\nregex = '''(a'''": "cannot be compiled",
		"[extend]\npath = \"x.toml\"\n" + judgeRule: "extend.path", "[[rules]]\nregex = '''a'''": "id",
	} {
		if _, err := withRules(t, content); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := New(Config{RulesFile: "/nowhere/rules.toml"}); err == nil || !strings.Contains(err.Error(), "rules_file") {
		t.Errorf("%v", err)
	}
}

func TestAllowlistsOfARuleAreObeyed(t *testing.T) {
	d, err := withRules(t, judgeRule+`
[[rules.allowlists]]
regexes = ['''jdg-free''']
[[rules.allowlists]]
regexTarget = "line"
condition = "AND"
regexes = ['''harmless''']
stopwords = ["open"]
`)
	if err != nil {
		t.Fatal(err)
	}
	for text, masked := range map[string]bool{
		"badge jdg-free of 12345678": false, "badge jdg-open is harmless 12345678": false, "badge jdg-open of 12345678": true, "badge jdg-zqxw is harmless 12345678": true,
	} {
		if found, err := d.Find("", text); err != nil || (len(found) > 0) != masked {
			t.Errorf("%q: %v, %v", text, found, err)
		}
	}
}

func TestAnInlineCommentDoesNotLetASecretPass(t *testing.T) {
	if !hides(t, newTestDetector(t), "api_key = \""+plantedToken+"\" # gitleaks:allow", plantedToken) {
		t.Error("the comment was obeyed")
	}
}
