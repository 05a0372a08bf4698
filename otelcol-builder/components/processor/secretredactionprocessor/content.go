package secretredactionprocessor

import (
	"regexp"
	"strings"
)

// treatment is what the content policy does with the value under a key.
type treatment uint8

const (
	ordinary treatment = iota
	contentValue
	exceptionMessage
	stackTrace
)

// contentKeys are whole attribute keys of OpenTelemetry, OpenInference, OpenLLMetry and of frameworks with names of their own.
var contentKeys = regexp.MustCompile(`(?s)^(` + strings.Join([]string{
	`gen_ai\.((input|output)\.messages|system_instructions|tool\.(definitions|call\.(arguments|result)|message))`,
	`gen_ai\.(evaluation\.explanation|event\.content|retrieval\.(query\.text|documents)|(prompt|completion)(\.[0-9].*)?)`,
	`rl\.(rollout|reward)\.(input|output)`,
	`llm\.(input_messages|output_messages|prompts|completions|choices|prompt_template|tools|functions|function_call)(\..*)?`,
	`llm\.request\.functions(\..*)?`,
	`llm\.[a-z_]+\.(choices|candidates|input|instructions|system|tools|functions|(stringified_)?raw_response)`,
	`(input|output)\.value`,
	`(traceloop|agentops)\.(entity|task)\.(input|output)`,
	`traceloop\.prompt\.(template|template_variables)(\..*)?`,
	`db\.marqo\.search\.query|pinecone\.query\.queries`,
	`(haystack\.component|langfuse|braintrust|weave)\.(input|output)s?(_json)?`,
	`retrieval\.documents.*`,
	`reranker\.(query|(input|output)_documents.*)`,
	`embedding\.(embeddings|text|vector).*`,
	`tool\.(parameters|json_schema)`,
	`log\.record\.original`,
	`ai\.(prompt(\..*)?|(response|result)\.(text|object|toolCalls|reasoning|files)|documents|toolCall\.(args|result)|values?|embeddings?)`,
	`mlflow\.((span|trace)(Inputs|Outputs)|chat\.tools)`,
	`langfuse\.(trace|observation)\.(input|output)`,
	`gcp\.vertex\.agent\.(llm_request|llm_response|tool_call_args|tool_response|data)`,
	`(all_messages_events|pydantic_ai\.all_messages|final_result|tool_arguments|tool_response|(request|response)_data)`,
	`(input|output)\.audio\.(url|transcript)`,
}, `|`) + `)$`)

// contentWords are the names that hold content wherever they are the last part of a dotted key, in any spelling
// (systemPrompt, system_prompt, system-prompt).
var contentWords = wordSet(`
	messages content contents prompt prompts completion completions arguments
	inputmessages outputmessages promptmessages chatmessages chathistory systeminstructions systemprompt userprompt
	prompttext completiontext responsetext generatedtext reasoningcontent pagecontent rawprompt rawcompletion
	promptids completionids prompttokenids completiontokenids inputids
	toolarguments toolinput tooloutput toolresult toolcallarguments toolcallresult
	toolargs toolcalls toolresponse functioncall functionarguments instructions inputtext outputtext rawresponse rawoutput
	systemmessage usermessage assistantmessage userinput modelinput modeloutput llminput llmoutput
	promptstr responsestr solutionstr sequencesstr`)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(words) {
		set[word] = true
	}
	return set
}

var (
	indexed   = regexp.MustCompile(`(\.|\[)[0-9].*$`)
	separator = strings.NewReplacer("_", "", "-", "")
)

// treatmentOf says what the content policy does with a key, which may be the dotted path of a nested one.
func treatmentOf(key string) treatment {
	switch lastParts(key) {
	case "exception.message", "error.message":
		return exceptionMessage
	case "exception.stacktrace", "exception.stack_trace", "error.stack", "error.stack_trace":
		return stackTrace
	}
	word := key
	if strings.ContainsAny(key, "0123456789") {
		word = indexed.ReplaceAllString(key, "")
	}
	word = separator.Replace(strings.ToLower(word[strings.LastIndexByte(word, '.')+1:]))
	if contentWords[word] || strings.ContainsAny(key, "._") && contentKeys.MatchString(key) {
		return contentValue
	}
	return ordinary
}

// lastParts returns the last two parts of a dotted key.
func lastParts(key string) string {
	dot := strings.LastIndexByte(key, '.')
	if dot < 0 {
		return key
	}
	return key[strings.LastIndexByte(key[:dot], '.')+1:]
}

// contentEvents are events whose body is a message.
var contentEvents = regexp.MustCompile(
	`^gen_ai\.((system|user|assistant|tool)\.message|choice|content\.(prompt|completion)|client\.inference\.operation\.details)$`)

// messageKeys hold the message in the attributes of such an event, beside the keys that are content everywhere.
var messageKeys = wordSet("message tool.result")

const infrastructureTypes = `(OutOfMemoryError|Dist\w*Error|ChildFailedError|ImportError|ModuleNotFoundError|` +
	`(Connection\w*|BrokenPipe|Timeout|FileNotFound|Permission|Memory|OS)Error|API(Connection|Timeout)Error|RateLimitError)`

// Errors of the infrastructure: their messages quote no prompt, and without them nobody can help.
var (
	infrastructureType    = regexp.MustCompile(`(^|\.)` + infrastructureTypes + `$`)
	infrastructureMessage = regexp.MustCompile(`^(CUDA|NCCL|CUBLAS|CUDNN|HIP|RCCL)\b`)
	infrastructureStatus  = regexp.MustCompile(
		`^(([\w.]*\.)?` + infrastructureTypes + `:|(RuntimeError: )?(CUDA|NCCL|CUBLAS|CUDNN|HIP|RCCL)\b)`)
	errorName = regexp.MustCompile(`^[A-Za-z_][\w.]*:`)
)

func isInfrastructure(errorType, message string) bool {
	return infrastructureType.MatchString(errorType) || infrastructureMessage.MatchString(message)
}

// statusWithoutContent keeps the error's name and takes away what it says.
func statusWithoutContent(message string) string {
	if message == "" || isMark(message) || infrastructureStatus.MatchString(message) {
		return message
	}
	if name := errorName.FindString(message); name != "" {
		return name + " " + contentRemoved
	}
	return contentRemoved
}

var stackFrame = regexp.MustCompile(`^[ |]*  File "[^"]*", line [0-9]+(, in [\w.<>]+)?$`)

// framesOf keeps the lines of a Python stack trace that say where; the lines between them quote source code and messages.
func framesOf(trace string) string {
	var kept strings.Builder
	for line := range strings.Lines(trace) {
		if stackFrame.MatchString(strings.TrimRight(line, "\r\n")) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
