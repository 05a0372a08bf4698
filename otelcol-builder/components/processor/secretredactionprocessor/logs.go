package secretredactionprocessor

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

func (w *walk) logs(data plog.Logs) {
	data.ResourceLogs().RemoveIf(func(group plog.ResourceLogs) bool {
		return w.failed(func() {
			jobLog := fromFile(group.Resource().Attributes())
			w.resource(group.Resource())
			group.SetSchemaUrl(w.name(group.SchemaUrl()))
			group.ScopeLogs().RemoveIf(func(scope plog.ScopeLogs) bool { return w.scopeLogs(scope, jobLog) })
		})
	})
}

func (w *walk) scopeLogs(group plog.ScopeLogs, jobLog bool) bool {
	return w.failed(func() {
		w.scope(group.Scope())
		group.SetSchemaUrl(w.name(group.SchemaUrl()))
		group.LogRecords().RemoveIf(func(record plog.LogRecord) bool {
			return w.failed(func() { w.logRecord(record, jobLog) })
		})
	})
}

func (w *walk) logRecord(record plog.LogRecord, jobLog bool) {
	content := isContent(record, jobLog) // before its attributes change
	w.entries(record.Attributes(), place{message: contentEvents.MatchString(eventOf(record))})
	record.SetEventName(w.name(record.EventName()))
	record.SetSeverityText(w.name(record.SeverityText()))
	at := place{}
	if content {
		if w.removes() {
			w.bodyWithoutContent(record.Body())
		} else {
			at.budget = w.newBudget()
		}
	}
	w.value(record.Body(), at)
}

// bodyWithoutContent keeps what an error of the infrastructure says.
func (w *walk) bodyWithoutContent(body pcommon.Value) {
	switch {
	case body.Type() == pcommon.ValueTypeEmpty:
	case body.Type() == pcommon.ValueTypeStr && statusWithoutContent(body.Str()) == body.Str():
	default:
		w.replaceContent(body, contentRemoved)
	}
}

// isContent says whether the body of a record is content: a message of a model, what an exception says, a line of a job's
// log.
func isContent(record plog.LogRecord, jobLog bool) bool {
	attributes := record.Attributes()
	event := eventOf(record)
	if contentEvents.MatchString(event) {
		return true
	}
	if event == "rl.process.exception" {
		errorType, message := stringUnder(attributes, "exception.type"), stringUnder(attributes, "exception.message")
		return !isInfrastructure(errorType, message)
	}
	return event == "" && (jobLog || fromFile(attributes) || fromJournal(record.Body()))
}

// eventOf is the name of the event that a record is, which older programs put into an attribute.
func eventOf(record plog.LogRecord) string {
	if name := record.EventName(); name != "" {
		return name
	}
	return stringUnder(record.Attributes(), "event.name")
}

// fromFile says whether a record is a line that a receiver read from a file or from the output of a container.
func fromFile(attributes pcommon.Map) bool {
	for key := range attributes.All() {
		if strings.HasPrefix(key, "log.file.") || key == "log.iostream" {
			return true
		}
	}
	return false
}

// fromJournal says whether a body is an entry of the system journal, other than the kernel's own.
func fromJournal(body pcommon.Value) bool {
	if body.Type() != pcommon.ValueTypeMap {
		return false
	}
	entry := body.Map()
	_, isEntry := entry.Get("MESSAGE")
	if isEntry {
		_, isEntry = entry.Get("_BOOT_ID")
	}
	return isEntry && stringUnder(entry, "_TRANSPORT") != "kernel"
}
