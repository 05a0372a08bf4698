package secretredactionprocessor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

// Texts that stand for what was taken away.
const (
	contentRemoved = "[content removed]"
	droppedStart   = "[dropped by redaction: " // the reason and a bracket follow
	constantMask   = "[redacted]"
	// credentialClass is the class of a value that is a secret because of its key.
	credentialClass = "credential"
)

// markPattern finds what this processor wrote before: a second hop leaves it alone.
var markPattern = regexp.MustCompile(
	`\[redacted(:[a-z0-9_.-]{1,64}(:[0-9a-f]{8})?)?\]|\[content removed\]|\[dropped by redaction(: [a-z_]{1,32})?\]|\[truncated, [0-9]+ (bytes|values)\]`)

// masker renders masks.
type masker struct {
	fingerprintKey []byte // nil: no fingerprints
}

// mask is what stands for the secret. Metric attributes get the constant: a mask per secret would be a series per secret.
func (m *masker) mask(finding detect.Finding, secret string, constant bool) string {
	if constant {
		return constantMask
	}
	if m.fingerprintKey == nil || finding.LowEntropy {
		return "[redacted:" + finding.Class + "]"
	}
	code := hmac.New(sha256.New, m.fingerprintKey)
	code.Write([]byte(secret))
	return "[redacted:" + finding.Class + ":" + hex.EncodeToString(code.Sum(nil)[:4]) + "]"
}

// render puts masks in the place of findings, which are sorted and do not overlap.
func (m *masker) render(text string, findings []detect.Finding, constant bool) string {
	var built strings.Builder
	built.Grow(len(text) + 16*len(findings))
	end := 0
	for _, each := range findings {
		built.WriteString(text[end:each.Start])
		built.WriteString(m.mask(each, text[each.Start:each.End], constant))
		end = each.End
	}
	built.WriteString(text[end:])
	return built.String()
}

// isMark says whether the text is nothing but what this processor wrote.
func isMark(text string) bool {
	if !strings.HasPrefix(text, "[") {
		return false
	}
	place := markPattern.FindStringIndex(text)
	return place != nil && place[0] == 0 && place[1] == len(text)
}

// withoutMarks returns a key without what this processor wrote into it.
func withoutMarks(key string) string {
	if !strings.Contains(key, "[") {
		return key
	}
	return strings.TrimSpace(markPattern.ReplaceAllString(key, ""))
}

// outsideMarks leaves out of the findings what this processor wrote before. A finding that reaches over a mark is cut
// there, and what is left of it counts only when it can be a secret by itself.
func outsideMarks(text string, findings []detect.Finding) []detect.Finding {
	if len(findings) == 0 || !strings.Contains(text, "[") {
		return findings
	}
	marks := markPattern.FindAllStringIndex(text, -1)
	if len(marks) == 0 {
		return findings
	}
	var kept []detect.Finding
	for _, each := range findings { // both are sorted: marks before this finding are before the next ones as well
		for len(marks) > 0 && marks[0][1] <= each.Start {
			marks = marks[1:]
		}
		kept = appendOutside(kept, text, each, marks)
	}
	return kept
}

func appendOutside(kept []detect.Finding, text string, whole detect.Finding, marks [][]int) []detect.Finding {
	part, cut := whole, false
	for _, mark := range marks {
		if mark[0] >= whole.End {
			break
		}
		cut = true
		part.End = max(part.Start, mark[0])
		if looksSecret(text[part.Start:part.End]) {
			kept = append(kept, part)
		}
		part.Start, part.End = min(mark[1], whole.End), whole.End
	}
	if !cut || looksSecret(text[part.Start:part.End]) {
		kept = append(kept, part)
	}
	return kept
}

// looksSecret says whether the text has a run of eight letters and digits that has both.
func looksSecret(text string) bool {
	for _, run := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(run) >= 8 && strings.ContainsFunc(run, unicode.IsDigit) && strings.ContainsFunc(run, unicode.IsLetter) {
			return true
		}
	}
	return false
}

// longestClass is what a mask has room for.
const longestClass = 64

// className makes a rule's name fit into a mask: rule files may name their rules as they like.
func className(name string) string {
	fits := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLower(r) || unicode.IsDigit(r) || strings.ContainsRune("_.-", r))
	}
	name = strings.ToLower(name)
	name = name[:runeBorder(name, longestClass)]
	return strings.Map(func(r rune) rune {
		if fits(r) {
			return r
		}
		return '_'
	}, name)
}
