package secretredactionprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

func (w *walk) metrics(data pmetric.Metrics) {
	data.ResourceMetrics().RemoveIf(func(group pmetric.ResourceMetrics) bool {
		return w.failed(func() {
			w.resource(group.Resource())
			group.SetSchemaUrl(w.name(group.SchemaUrl()))
			group.ScopeMetrics().RemoveIf(w.scopeMetrics)
		})
	})
}

func (w *walk) scopeMetrics(group pmetric.ScopeMetrics) bool {
	return w.failed(func() {
		w.scope(group.Scope())
		group.SetSchemaUrl(w.name(group.SchemaUrl()))
		group.Metrics().RemoveIf(func(metric pmetric.Metric) bool {
			return w.failed(func() { w.metric(metric) })
		})
	})
}

// metric leaves the name alone: it is what boards and rules ask for.
func (w *walk) metric(metric pmetric.Metric) {
	metric.SetName(w.readable(metric.Name()))
	metric.SetUnit(w.name(metric.Unit()))
	metric.SetDescription(w.name(metric.Description()))
	w.constant = true
	defer func() { w.constant = false }()
	w.attributes(metric.Metadata())
	switch metric.Type() {
	case pmetric.MetricTypeGauge:
		w.numbers(metric.Gauge().DataPoints(), latestNumber, false)
	case pmetric.MetricTypeSum:
		w.numbers(metric.Sum().DataPoints(), addNumber, isCumulative(metric.Sum().AggregationTemporality()))
	case pmetric.MetricTypeHistogram:
		points := metric.Histogram().DataPoints()
		origins := w.points(points.Len(), func(i int) dataPoint { return points.At(i) }, func(i int) pmetric.ExemplarSlice {
			return points.At(i).Exemplars()
		})
		removed := mergeAlike(w, "histogram", points.Len(), points.At, origins, addHistogram,
			isCumulative(metric.Histogram().AggregationTemporality()))
		points.RemoveIf(byIndex[pmetric.HistogramDataPoint](removed))
	case pmetric.MetricTypeExponentialHistogram:
		points := metric.ExponentialHistogram().DataPoints()
		origins := w.points(points.Len(), func(i int) dataPoint { return points.At(i) }, func(i int) pmetric.ExemplarSlice {
			return points.At(i).Exemplars()
		})
		removed := mergeAlike(w, "exponential_histogram", points.Len(), points.At, origins, addExponentialHistogram,
			isCumulative(metric.ExponentialHistogram().AggregationTemporality()))
		points.RemoveIf(byIndex[pmetric.ExponentialHistogramDataPoint](removed))
	case pmetric.MetricTypeSummary:
		points := metric.Summary().DataPoints()
		origins := w.points(points.Len(), func(i int) dataPoint { return points.At(i) }, nil)
		removed := mergeAlike(w, "summary", points.Len(), points.At, origins, w.latestSummary, false)
		points.RemoveIf(byIndex[pmetric.SummaryDataPoint](removed))
	}
}

func isCumulative(temporality pmetric.AggregationTemporality) bool {
	return temporality != pmetric.AggregationTemporalityDelta
}

func (w *walk) numbers(points pmetric.NumberDataPointSlice, merge func(into, from pmetric.NumberDataPoint), cumulative bool) {
	origins := w.points(points.Len(), func(i int) dataPoint { return points.At(i) }, func(i int) pmetric.ExemplarSlice {
		return points.At(i).Exemplars()
	})
	removed := mergeAlike(w, "number", points.Len(), points.At, origins, merge, cumulative)
	points.RemoveIf(byIndex[pmetric.NumberDataPoint](removed))
}

// points cleans the attributes of data points and of their exemplars. It returns, for those whose attributes changed, a hash
// of what was taken out.
func (w *walk) points(
	number int, at func(int) dataPoint, exemplars func(int) pmetric.ExemplarSlice,
) map[int]uint64 {
	var origins map[int]uint64
	for i := range number {
		if exemplars != nil {
			for _, exemplar := range exemplars(i).All() {
				w.attributes(exemplar.FilteredAttributes())
			}
		}
		w.origin = 0
		w.attributes(at(i).Attributes())
		if w.origin != 0 {
			if origins == nil {
				origins = map[int]uint64{}
			}
			origins[i] = w.origin
		}
	}
	return origins
}

// byIndex is a RemoveIf condition.
func byIndex[P any](removed map[int]bool) func(P) bool {
	index := -1
	return func(P) bool {
		index++
		return removed[index]
	}
}

// dataPoint is what data points of all types have.
type dataPoint interface {
	Attributes() pcommon.Map
	Timestamp() pcommon.Timestamp
	Flags() pmetric.DataPointFlags
}
