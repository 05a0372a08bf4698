package secretredactionprocessor

import "go.opentelemetry.io/collector/pdata/pcommon"

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
