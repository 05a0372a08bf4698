package secretredactionprocessor

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

// jointly looks at a list of strings as at one line: in the arguments of a command the name of a secret and the secret are two
// items. What lies in one item only is found again when the item is cleaned by itself.
func (w *walk) jointly(items pcommon.Slice, at place) {
	line, places := joinedItems(items)
	if len(places) < 2 || at.secret {
		return
	}
	findings, err := w.find(at.name, line, w.counts.workOn(line), &w.counts)
	if err != nil {
		w.dropItems(items, reasonOf(err))
		return
	}
	findings = outsideMarks(line, findings)
	for index, place := range places {
		if inside := findingsIn(findings, place[0], place[1]); len(inside) > 0 {
			w.maskItem(items.At(index), inside)
		}
	}
}

func (w *walk) maskItem(item pcommon.Value, findings []detect.Finding) {
	for _, each := range findings {
		w.counts.class(each.Class)
	}
	w.changed(item.Str())
	item.SetStr(w.render(item.Str(), findings, w.constant))
}

// dropItems lets none of the strings pass that could not be looked at.
func (w *walk) dropItems(items pcommon.Slice, reason string) {
	for _, item := range items.All() {
		w.changed(item.Str())
		item.SetStr(w.drop(reason))
	}
}

// joinedItems returns the strings of a list as a shell would write them, and where each stands. There are no places where an item
// is no string, or where the line would be longer than what is scanned.
func joinedItems(items pcommon.Slice) (string, [][2]int) {
	size := 0
	for _, item := range items.All() {
		if item.Type() != pcommon.ValueTypeStr {
			return "", nil
		}
		size += len(item.Str()) + len(`"" `)
	}
	if size > maximumTextBytes {
		return "", nil
	}
	var line strings.Builder
	line.Grow(size)
	places := make([][2]int, 0, items.Len())
	for index, item := range items.All() {
		if index > 0 {
			line.WriteByte(' ')
		}
		quote := ""
		if text := item.Str(); strings.Contains(text, " ") && !strings.Contains(text, `"`) {
			quote = `"`
		}
		line.WriteString(quote)
		start := line.Len()
		line.WriteString(item.Str())
		places = append(places, [2]int{start, line.Len()})
		line.WriteString(quote)
	}
	return line.String(), places
}

// findingsIn returns what lies between two places, as places in the text between them.
func findingsIn(findings []detect.Finding, start, end int) []detect.Finding {
	var inside []detect.Finding
	for _, each := range findings {
		if each.Start >= end {
			break
		}
		if each.End > start {
			each.Start, each.End = max(each.Start-start, 0), min(each.End, end)-start
			inside = append(inside, each)
		}
	}
	return inside
}
