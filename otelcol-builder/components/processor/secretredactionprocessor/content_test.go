package secretredactionprocessor

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const prompt = "tell me about violet elephants"

func TestContentKeysAreKnownInEverySpelling(t *testing.T) {
	for _, key := range []string{
		"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.call.arguments",
		"gen_ai.tool.call.result", "gen_ai.tool.definitions", "gen_ai.prompt.0.content", "gen_ai.evaluation.explanation",
		"gen_ai.retrieval.query.text", "gen_ai.event.content", "input.value", "output.value",
		"llm.input_messages.0.message.content", "llm.choices.0.completion.text", "llm.request.functions.0.description",
		"retrieval.documents.0.document.content", "reranker.query", "embedding.vector", "tool.parameters", "tool.json_schema",
		"traceloop.entity.input", "messages", "prompt", "completions", "request.messages", "systemPrompt", "user-prompt",
		"a.prompt_token_ids", "log.record.original", "ai.prompt.messages", "ai.result.toolCalls", "ai.response.text",
		"llm.openai.choices", "agentops.entity.input", "mlflow.traceInputs", "response_data", "haystack.component.input",
		"langfuse.observation.output", "traceloop.prompt.template_variables", "messages[0]", "agent.instructions", "tool-calls",
		"traceloop.prompt.template_variables.name", "llm.prompt_template.variables.role", "gen_ai.prompt.0.content\nx",
		"db.marqo.search.query", "pinecone.query.queries", "rl.rollout.input", "rl.rollout.output", "rl.reward.input", "rl.reward.output",
	} {
		equal(t, key, treatmentOf(key), contentValue)
	}
	for _, key := range []string{
		"gen_ai.usage.input_tokens", "gen_ai.prompt.name", "rl.trainer.metric.key", "completions/mean_length", "prompt_tokens",
		"gen_ai.output.type", "content.type", "message", "llm.model_name", "gen_ai.tool.name", "rl.rollout.output_tokens", "rl.inference.token_ids.count",
	} {
		equal(t, key, treatmentOf(key), ordinary)
	}
	equal(t, "exception.message", treatmentOf("exception.message"), exceptionMessage)
	equal(t, "rl.cause.exception.message", treatmentOf("rl.cause.exception.message"), exceptionMessage)
	equal(t, "exception.stacktrace", treatmentOf("a.exception.stacktrace"), stackTrace)
}

func TestContentIsRemovedAtAnyDepthAndNumbersStay(t *testing.T) {
	data, span := oneSpan()
	failOn(t, span.Attributes().FromRaw(map[string]any{
		"input.value": prompt,
		"prompts":     8,
		"request": map[string]any{
			"model": "m", "messages": []any{map[string]any{"content": prompt}}, "deep": []any{map[string]any{"prompt": prompt, "n": 1}},
			"gen_ai": map[string]any{"completion": prompt}, "llm": map[string]any{"prompts": []any{prompt}},
			"exception": map[string]any{"type": "ValueError", "message": prompt},
		},
		"json": `{"model": "m", "messages": [{"content": "` + prompt + `"}], "n": 1}`,
		"cut":  `{"model": "m", "prompt": "` + prompt,
	}))
	counts := cleanTraces(testCore(), data)
	text := tracesJSON(t, data)
	if strings.Contains(text, "violet") {
		t.Errorf("content in %s", text)
	}
	equal(t, "removed", counts.content, 8)
	kept := span.Attributes().AsRaw()
	equal(t, "a number under a content key", kept["prompts"], any(int64(8)))
	equal(t, "JSON", kept["json"], any(`{"model": "m", "messages": "[content removed]", "n": 1}`))
	equal(t, "cut JSON", kept["cut"], any(`{"model": "m", "prompt": "[content removed]"`))
	request := kept["request"].(map[string]any)
	equal(t, "beside content", request["model"], any("m"))
	equal(t, "beside deep content", request["deep"].([]any)[0].(map[string]any)["n"], any(int64(1)))
	equal(t, "message", request["exception"].(map[string]any)["message"], any(contentRemoved))
	cleanTraces(testCore(), data)
	equal(t, "after a second hop", tracesJSON(t, data), text)
}

