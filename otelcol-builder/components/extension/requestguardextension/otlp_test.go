package requestguardextension

import (
	"reflect"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// structOf is the decoder's struct behind a type of pdata's API.
func structOf(wrapper any) reflect.Type {
	return reflect.TypeOf(wrapper).Field(0).Type.Elem()
}

func elementOf(wrapper any) reflect.Type { return structOf(wrapper).Elem() }

func TestTheSizesOfMessagesAreThoseOfTheDecoder(t *testing.T) {
	for of, decoded := range map[*messageType]reflect.Type{
		resource: structOf(pcommon.Resource{}), scope: structOf(pcommon.InstrumentationScope{}), entity: entityType(),
		keyValue: elementOf(pcommon.Map{}), anyValue: structOf(pcommon.Value{}),
		resourceSpans: structOf(ptrace.ResourceSpans{}), scopeSpans: structOf(ptrace.ScopeSpans{}), span: structOf(ptrace.Span{}),
		spanEvent: structOf(ptrace.SpanEvent{}), spanLink: structOf(ptrace.SpanLink{}), spanStatus: structOf(ptrace.Status{}),
		resourceLogs: structOf(plog.ResourceLogs{}), scopeLogs: structOf(plog.ScopeLogs{}), logRecord: structOf(plog.LogRecord{}),
		resourceMetrics: structOf(pmetric.ResourceMetrics{}), scopeMetrics: structOf(pmetric.ScopeMetrics{}),
		oneMetric: structOf(pmetric.Metric{}), gauge: structOf(pmetric.Gauge{}), sum: structOf(pmetric.Sum{}),
		summary: structOf(pmetric.Summary{}), histogram: structOf(pmetric.Histogram{}),
		exponentialHistogram: structOf(pmetric.ExponentialHistogram{}), numberPoint: structOf(pmetric.NumberDataPoint{}),
		summaryPoint: structOf(pmetric.SummaryDataPoint{}), quantile: structOf(pmetric.SummaryDataPointValueAtQuantile{}),
		histogramPoint: structOf(pmetric.HistogramDataPoint{}), exponentialPoint: structOf(pmetric.ExponentialHistogramDataPoint{}),
		exponentialBuckets: structOf(pmetric.ExponentialHistogramDataPointBuckets{}), exemplar: structOf(pmetric.Exemplar{}),
	} {
		if of.size != int(decoded.Size()) {
			t.Errorf("%s takes %d bytes, not %d", decoded, decoded.Size(), of.size)
		}
		if fields := decoded.NumField(); len(of.byName) == 0 || fields == 0 {
			t.Errorf("%s has no fields", decoded)
		}
	}
}

func entityType() reflect.Type {
	refs, _ := structOf(pcommon.Resource{}).FieldByName("EntityRefs")
	return refs.Type.Elem().Elem()
}
