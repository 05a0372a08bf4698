package secretredactionprocessor

import (
	"encoding/json"
	"strings"
)

// withoutJSONContent removes the values of content keys from a text that is JSON, and leaves every other byte as it is. A
// text that ends in the middle of such a value loses its rest.
func withoutJSONContent(text string) (string, bool) {
	start := strings.TrimLeft(text, " \t\r\n")
	if start == "" || start[0] != '{' && start[0] != '[' || len(text) > maximumTextBytes || !mayHoldContent(start) {
		return text, false
	}
	walker := jsonWalk{decoder: json.NewDecoder(strings.NewReader(text)), text: text}
	walker.decoder.UseNumber()
	walker.value("", 0)
	if len(walker.cuts) == 0 {
		return text, false
	}
	return walker.without(), true
}

// longestContentKey bounds the look back for the quote that begins a key.
const longestContentKey = 128

// pathEnds are the last parts of content keys that are no content by themselves: {"input": {"value": ...}}.
var pathEnds = wordSet("message stacktrace value text query input output")

// mayHoldContent is a quick look for a key that is content; exactly is decided where the text is read as JSON.
func mayHoldContent(text string) bool {
	for rest := text; ; {
		colon := strings.IndexByte(rest, ':')
		if colon < 0 {
			return false
		}
		before := strings.TrimRight(rest[max(0, colon-longestContentKey):colon], " \t\r\n")
		rest = rest[colon+1:]
		if !strings.HasSuffix(before, `"`) {
			continue
		}
		before = before[:len(before)-1]
		key := before[strings.LastIndexByte(before, '"')+1:]
		if pathEnds[key] || treatmentOf(key) != ordinary {
			return true
		}
	}
}

type jsonWalk struct {
	decoder *json.Decoder
	text    string
	cuts    [][2]int
}

// value reads one value; false means that the text ends or is no JSON from here on.
func (j *jsonWalk) value(path string, depth int) bool {
	token, err := j.decoder.Token()
	if err != nil || depth > maximumDepth {
		return false
	}
	switch token {
	case json.Delim('{'):
		return j.members(path, depth)
	case json.Delim('['):
		return j.items(path, depth)
	}
	return true
}

func (j *jsonWalk) items(path string, depth int) bool {
	for j.decoder.More() {
		if !j.value(path, depth+1) {
			return false
		}
	}
	_, err := j.decoder.Token()
	return err == nil
}

func (j *jsonWalk) members(path string, depth int) bool {
	for j.decoder.More() {
		token, err := j.decoder.Token()
		key, isKey := token.(string)
		if err != nil || !isKey {
			return false
		}
		nested := joined(path, key)
		if treatmentOf(key) == ordinary && treatmentOf(nested) == ordinary {
			if !j.value(nested, depth+1) {
				return false
			}
			continue
		}
		if !j.cut() {
			return false
		}
	}
	_, err := j.decoder.Token()
	return err == nil
}

// cut notes the place of the value that comes next, unless it is a number, true, false or null.
func (j *jsonWalk) cut() bool {
	from := int(j.decoder.InputOffset())
	from += len(j.text[from:]) - len(strings.TrimLeft(j.text[from:], " \t\r\n:"))
	if from >= len(j.text) {
		return false
	}
	var skipped json.RawMessage
	err := j.decoder.Decode(&skipped)
	if !strings.ContainsRune(`"{[`, rune(j.text[from])) {
		return err == nil
	}
	if err != nil {
		j.cuts = append(j.cuts, [2]int{from, len(j.text)})
		return false
	}
	j.cuts = append(j.cuts, [2]int{from, int(j.decoder.InputOffset())})
	return true
}

func (j *jsonWalk) without() string {
	var built strings.Builder
	end := 0
	for _, cut := range j.cuts {
		built.WriteString(j.text[end:cut[0]])
		built.WriteString(`"` + contentRemoved + `"`)
		end = cut[1]
	}
	built.WriteString(j.text[end:])
	return built.String()
}

func joined(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
