package secretredactionprocessor

import (
	"encoding/json"
	"strings"
)

// withoutJSONContent removes the values of content keys from a text that is JSON, and leaves every other byte as it is. A
// text that ends in the middle of such a value loses its rest.
func withoutJSONContent(text string) (string, bool) {
	start := text
	if text != "" && text[0] <= ' ' {
		start = strings.TrimLeft(text, " \t\r\n")
	}
	if start == "" || start[0] != '{' && start[0] != '[' || len(text) > maximumTextBytes || !mayHoldContent(start, pathEnds) {
		return text, false
	}
	walker := jsonWalk{decoder: json.NewDecoder(strings.NewReader(text)), text: text}
	walker.decoder.UseNumber()
	for walker.value("", 0) { // one value after the other: lines of JSON
	}
	walker.cutUnread()
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
func mayHoldContent(text string, alsoIn map[string]bool) bool {
	for rest := text; ; {
		colon := strings.IndexByte(rest, ':')
		if colon < 0 {
			return false
		}
		before := strings.TrimRight(rest[max(0, colon-longestContentKey):colon], " \t\r\n")
		rest = rest[colon+1:]
		if !strings.HasSuffix(before, `"`) && !strings.HasSuffix(before, `'`) { // as Python prints a dictionary
			continue
		}
		before = strings.TrimRight(before[:len(before)-1], `\`) // JSON in a string of JSON
		key := before[strings.LastIndexAny(before, `"'`)+1:]
		if alsoIn[key] || treatmentOf(key) != ordinary {
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
	if inner, isText := token.(string); isText {
		j.cutAround(inner)
	}
	return true
}

// cutAround takes a string away that was just read when it is itself JSON that holds content.
func (j *jsonWalk) cutAround(inner string) {
	if _, found := withoutJSONContent(inner); found {
		end := int(j.decoder.InputOffset())
		j.cuts = append(j.cuts, [2]int{j.startOfString(end), end})
	}
}

// startOfString is the place of the quote that begins the string whose last quote is before the end.
func (j *jsonWalk) startOfString(end int) int {
	for start := end - 1; ; {
		start = strings.LastIndexByte(j.text[:start], '"')
		escapes := start - len(strings.TrimRight(j.text[:start], `\`))
		if escapes%2 == 0 {
			return start
		}
	}
}

// cutUnread takes the rest of a text away that could not be read as JSON (NaN is none, nor is what Python prints of a dictionary) and that has a key of content.
func (j *jsonWalk) cutUnread() {
	from := int(j.decoder.InputOffset())
	if last := len(j.cuts) - 1; last >= 0 {
		from = max(from, j.cuts[last][1])
	}
	if mayHoldContent(j.text[from:], nil) {
		j.cuts = append(j.cuts, [2]int{from, len(j.text)})
	}
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