func TestContentInTextsThatAreAlmostJSONIsRemoved(t *testing.T) {
	for name, each := range map[string]struct{ text, want string }{
		"lines":      {`{"n": 1}` + "\n" + `{"prompt": "` + prompt + `"}`, `{"n": 1}` + "\n" + `{"prompt": "[content removed]"}`},
		"JSON in it": {`{"n": 1, "body": "{\"prompt\": \"` + prompt + `\"}"}`, `{"n": 1, "body": "[content removed]"}`},
		"NaN":        {`{"n": 1, "loss": NaN, "prompt": "` + prompt + `"}`, `{"n": 1, "loss": "[content removed]"`},
		"too deep":   {strings.Repeat("[", 40) + `{"prompt": "` + prompt + `"}`, strings.Repeat("[", 34) + `"[content removed]"`},
		"cut in it":  {`{"body": "{\"prompt\": \"` + prompt, `{"body": "[content removed]"`},
		"Python":     {`{'n': 1, 'prompt': '` + prompt + `'}`, `{"[content removed]"`},
		"a rank":     {`[rank0] "n": 1`, `[rank0] "n": 1`},
		"no content": {`{"loss": NaN, "body": "{\"n\": 1}"} {"n": 2}`, `{"loss": NaN, "body": "{\"n\": 1}"} {"n": 2}`},
	} {
		got, _ := withoutJSONContent(each.text)
		equal(t, name, got, each.want)
		again, _ := withoutJSONContent(got)
		equal(t, name+", again", again, got)
	}
}

func TestTheMessageOfAnEventThatIsOneIsRemoved(t *testing.T) {
	data, span := oneSpan()
	for _, name := range []string{"gen_ai.choice", "rl.step"} {
		event := span.Events().AppendEmpty()
		event.SetName(name)
		event.Attributes().PutStr("message", prompt)
		event.Attributes().PutStr("finish_reason", "stop")
	}
	cleanTraces(testCore(), data)
	equal(t, "attributes of a choice", span.Events().At(0).Attributes().Len(), 1)
	equal(t, "attributes of another event", span.Events().At(1).Attributes().Len(), 2)
	records, record := oneRecord()
	record.SetEventName("gen_ai.choice")
	record.Attributes().PutStr("message", prompt)
	cleanLogs(testCore(), records)
	equal(t, "attributes of a record", record.Attributes().Len(), 0)
}

func TestContentOfManySmallValuesIsCapped(t *testing.T) {
	core := testCore(redactContent(100))
	data, span := oneSpan()
	ids := span.Attributes().PutEmptySlice("prompt_token_ids")
	words := span.Attributes().PutEmptySlice("prompt")
	for range 1000 {
		ids.AppendEmpty().SetInt(7)
		words.AppendEmpty().SetStr("a word")
	}
	nested := span.Attributes().PutEmptyMap("completion")
	for i := range 100 {
		nested.PutInt(strings.Repeat("k", i+1), 1)
	}
	cleanTraces(core, data)
	equal(t, "numbers that stay", ids.Len(), 27)
	equal(t, "marker", ids.At(26).Str(), "[truncated, 974 values]")
	if words.Len() > 30 || nested.Len() > 20 {
		t.Errorf("%d words and %d entries stayed", words.Len(), nested.Len())
	}
	before := tracesJSON(t, data)
	cleanTraces(core, data)
	equal(t, "after a second hop", tracesJSON(t, data), before)
}

func TestContentIsRemovedFromEveryKindOfAttributes(t *testing.T) {
	for where, of := range spanMaps {
		data, span := oneSpan()
		group := data.ResourceSpans().At(0)
		of(group, group.ScopeSpans().At(0), span).PutStr("input.value", prompt)
		cleanTraces(testCore(), data)
		if strings.Contains(tracesJSON(t, data), "violet") {
			t.Errorf("content in the attributes of the %s", where)
		}
	}
	for where, of := range pointMaps {
		data, metric := oneMetric()
		of(metric).PutStr("input.value", prompt)
		cleanMetrics(testCore(), data)
		if strings.Contains(metricsJSON(t, data), "violet") {
			t.Errorf("content in the attributes of the %s", where)
		}
	}
}

