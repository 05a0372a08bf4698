package secretredactionprocessor

import (
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// bytes reads bytes as text. Bytes that are no text are read with blanks in the place of what is not printable, and dropped
// as a whole when something is found.
func (w *walk) bytes(value pcommon.Value, at place) {
	raw := value.Bytes().AsRaw()
	isText := utf8.Valid(raw)
	text := string(raw)
	if !isText {
		text = printable(raw)
	}
	result := w.text(text, at)
	if result == text {
		return
	}
	w.changed(string(raw))
	if !isText {
		result = w.drop(reasonBinary)
		at.budget.take(len(result))
	}
	value.SetEmptyBytes().FromRaw([]byte(result))
}

func printable(raw []byte) string {
	text := make([]byte, len(raw))
	for i, each := range raw {
		if each < ' ' || each > '~' {
			each = ' '
		}
		text[i] = each
	}
	return string(text)
}
