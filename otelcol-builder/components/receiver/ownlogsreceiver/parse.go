package ownlogsreceiver

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

const timeLayout = "2006-01-02T15:04:05.000Z0700"

var (
	// What the console encoder writes: time, level, perhaps a logger's name, caller, message, perhaps fields as JSON,
	// then a stack trace on lines of its own.
	consoleRecord = regexp.MustCompile(`(?s)^(\S+)\t(debug|info|warn|error|dpanic|panic|fatal)\t(?:([^\t\n]+)\t)??(?:(\S+\.go):(\d+)\t)?(.*)$`)
	severities    = map[string]plog.SeverityNumber{
		"debug":  plog.SeverityNumberDebug,
		"info":   plog.SeverityNumberInfo,
		"warn":   plog.SeverityNumberWarn,
		"error":  plog.SeverityNumberError,
		"dpanic": plog.SeverityNumberFatal,
		"panic":  plog.SeverityNumberFatal,
		"fatal":  plog.SeverityNumberFatal,
	}
)

// entry is one record of the collector's log.
type entry struct {
	time       time.Time
	level      string
	file       string
	line       int64
	message    string
	stacktrace string
	fields     map[string]any
}

// parse reads one encoded record. What is not in the encoder's form becomes the message as it stands: nothing is lost.
func parse(text string) entry {
	text = strings.TrimRight(text, "\n")
	found := consoleRecord.FindStringSubmatch(text)
	if found == nil {
		return entry{level: "info", message: text}
	}
	parsed := entry{level: found[2], file: found[4]}
	// Both were matched by their shape; a wrong one leaves the zero value, which the record then lacks.
	parsed.time, _ = time.Parse(timeLayout, found[1])
	parsed.line, _ = strconv.ParseInt(found[5], 10, 64)
	parsed.message, parsed.fields, parsed.stacktrace = splitFields(found[6])
	return parsed
}

// splitFields parts the message from the JSON object after a tab and from the stack trace after that object.
func splitFields(text string) (string, map[string]any, string) {
	for start := strings.Index(text, "\t{"); start >= 0; {
		decoder := json.NewDecoder(strings.NewReader(text[start+1:]))
		decoder.UseNumber()
		var fields map[string]any
		if decoder.Decode(&fields) == nil {
			rest := text[start+1+int(decoder.InputOffset()):]
			return text[:start], fields, strings.TrimPrefix(rest, "\n")
		}
		next := strings.Index(text[start+1:], "\t{")
		if next < 0 {
			break
		}
		start += 1 + next
	}
	return text, nil, ""
}

// fill writes the entry into a log record.
func (e entry) fill(record plog.LogRecord, now time.Time) {
	record.SetObservedTimestamp(pcommon.NewTimestampFromTime(now))
	if !e.time.IsZero() {
		record.SetTimestamp(pcommon.NewTimestampFromTime(e.time))
	}
	record.SetSeverityText(e.level)
	record.SetSeverityNumber(severities[e.level])
	record.Body().SetStr(e.message)
	attributes := record.Attributes()
	for key, value := range e.fields {
		put(attributes.PutEmpty(key), value)
	}
	if e.file != "" {
		attributes.PutStr("code.file.path", e.file)
		attributes.PutInt("code.line.number", e.line)
	}
	if e.stacktrace != "" {
		attributes.PutStr("code.stacktrace", e.stacktrace)
	}
}

// put writes a decoded JSON value; numbers keep their kind, and what is nested stays JSON text, as on the console.
func put(target pcommon.Value, value any) {
	switch typed := value.(type) {
	case string:
		target.SetStr(typed)
	case bool:
		target.SetBool(typed)
	case json.Number:
		if whole, err := typed.Int64(); err == nil {
			target.SetInt(whole)
		} else if number, err := typed.Float64(); err == nil {
			target.SetDouble(number)
		}
	case nil:
	default:
		// Decoded from JSON a moment ago, so it can be encoded again.
		text, _ := json.Marshal(typed)
		target.SetStr(string(text))
	}
}