func TestStatusMessagesSayWhichErrorAndOnlyInfrastructureSaysMore(t *testing.T) {
	for message, want := range map[string]string{
		"":                      "",
		"ValueError: " + prompt: "ValueError: [content removed]",
		prompt:                  contentRemoved,
		"torch.OutOfMemoryError: CUDA out of memory": "torch.OutOfMemoryError: CUDA out of memory",
		"CUDA error: illegal access":                 "CUDA error: illegal access",
		"ValueError: [content removed]":              "ValueError: [content removed]",
	} {
		equal(t, message, statusWithoutContent(message), want)
	}
}

func TestAStatusMessageThatRepeatsTheErrorsTypeStays(t *testing.T) {
	data, span := oneSpan()
	span.Attributes().PutStr("error.type", "unknown_tool")
	span.Attributes().PutStr("exception.message", "")
	span.Status().SetMessage("unknown_tool")
	before := tracesJSON(t, data)
	cleanTraces(testCore(), data)
	equal(t, "the span", tracesJSON(t, data), before)
}

func TestStackTracesKeepOnlyTheirFrames(t *testing.T) {
	trace := "Traceback (most recent call last):\n" +
		"  File \"/job/agent.py\", line 7, in ask\n    return call(\"" + prompt + "\")\n           ~~~~^^^^\n" +
		"  File \"" + prompt + "\n  Find " + prompt + "\n" +
		"  |   File \"/job/group.py\", line 3, in <module>\nValueError: " + prompt + "\n"
	want := "  File \"/job/agent.py\", line 7, in ask\n  |   File \"/job/group.py\", line 3, in <module>\n"
	equal(t, "frames", framesOf(trace), want)
	equal(t, "frames of frames", framesOf(want), want)
}

func TestBodiesThatAreContentAreRemoved(t *testing.T) {
	journal := map[string]any{"MESSAGE": prompt, "_BOOT_ID": "b", "_TRANSPORT": "stdout"}
	kernel := map[string]any{"MESSAGE": "NVRM: Xid 79", "_BOOT_ID": "b", "_TRANSPORT": "kernel"}
	for name, each := range map[string]struct {
		event      string
		attributes map[string]any
		body       any
		removed    bool
	}{
		"message of a model":          {"gen_ai.user.message", nil, prompt, true},
		"message, event as attribute": {"", map[string]any{"event.name": "gen_ai.choice"}, map[string]any{"x": prompt}, true},
		"line of a file":              {"", map[string]any{"log.file.name": "job.out"}, prompt, true},
		"line of a container":         {"", map[string]any{"log.iostream": "stdout"}, prompt, true},
		"infrastructure in a file":    {"", map[string]any{"log.file.name": "job.out"}, "CUDA out of memory", false},
		"event with the file's name":  {"rl.step", map[string]any{"log.file.name": "job.out"}, "done", false},
		"journal":                     {"", nil, journal, true},
		"kernel's journal":            {"", nil, kernel, false},
		"exception of the process":    {"rl.process.exception", map[string]any{"exception.type": "ValueError"}, prompt, true},
		"infrastructure of a process": {"rl.process.exception", map[string]any{"exception.type": "OSError"}, "no disk", false},
		"a program's own line":        {"", nil, "step 3 done", false},
	} {
		t.Run(name, func(t *testing.T) {
			data, record := oneRecord()
			record.SetEventName(each.event)
			failOn(t, record.Attributes().FromRaw(each.attributes))
			failOn(t, record.Body().FromRaw(each.body))
			cleanLogs(testCore(), data)
			equal(t, "removed", record.Body().AsString() == contentRemoved, each.removed)
		})
	}
}

