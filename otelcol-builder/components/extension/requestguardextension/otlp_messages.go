package requestguardextension

// The messages of OTLP and the sizes of their structs in pdata v1.64.0.
var (
	tracesRequest, metricsRequest, logsRequest = &messageType{size: 24}, &messageType{size: 24}, &messageType{size: 24}
	// profilesRequest is not described: of profiles only the nesting of JSON is looked at.
	profilesRequest = &messageType{}

	resource, scope, entity                  = &messageType{size: 56}, &messageType{size: 64}, &messageType{size: 80}
	keyValue, anyValue, anyArray, anyMap     = &messageType{size: 40}, &messageType{size: 16}, &messageType{size: 24}, &messageType{size: 24}
	resourceSpans, scopeSpans, span          = &messageType{size: 120}, &messageType{size: 104}, &messageType{size: 200}
	spanEvent, spanLink, spanStatus          = &messageType{size: 56}, &messageType{size: 72}, &messageType{size: 24}
	resourceLogs, scopeLogs, logRecord       = &messageType{size: 120}, &messageType{size: 104}, &messageType{size: 128}
	resourceMetrics, scopeMetrics, oneMetric = &messageType{size: 120}, &messageType{size: 104}, &messageType{size: 88}
	gauge, sum, summary                      = &messageType{size: 24}, &messageType{size: 32}, &messageType{size: 24}
	histogram, exponentialHistogram          = &messageType{size: 32}, &messageType{size: 32}
	numberPoint, summaryPoint, quantile      = &messageType{size: 88}, &messageType{size: 88}, &messageType{size: 16}
	histogramPoint, exponentialPoint         = &messageType{size: 160}, &messageType{size: 192}
	exponentialBuckets, exemplar             = &messageType{size: 32}, &messageType{size: 72}
)

func init() {
	tracesRequest.has(listOf(1, "resourceSpans", pointers, resourceSpans))
	metricsRequest.has(listOf(1, "resourceMetrics", pointers, resourceMetrics))
	logsRequest.has(listOf(1, "resourceLogs", pointers, resourceLogs))
	describeValues()
	describeTraces()
	describeLogs()
	describeMetrics()
	describePoints()
}

func describeValues() {
	anyValue.has(choice(1, "stringValue", text), choice(2, "boolValue", boolean), choice(3, "intValue", int64Number),
		choice(4, "doubleValue", float), choiceOf(5, "arrayValue", anyArray), choiceOf(6, "kvlistValue", anyMap),
		choice(7, "bytesValue", octets), choice(8, "stringValueStrindex", int32Number))
	anyArray.has(listOf(1, "values", values, anyValue))
	anyMap.has(listOf(1, "values", values, keyValue))
	keyValue.has(single(1, "key", text), within(2, "value", anyValue), single(3, "keyStrindex", int32Number))
	resource.has(listOf(1, "attributes", values, keyValue), single(2, "droppedAttributesCount", uint32Number),
		listOf(3, "entityRefs", pointers, entity))
	entity.has(single(1, "schemaUrl", text), single(2, "type", text), list(3, "idKeys", text), list(4, "descriptionKeys", text))
	scope.has(single(1, "name", text), single(2, "version", text), listOf(3, "attributes", values, keyValue),
		single(4, "droppedAttributesCount", uint32Number))
}

func describeTraces() {
	resourceSpans.has(within(1, "resource", resource), listOf(2, "scopeSpans", pointers, scopeSpans),
		single(3, "schemaUrl", text), listOf(numberOfFormer, "deprecatedScopeSpans", pointers, scopeSpans))
	scopeSpans.has(within(1, "scope", scope), listOf(2, "spans", pointers, span), single(3, "schemaUrl", text))
	span.has(single(1, "traceId", hexadecimal), single(2, "spanId", hexadecimal), single(3, "traceState", text),
		single(4, "parentSpanId", hexadecimal), single(5, "name", text), single(6, "kind", enumeration),
		single(7, "startTimeUnixNano", uint64Number), single(8, "endTimeUnixNano", uint64Number),
		listOf(9, "attributes", values, keyValue), single(10, "droppedAttributesCount", uint32Number),
		listOf(11, "events", pointers, spanEvent), single(12, "droppedEventsCount", uint32Number),
		listOf(13, "links", pointers, spanLink), single(14, "droppedLinksCount", uint32Number),
		within(15, "status", spanStatus), single(16, "flags", uint32Number))
	spanEvent.has(single(1, "timeUnixNano", uint64Number), single(2, "name", text), listOf(3, "attributes", values, keyValue),
		single(4, "droppedAttributesCount", uint32Number))
	spanLink.has(single(1, "traceId", hexadecimal), single(2, "spanId", hexadecimal), single(3, "traceState", text),
		listOf(4, "attributes", values, keyValue), single(5, "droppedAttributesCount", uint32Number), single(6, "flags", uint32Number))
	spanStatus.has(single(2, "message", text), single(3, "code", enumeration))
}

