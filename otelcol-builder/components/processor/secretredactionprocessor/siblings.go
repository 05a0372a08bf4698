package secretredactionprocessor

import (
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// typeKey is the key of the error's type beside that of its message: exception.message, exception.type.
func typeKey(messageKey string) string {
	const message = "message"
	if len(messageKey) < len(message) {
		return ""
	}
	return messageKey[:len(messageKey)-len(message)] + "type"
}

// mostSiblings bounds the search for the type of an error: a map with more entries, all of them messages, would take hours.
const mostSiblings = 4096

func typeBeside(siblings pcommon.Map, messageKey string) string {
	if siblings.Len() > mostSiblings {
		return ""
	}
	return stringUnder(siblings, typeKey(messageKey))
}

func stringUnder(entries pcommon.Map, key string) string {
	if value, found := entries.Get(key); found && value.Type() == pcommon.ValueTypeStr {
		return value.Str()
	}
	return ""
}

// mostInPair is how many entries a map has that is a name and its value: {name: API_KEY, value: ...}.
const mostInPair = 6

var (
	pairNames  = []string{"name", "key", "k", "header", "field", "variable"}
	pairValues = map[string]bool{"value": true, "val": true, "v": true, "values": true}
)

// pairName returns the name in a map that is a pair of a name and a value, or nothing.
func pairName(entries pcommon.Map) string {
	if entries.Len() < 2 || entries.Len() > mostInPair {
		return ""
	}
	name := ""
	valued := false
	for key, value := range entries.All() {
		key = strings.ToLower(key)
		valued = valued || pairValues[key]
		if name == "" && value.Type() == pcommon.ValueTypeStr && slices.Contains(pairNames, key) {
			name = value.Str()
		}
	}
	if !valued {
		return ""
	}
	return name
}