func TestContentPassesMaskedAndCappedWhenAllowed(t *testing.T) {
	const limit = 100
	core := testCore(redactContent(limit))
	data, span := oneSpan()
	long := strings.Repeat("ü", 80) + planted + strings.Repeat("z", 40000)
	span.Attributes().PutStr("input.value", "short "+planted)
	span.Attributes().PutStr("output.value", long)
	span.Attributes().PutStr("prompt", planted+strings.Repeat("z", 40000))
	span.Attributes().PutStr("note", strings.Repeat("no content ", 20))
	tree := span.Attributes().PutEmptySlice("gen_ai.input.messages")
	for range 5 {
		tree.AppendEmpty().SetEmptyMap().PutStr("content", strings.Repeat("m", 60))
	}
	span.Status().SetMessage("ValueError: " + prompt + " " + planted)
	cleanTraces(core, data)
	value := func(key string) string { found, _ := span.Attributes().Get(key); return found.AsString() }
	equal(t, "one long secret", value("prompt"), masked+"... [truncated, 40015 bytes]")
	equal(t, "short", value("input.value"), "short "+masked)
	output := value("output.value")
	if len(output) > limit || !utf8.ValidString(output) || !strings.HasSuffix(output, "... [truncated, 40175 bytes]") {
		t.Errorf("capped: %d bytes, %q", len(output), output)
	}
	equal(t, "no content", len(value("note")), 220)
	equal(t, "status", span.Status().Message(), "ValueError: "+prompt+" "+masked)
	contents := 0
	for _, item := range tree.All() {
		contents += strings.Count(item.AsString(), "m")
	}
	if contents > limit || !strings.Contains(tree.At(4).AsString(), "[truncated, 60 bytes]") {
		t.Errorf("a tree kept %d bytes: %v", contents, tree.AsRaw())
	}
	before := tracesJSON(t, data)
	cleanTraces(core, data)
	equal(t, "after a second hop", tracesJSON(t, data), before)
}

func TestASecretAcrossTheCapIsSeenWhole(t *testing.T) {
	core := testCore(redactContent(100))
	for before := 40; before < 110; before++ {
		data, span := oneSpan()
		span.Attributes().PutStr("input.value", strings.Repeat(" ", before)+planted+strings.Repeat(" ", 30000))
		cleanTraces(core, data)
		value, _ := span.Attributes().Get("input.value")
		if strings.Contains(value.Str(), "PLANTED") || len(value.Str()) > 100 {
			t.Fatalf("after %d bytes: %q", before, value.Str())
		}
		first := value.Str()
		cleanTraces(core, data)
		equal(t, "after a second hop", value.Str(), first)
	}
}

func TestWhatIsNestedTooDeepIsDropped(t *testing.T) {
	data, span := oneSpan()
	inner := span.Attributes().PutEmptyMap("a")
	for range maximumDepth {
		inner = inner.PutEmptyMap("a")
	}
	inner.PutStr("a", planted)
	counts := cleanTraces(testCore(), data)
	if text := tracesJSON(t, data); strings.Contains(text, planted) || !strings.Contains(text, "[dropped by redaction: depth]") {
		t.Error("what is nested too deep stayed")
	}
	equal(t, "count", counts.dropped[reasonDepth], 1)
}

func TestAPanicDropsTheItemAndNoOther(t *testing.T) {
	data, span := oneSpan()
	span.SetName("good")
	pass := walk{core: testCore()}
	failed := pass.failed(func() { panic("in the walk") })
	equal(t, "failed", failed, true)
	equal(t, "count", pass.counts.dropped[reasonPanic], 1)
	equal(t, "the next item", pass.failed(func() { pass.span(span) }), false)
	equal(t, "spans", data.SpanCount(), 1)
}

func TestOnlyTextThatCanHoldSomethingIsScanned(t *testing.T) {
	for text, plain := range map[string]bool{
		"chat": false, "all_reduce": false, "0.25": false, "4f1c2a9e-0000-4000-8000-0123456789ab": true, "1234567890123": true,
	} {
		equal(t, text, holdsNothing(text, plain), true)
	}
	for text, plain := range map[string]bool{
		"1234567890123": false, "PLANTED42": true, "me@example.org": true, "rl.sample.with-a-longer-name": false,
	} {
		equal(t, text, holdsNothing(text, plain), false)
	}
}