func describeLogs() {
	resourceLogs.has(within(1, "resource", resource), listOf(2, "scopeLogs", pointers, scopeLogs),
		single(3, "schemaUrl", text), listOf(numberOfFormer, "deprecatedScopeLogs", pointers, scopeLogs))
	scopeLogs.has(within(1, "scope", scope), listOf(2, "logRecords", pointers, logRecord), single(3, "schemaUrl", text))
	logRecord.has(single(1, "timeUnixNano", uint64Number), single(2, "severityNumber", enumeration), single(3, "severityText", text),
		within(5, "body", anyValue), listOf(6, "attributes", values, keyValue), single(7, "droppedAttributesCount", uint32Number),
		single(8, "flags", uint32Number), single(9, "traceId", hexadecimal), single(10, "spanId", hexadecimal),
		single(11, "observedTimeUnixNano", uint64Number), single(12, "eventName", text))
}

func describeMetrics() {
	resourceMetrics.has(within(1, "resource", resource), listOf(2, "scopeMetrics", pointers, scopeMetrics),
		single(3, "schemaUrl", text), listOf(numberOfFormer, "deprecatedScopeMetrics", pointers, scopeMetrics))
	scopeMetrics.has(within(1, "scope", scope), listOf(2, "metrics", pointers, oneMetric), single(3, "schemaUrl", text))
	oneMetric.has(single(1, "name", text), single(2, "description", text), single(3, "unit", text),
		choiceOf(5, "gauge", gauge), choiceOf(7, "sum", sum), choiceOf(9, "histogram", histogram),
		choiceOf(10, "exponentialHistogram", exponentialHistogram), choiceOf(11, "summary", summary),
		listOf(12, "metadata", values, keyValue))
	gauge.has(listOf(1, "dataPoints", pointers, numberPoint))
	sum.has(listOf(1, "dataPoints", pointers, numberPoint), single(2, "aggregationTemporality", enumeration), single(3, "isMonotonic", boolean))
	histogram.has(listOf(1, "dataPoints", pointers, histogramPoint), single(2, "aggregationTemporality", enumeration))
	exponentialHistogram.has(listOf(1, "dataPoints", pointers, exponentialPoint), single(2, "aggregationTemporality", enumeration))
	summary.has(listOf(1, "dataPoints", pointers, summaryPoint))
}

func describePoints() {
	numberPoint.has(single(2, "startTimeUnixNano", uint64Number), single(3, "timeUnixNano", uint64Number),
		choice(4, "asDouble", float), listOf(5, "exemplars", values, exemplar), choice(6, "asInt", int64Number),
		listOf(7, "attributes", values, keyValue), single(8, "flags", uint32Number))
	histogramPoint.has(single(2, "startTimeUnixNano", uint64Number), single(3, "timeUnixNano", uint64Number),
		single(4, "count", uint64Number), single(5, "sum", float), list(6, "bucketCounts", uint64Number),
		list(7, "explicitBounds", float), listOf(8, "exemplars", values, exemplar), listOf(9, "attributes", values, keyValue),
		single(10, "flags", uint32Number), single(11, "min", float), single(12, "max", float))
	exponentialPoint.has(listOf(1, "attributes", values, keyValue), single(2, "startTimeUnixNano", uint64Number),
		single(3, "timeUnixNano", uint64Number), single(4, "count", uint64Number), single(5, "sum", float),
		single(6, "scale", int32Number), single(7, "zeroCount", uint64Number), within(8, "positive", exponentialBuckets),
		within(9, "negative", exponentialBuckets), single(10, "flags", uint32Number), listOf(11, "exemplars", values, exemplar),
		single(12, "min", float), single(13, "max", float), single(14, "zeroThreshold", float))
	exponentialBuckets.has(single(1, "offset", int32Number), listOfVarints(2, "bucketCounts", uint64Number))
	summaryPoint.has(single(2, "startTimeUnixNano", uint64Number), single(3, "timeUnixNano", uint64Number),
		single(4, "count", uint64Number), single(5, "sum", float), listOf(6, "quantileValues", pointers, quantile),
		listOf(7, "attributes", values, keyValue), single(8, "flags", uint32Number))
	quantile.has(single(1, "quantile", float), single(2, "value", float))
	exemplar.has(single(2, "timeUnixNano", uint64Number), choice(3, "asDouble", float), single(4, "spanId", hexadecimal),
		single(5, "traceId", hexadecimal), choice(6, "asInt", int64Number), listOf(7, "filteredAttributes", values, keyValue))
}
