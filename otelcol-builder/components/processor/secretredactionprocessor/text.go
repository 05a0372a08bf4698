package secretredactionprocessor

import (
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

// name cleans a text without a key: names, descriptions.
func (w *walk) name(text string) string {
	text = w.readable(text)
	if holdsNothing(text, false) {
		return text
	}
	return w.scanned("", text)
}

// text cleans a string value.
func (w *walk) text(text string, at place) string {
	text = w.readable(text)
	if at.secret {
		return w.secretText(text, at.name)
	}
	if at.budget != nil {
		return w.cappedText(text, at)
	}
	if w.removes() {
		if cut, found := withoutJSONContent(text); found && cut != text {
			w.counts.content++
			text = cut
		}
	}
	if holdsNothing(text, at.plain) {
		return text
	}
	return w.scanned(at.name, text)
}

// readable replaces bytes that are no UTF-8: one such text makes backends refuse the whole batch it is in.
func (w *walk) readable(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	w.counts.repaired++
	return strings.ToValidUTF8(text, "\uFFFD")
}

// scanned returns the text with masks, or what stands for a text that cannot be scanned.
func (w *walk) scanned(key, text string) string {
	masked, err := w.mask(key, text, w.constant, &w.counts)
	if err != nil {
		return w.drop(reasonOf(err))
	}
	return masked
}

func (w *walk) drop(reason string) string {
	w.counts.drop(reason)
	return droppedStart + reason + "]"
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, errTooLong):
		return reasonSize
	case errors.Is(err, detect.ErrTooCostly):
		return reasonCost
	case errors.Is(err, errUnstable):
		return reasonUnstable
	default:
		return reasonError
	}
}

// cappedText masks content that passes, and cuts it to what is left of its size.
func (w *walk) cappedText(text string, at place) string {
	if isMark(text) {
		at.budget.take(len(text))
		return text
	}
	limit := max(0, at.budget.left)
	part := window(text, limit)
	result := w.scanned(at.name, part)
	incomplete := len(part) < len(text)
	if incomplete || len(result) > limit {
		w.counts.content++
	}
	for range maximumPasses {
		cut := capped(result, limit, len(text), incomplete)
		if cut == result {
			break
		}
		incomplete = false
		result = w.scanned(at.name, cut) // a cut can make something new of what stands before it
	}
	if len(result) > limit && !onlyMarker.MatchString(result) {
		result = capped("", 0, len(text), true)
	}
	at.budget.take(len(result))
	return result
}

var (
	// placeholder: what stands where no secret is set.
	placeholder = regexp.MustCompile(`(?i)^(|none|null|nil|true|false|undefined|\*+|x+|<[^<>]*>|\$\{[^{}]*\}|\$[a-z_]\w*)$`)
	scheme      = regexp.MustCompile(`(?i)^(bearer|basic|token|apikey|digest)\s+`)
)

// secretText masks a value that is a secret because of its key.
func (w *walk) secretText(text, key string) string {
	secret := strings.TrimSpace(text)
	secret = secret[len(scheme.FindString(secret)):]
	if isMark(strings.TrimPrefix(secret, "$")) { // the name of a variable is scanned too
		return text
	}
	if placeholder.MatchString(secret) {
		return w.scanned(key, text) // a secret may have the form of a placeholder: <ghp_...>
	}
	finding := detect.Finding{Class: credentialClass}
	if findings, err := w.find(key, text, w.counts.workOn(text), &w.counts); err == nil {
		for _, each := range outsideMarks(text, findings) {
			if !each.LowEntropy {
				finding, secret = each, text[each.Start:each.End]
				break
			}
			finding.LowEntropy = finding.LowEntropy || text[each.Start:each.End] == secret
		}
	}
	w.counts.class(finding.Class)
	return w.scanner.masker.mask(finding, secret, w.constant)
}
