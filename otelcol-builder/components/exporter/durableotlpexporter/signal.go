package durableotlpexporter

import (
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// signalOf is what delivery needs to know about one kind of telemetry data.
type signalOf[T comparable] struct {
	name string
	// empty returns a request without items.
	empty func() T
	// count returns the number of spans, data points or log records.
	count func(T) int
	// bytes returns the size as OTLP protobuf.
	bytes func(T) int
	// cut returns a copy of the items from first to before end.
	cut func(data T, first, end int) T
	// move appends the items of one request to another.
	move func(from, to T)
	// json returns the request as OTLP JSON.
	json func(T) ([]byte, error)
	// rest returns an error that makes the retry continue with these items only.
	rest func(error, T) error
	// rejected returns how many items an answer says that the endpoint dropped out of a request that it took.
	rejected func(answer []byte, isJSON bool) int64
	// time returns the time of the newest item, 0 when there is none.
	time func(T) pcommon.Timestamp
}

// readable is what the answers of all signals are.
type readable interface {
	UnmarshalProto([]byte) error
	UnmarshalJSON([]byte) error
}

// readAnswer returns how many items an answer says were dropped; an answer that cannot be read says nothing.
func readAnswer(into readable, answer []byte, isJSON bool, dropped func() int64) int64 {
	read := into.UnmarshalProto
	if isJSON {
		read = into.UnmarshalJSON
	}
	if read(answer) != nil {
		return 0
	}
	return dropped()
}

// keepRange returns a predicate for RemoveIf that keeps the items from first to before end.
func keepRange(first, end int) func() bool {
	index := -1
	return func() bool {
		index++
		return index < first || index >= end
	}
}

// list is what pdata calls a slice.
type list[E any] interface {
	RemoveIf(func(E) bool)
	Len() int
}

// removeFrom removes elements and says whether none is left.
func removeFrom[E any](from list[E], unwanted func(E) bool) bool {
	from.RemoveIf(unwanted)
	return from.Len() == 0
}

// prune removes items, and the scopes and resources that have none left.
func prune[R, S, I any, SS list[S], IS list[I]](from list[R], scopes func(R) SS, items func(S) IS, unwanted func(I) bool) {
	removeFrom(from, func(resource R) bool {
		return removeFrom(scopes(resource), func(scope S) bool { return removeFrom(items(scope), unwanted) })
	})
}

var traces = signalOf[ptrace.Traces]{
	name:  "traces",
	empty: ptrace.NewTraces,
	count: ptrace.Traces.SpanCount,
	bytes: (&ptrace.ProtoMarshaler{}).TracesSize,
	json:  (&ptrace.JSONMarshaler{}).MarshalTraces,
	rest:  consumererror.NewTraces,
	rejected: func(answer []byte, isJSON bool) int64 {
		response := ptraceotlp.NewExportResponse()
		return readAnswer(response, answer, isJSON, func() int64 { return response.PartialSuccess().RejectedSpans() })
	},
	move: func(from, to ptrace.Traces) { from.ResourceSpans().MoveAndAppendTo(to.ResourceSpans()) },
	cut: func(data ptrace.Traces, first, end int) ptrace.Traces {
		part := ptrace.NewTraces()
		data.CopyTo(part)
		outside := keepRange(first, end)
		prune(part.ResourceSpans(), ptrace.ResourceSpans.ScopeSpans, ptrace.ScopeSpans.Spans, func(ptrace.Span) bool { return outside() })
		return part
	},
	time: func(data ptrace.Traces) (newest pcommon.Timestamp) {
		for _, resource := range data.ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				for _, span := range scope.Spans().All() {
					newest = max(newest, span.EndTimestamp())
				}
			}
		}
		return newest
	},
}

var logs = signalOf[plog.Logs]{
	name:  "logs",
	empty: plog.NewLogs,
	count: plog.Logs.LogRecordCount,
	bytes: (&plog.ProtoMarshaler{}).LogsSize,
	json:  (&plog.JSONMarshaler{}).MarshalLogs,
	rest:  consumererror.NewLogs,
	rejected: func(answer []byte, isJSON bool) int64 {
		response := plogotlp.NewExportResponse()
		return readAnswer(response, answer, isJSON, func() int64 { return response.PartialSuccess().RejectedLogRecords() })
	},
	move: func(from, to plog.Logs) { from.ResourceLogs().MoveAndAppendTo(to.ResourceLogs()) },
	cut: func(data plog.Logs, first, end int) plog.Logs {
		part := plog.NewLogs()
		data.CopyTo(part)
		outside := keepRange(first, end)
		prune(part.ResourceLogs(), plog.ResourceLogs.ScopeLogs, plog.ScopeLogs.LogRecords, func(plog.LogRecord) bool { return outside() })
		return part
	},
	time: func(data plog.Logs) (newest pcommon.Timestamp) {
		for _, resource := range data.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					newest = max(newest, record.Timestamp(), record.ObservedTimestamp())
				}
			}
		}
		return newest
	},
}

var metrics = signalOf[pmetric.Metrics]{
	name:  "metrics",
	empty: pmetric.NewMetrics,
	count: pmetric.Metrics.DataPointCount,
	bytes: (&pmetric.ProtoMarshaler{}).MetricsSize,
	json:  (&pmetric.JSONMarshaler{}).MarshalMetrics,
	rest:  consumererror.NewMetrics,
	rejected: func(answer []byte, isJSON bool) int64 {
		response := pmetricotlp.NewExportResponse()
		return readAnswer(response, answer, isJSON, func() int64 { return response.PartialSuccess().RejectedDataPoints() })
	},
	move: func(from, to pmetric.Metrics) { from.ResourceMetrics().MoveAndAppendTo(to.ResourceMetrics()) },
	cut: func(data pmetric.Metrics, first, end int) pmetric.Metrics {
		part := pmetric.NewMetrics()
		data.CopyTo(part)
		outside := keepRange(first, end)
		prune(part.ResourceMetrics(), pmetric.ResourceMetrics.ScopeMetrics, pmetric.ScopeMetrics.Metrics,
			func(metric pmetric.Metric) bool { return removePoints(metric, outside) })
		return part
	},
	// Data points of a batch are of about the same moment, and their place depends on the type: lag is told by spans and logs.
	time: func(pmetric.Metrics) pcommon.Timestamp { return 0 },
}

// removePoints removes the data points that are outside and says whether none is left.
func removePoints(metric pmetric.Metric, outside func() bool) bool {
	switch metric.Type() {
	case pmetric.MetricTypeGauge:
		return removeFrom(metric.Gauge().DataPoints(), func(pmetric.NumberDataPoint) bool { return outside() })
	case pmetric.MetricTypeSum:
		return removeFrom(metric.Sum().DataPoints(), func(pmetric.NumberDataPoint) bool { return outside() })
	case pmetric.MetricTypeHistogram:
		return removeFrom(metric.Histogram().DataPoints(), func(pmetric.HistogramDataPoint) bool { return outside() })
	case pmetric.MetricTypeExponentialHistogram:
		return removeFrom(metric.ExponentialHistogram().DataPoints(), func(pmetric.ExponentialHistogramDataPoint) bool { return outside() })
	case pmetric.MetricTypeSummary:
		return removeFrom(metric.Summary().DataPoints(), func(pmetric.SummaryDataPoint) bool { return outside() })
	default:
		return true
	}
}
