package requestguardextension

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// jsonText weighs OTLP JSON. It reads what the decoder reads, with one exception: a value that is none of its field's kind.
// After that error the decoder goes on, and may take what follows for something else; so it must not see such a value.
type jsonText struct {
	weight
	text     []byte
	position int
	// misfit says which value is none of its field's kind.
	misfit string
}

// weighJSON weighs a JSON text. What it returns counts only if the text is valid, but that it nests too deep.
func weighJSON(of *messageType, text []byte, maxDepth, most int) (weight, string) {
	j := jsonText{text: text, weight: weight{bytes: aroundRequest, most: most, levels: bracketsAroundValue + bracketsPerLevel*maxDepth}}
	j.readObject(of)
	return j.weight, j.misfit
}

func (j *jsonText) ended() bool { return j.done() || j.misfit != "" || j.position >= len(j.text) }

// next returns the next character that is no space, and 0 at the end.
func (j *jsonText) next() byte {
	for j.position < len(j.text) {
		switch character := j.text[j.position]; character {
		case ' ', '\t', '\r', '\n':
			j.position++
		default:
			return character
		}
	}
	return 0
}

// readObject reads the fields of a message, or null.
func (j *jsonText) readObject(of *messageType) {
	j.readBrackets('{', "object", func() {
		name, escaped := j.readString()
		if escaped {
			name = unescaped(name)
		}
		if len(name) == 0 && j.position < len(j.text) {
			j.misfit = "a field without a name" // for the decoder the object ends there
		}
		if j.next() == ':' {
			j.position++
		}
		if known := of.byName[string(name)]; known != nil {
			j.readField(known)
		} else {
			j.skipValue()
		}
	})
}

func (j *jsonText) readField(f *field) {
	if !f.isList() {
		j.readValue(f)
		return
	}
	j.readBrackets('[', "list", func() { j.readValue(f) })
	if j.misfit != "" {
		j.misfit = fmt.Sprintf("%s: %s", f.name, j.misfit)
	}
}

// readBrackets calls read for each element of a list or an object, and takes null for an empty one.
func (j *jsonText) readBrackets(open byte, wanted string, read func()) {
	switch j.next() {
	case open:
	case 'n':
		j.readScalar()
		return
	default:
		if j.position < len(j.text) {
			j.misfit = fmt.Sprintf("no %s at byte %d", wanted, j.position)
		}
		return
	}
	if !j.enter() {
		return
	}
	defer j.leave()
	j.position++
	for !j.ended() {
		switch j.next() {
		case '}', ']':
			j.position++
			return
		case ',':
			j.position++
		}
		before := j.position
		if read(); j.position == before {
			j.position++ // no valid text; what comes after it does not count
		}
	}
}

func (j *jsonText) readValue(f *field) {
	j.bytes += f.each
	if f.kind == nested {
		j.readObject(f.of)
		return
	}
	if j.next() == '"' {
		content, escaped := j.readString()
		j.addString(f, content, escaped)
		return
	}
	start := j.position
	if token := j.readScalar(); !f.kind.takes(token) && start < len(j.text) {
		j.misfit = fmt.Sprintf("%s: %.20q at byte %d", f.name, token, start)
	}
}

func (j *jsonText) addString(f *field, content []byte, escaped bool) {
	switch {
	case f.kind == boolean, escaped && (f.kind == octets || f.kind == hexadecimal):
		j.misfit = fmt.Sprintf("%s: the string before byte %d", f.name, j.position)
	case f.kind == text && escaped:
		j.addText(2 * len(content)) // it is put together elsewhere first
	case f.kind == text || f.kind == octets:
		j.addText(len(content))
	}
}

// readString returns what is between the quotes, as it is written.
func (j *jsonText) readString() (content []byte, escaped bool) {
	if j.next() != '"' {
		return nil, false
	}
	j.position++
	start := j.position
	for ; j.position < len(j.text); j.position++ {
		switch j.text[j.position] {
		case '\\':
			escaped = true
			j.position++ // the next character is no end
		case '"':
			j.position++
			return j.text[start : j.position-1], escaped
		}
	}
	return nil, escaped
}

func unescaped(content []byte) []byte {
	var plain string
	_ = json.Unmarshal(append(append([]byte{'"'}, content...), '"'), &plain)
	return []byte(plain)
}

// readScalar returns a number or a word.
func (j *jsonText) readScalar() []byte {
	start := j.position
	if end := bytes.IndexAny(j.text[start:], ",]} \t\r\n{[\""); end >= 0 {
		j.position += end
	} else {
		j.position = len(j.text)
	}
	return j.text[start:j.position]
}

// skipValue passes over the value of a field that OTLP does not have; the decoder does so without keeping anything.
func (j *jsonText) skipValue() {
	for opened := 0; j.position < len(j.text); {
		switch j.next() {
		case '"':
			j.readString()
		case '{', '[':
			if opened++; opened > j.levels {
				j.tooDeep = true
				return
			}
			j.position++
			continue
		case '}', ']':
			if opened == 0 {
				return
			}
			opened--
			j.position++
		case ',', ':':
			j.position++
			continue
		default:
			j.readScalar()
		}
		if opened == 0 {
			return
		}
	}
}

// takes tells whether the decoder reads a number or a word to its end where a value of this kind belongs. It stops in the
// middle of a number that does not fit.
func (k kind) takes(token []byte) bool {
	const decimal, short, long = 10, 32, 64
	bits := long
	switch k {
	case text:
		return string(token) == "null"
	case boolean:
		return string(token) == "true" || string(token) == "false"
	case float:
		return len(token) > 0 && (token[0] == '-' || '0' <= token[0] && token[0] <= '9')
	case int64Number:
		token = bytes.TrimPrefix(token, []byte{'-'})
	case int32Number, enumeration:
		token, bits = bytes.TrimPrefix(token, []byte{'-'}), short
	case uint32Number:
		bits = short
	case octets, hexadecimal, nested:
		return false
	}
	_, err := strconv.ParseUint(string(token), decimal, bits)
	return err == nil
}
