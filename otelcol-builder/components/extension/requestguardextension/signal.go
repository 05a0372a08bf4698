package requestguardextension

import (
	"bytes"
	"fmt"
	"strings"
)

// signals are the paths of OTLP/HTTP, the service of OTLP/gRPC, and the field that a request to each has.
var signals = []struct {
	path, service                 string
	request                       *messageType
	field, snakeCase, formerScope string
}{
	{"/v1/traces", ".TraceService/", tracesRequest, "resourceSpans", "resource_spans", "instrumentationLibrarySpans"},
	{"/v1/metrics", ".MetricsService/", metricsRequest, "resourceMetrics", "resource_metrics", "instrumentationLibraryMetrics"},
	{"/v1/logs", ".LogsService/", logsRequest, "resourceLogs", "resource_logs", "instrumentationLibraryLogs"},
	{"/v1development/profiles", ".ProfilesService/", profilesRequest, "resourceProfiles", "resource_profiles", ""},
}

// requestTo returns the message that is sent to a path of OTLP/HTTP or to a method of OTLP/gRPC, and nil where it is unknown.
func requestTo(target string) *messageType {
	for _, signal := range signals {
		if signal.path == target || strings.Contains(target, signal.service) {
			return signal.request
		}
	}
	return nil
}

// misplacedJSON returns the refusal of OTLP JSON that would be taken and not stored, or nil.
func misplacedJSON(path string, text []byte) *refusal {
	if message := wrongSignal(path, text); message != "" {
		return &refusal{misplaced, message}
	}
	return nil
}

// wrongSignal returns why OTLP JSON that is sent to this path would be taken and not stored, or nothing.
func wrongSignal(path string, text []byte) string {
	for _, signal := range signals {
		if signal.path != path {
			continue
		}
		if signal.formerScope != "" && hasKey(text, signal.formerScope) {
			return fmt.Sprintf("%s is of OTLP before 1.0 and no longer read; update the sender, which then writes %s",
				signal.formerScope, "scope"+signal.field[len("resource"):])
		}
		if hasKey(text, signal.field) || hasKey(text, signal.snakeCase) {
			return ""
		}
		return elsewhere(path, signal.field, text)
	}
	return ""
}

func elsewhere(path, field string, text []byte) string {
	for _, signal := range signals {
		if hasKey(text, signal.field) || hasKey(text, signal.snakeCase) {
			return fmt.Sprintf("%s takes %s and this request holds %s; send it to %s", path, field, signal.field, signal.path)
		}
	}
	if bytes.IndexByte(text, ':') < 0 {
		return "" // {} is a valid request with nothing in it
	}
	return fmt.Sprintf("this request has no field %s, so nothing in it would be stored; see the OTLP specification, JSON", field)
}

// hasKey tells whether a JSON text has this key anywhere. Inside a string its quotes would be escaped.
func hasKey(text []byte, key string) bool {
	quoted := []byte(`"` + key + `"`)
	for {
		found := bytes.Index(text, quoted)
		if found < 0 {
			return false
		}
		text = text[found+len(quoted):]
		if after := bytes.TrimLeft(text, " \t\r\n"); len(after) > 0 && after[0] == ':' {
			return true
		}
	}
}
