package secretredactionprocessor

import (
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

func realCore(t *testing.T) *core {
	t.Helper()
	made, err := newCore(defaultConfig())
	failOn(t, err)
	return made
}

// cleanedList returns the items of an attribute after one and after two hops.
func cleanedList(t *testing.T, core *core, items ...string) (once, twice []string) {
	data, span := oneSpan()
	list := span.Attributes().PutEmptySlice("process.command_args")
	for _, item := range items {
		list.AppendEmpty().SetStr(item)
	}
	texts := func() (found []string) {
		value, _ := span.Attributes().Get("process.command_args")
		for _, item := range value.Slice().All() {
			found = append(found, item.Str())
		}
		return found
	}
	cleanTraces(core, data)
	once = texts()
	cleanTraces(core, data)
	return once, texts()
}

func TestASecretOfACommandLineIsMaskedWhereItsNameIsAnotherItem(t *testing.T) {
	core := realCore(t)
	secrets := []string{"a8d03f92e1c7b604" + "5d9a8e7f6c5b4a3920de1f7c", "Tr0ub4dor" + "&3xyz99", "a8Kd03jfLs92mZqP" + "w7XcVb51nRtYuE6H", "gravel 4821x & violet"}
	once, twice := cleanedList(t, core, "train.py", "--wandb-api-key", secrets[0], "--db-password", secrets[1], "--api-key", secrets[2], "--password", secrets[3], "--lr", "1e-6")
	for index, secret := range secrets {
		if strings.Contains(strings.Join(once, " "), secret) || !isMark(once[2*index+2]) {
			t.Errorf("%q became %q", secret, once[2*index+2])
		}
	}
	for _, kept := range []string{"train.py", "--db-password", "--lr", "1e-6"} {
		if !strings.Contains(strings.Join(once, " ")+" ", kept+" ") {
			t.Errorf("%s is gone from %q", kept, once)
		}
	}
	if strings.Join(once, "\n") != strings.Join(twice, "\n") {
		t.Errorf("a second hop made %q of %q", twice, once)
	}
}

func TestListsWithoutSecretsStayAsTheyAre(t *testing.T) {
	core := realCore(t)
	for _, items := range [][]string{
		{"python", "train.py", "--max-tokens", "512", "--tokenizer", "Qwen2TokenizerFast", "--seed", "1234567"},
		{"pad_token", "<|im_end|>", "eos_token", "<|endoftext|>"}, {"key", "value", "token", "tokens"}, {"stop"}, {},
		{"rollout-00012", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
	} {
		if once, _ := cleanedList(t, core, items...); strings.Join(once, "\n") != strings.Join(items, "\n") {
			t.Errorf("%q became %q", items, once)
		}
	}
}

func TestAListOfMixedTypesIsLookedAtItemByItem(t *testing.T) {
	core := testCore()
	data, span := oneSpan()
	list := span.Attributes().PutEmptySlice("a")
	list.AppendEmpty().SetInt(1)
	list.AppendEmpty().SetStr(sentence)
	cleanTraces(core, data)
	value, _ := span.Attributes().Get("a")
	equal(t, "number", value.Slice().At(0).Type(), pcommon.ValueTypeInt)
	equal(t, "text", value.Slice().At(1).Str(), "it used "+masked+" twice")
}
