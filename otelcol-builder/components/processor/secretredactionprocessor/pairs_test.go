package secretredactionprocessor

import (
	"strings"
	"testing"
)

const plantedKey = "kD83hfQ0zLmW4cXp" + "7TnY2bRs"

func TestASecretInAStructureIsMaskedByTheNameThatItHasThere(t *testing.T) {
	core, err := newCore(defaultConfig())
	failOn(t, err)
	for name, value := range map[string]any{
		"environment":    []any{map[string]any{"name": "OPENAI_API_KEY", "value": plantedKey}},
		"headers":        []any{map[string]any{"name": "x-api-key", "value": plantedKey}},
		"an entry":       map[string]any{"k": "api_key", "v": plantedKey},
		"a header":       map[string]any{"header": "Authorization", "val": "Bearer " + plantedKey},
		"a list of it":   []any{[]any{"API_KEY", plantedKey}},
		"secrets":        map[string]any{"openai": plantedKey},
		"tokens":         map[string]any{"openai": plantedKey},
		"tokens in list": map[string]any{"tokens": map[string]any{"values": []any{plantedKey}}},
		"auth_tokens":    map[string]any{"openai": plantedKey},
		"credentials":    map[string]any{"openai": map[string]any{"x": plantedKey}},
		"密码":             plantedKey,
		"kovaly":         plantedKey,
	} {
		data, span := oneSpan()
		failOn(t, span.Attributes().FromRaw(map[string]any{name: value}))
		cleanTraces(core, data)
		first := tracesJSON(t, data)
		if strings.Contains(first, plantedKey) {
			t.Errorf("%s: %s", name, first)
		}
		cleanTraces(core, data)
		equal(t, "after a second hop", tracesJSON(t, data), first)
	}
}

func TestNumbersUnderTheNameOfACodeAreMasked(t *testing.T) {
	core, err := newCore(defaultConfig())
	failOn(t, err)
	data, span := oneSpan()
	failOn(t, span.Attributes().FromRaw(map[string]any{"pin_code": 481516, "otp": 481517, "status_code": 200, "pin_memory": 1, "exit_code": 137}))
	cleanTraces(core, data)
	text := tracesJSON(t, data)
	if strings.Contains(text, "48151") {
		t.Errorf("a code stayed: %s", text)
	}
	equal(t, "status", span.Attributes().AsRaw()["status_code"], any(int64(200)))
	equal(t, "exit", span.Attributes().AsRaw()["exit_code"], any(int64(137)))
	equal(t, "flag", span.Attributes().AsRaw()["pin_memory"], any(int64(1)))
}

func TestStructuresWithoutASecretStay(t *testing.T) {
	core, err := newCore(defaultConfig())
	failOn(t, err)
	data, span := oneSpan()
	failOn(t, span.Attributes().FromRaw(map[string]any{
		"metrics": []any{map[string]any{"name": "reward", "value": 0.5}, map[string]any{"name": "run", "value": plantedKey}},
		"tokens":  map[string]any{"input": 12, "list": []any{"hello", "world", "<|eos|>"}},
		"ids":     map[string]any{"key": "sample_id", "value": plantedKey, "uid": "9f86d081884c7d659a2feaa0c55ad015"},
		"usage":   map[string]any{"prompt_tokens": 4183, "trace": plantedKey},
	}))
	before := tracesJSON(t, data)
	cleanTraces(core, data)
	equal(t, "the span", tracesJSON(t, data), before)
}

func TestAMaskInTheNameOfAVariableUnderASecretKeyIsLeftAlone(t *testing.T) {
	data, span := oneSpan()
	span.Attributes().PutStr("password", "$"+planted)
	cleanTwice(t, func() string { return tracesJSON(t, data) }, func() { cleanTraces(testCore(fingerprints), data) })
}
