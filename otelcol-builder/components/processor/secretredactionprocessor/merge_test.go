package secretredactionprocessor

import (
	"math"
	"slices"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// numberPoint appends a point whose user is masked.
func numberPoint(points pmetric.NumberDataPointSlice, user string, start, end pcommon.Timestamp, value int64) pmetric.NumberDataPoint {
	point := points.AppendEmpty()
	point.Attributes().PutStr("user", user)
	point.SetStartTimestamp(start)
	point.SetTimestamp(end)
	point.SetIntValue(value)
	point.Exemplars().AppendEmpty().SetIntValue(value)
	return point
}

const oneUser, otherUser = "PLANTED1one", "PLANTED2other"

func TestSumsThatBecomeAlikeAreAdded(t *testing.T) {
	for temporality, want := range map[pmetric.AggregationTemporality]int64{
		pmetric.AggregationTemporalityCumulative: 5 + 7, // the latest of each
		pmetric.AggregationTemporalityDelta:      4 + 5 + 7,
	} {
		data, metric := oneMetric()
		sum := metric.SetEmptySum()
		sum.SetAggregationTemporality(temporality)
		numberPoint(sum.DataPoints(), oneUser, 10, 20, 4)
		numberPoint(sum.DataPoints(), oneUser, 10, 30, 5)
		numberPoint(sum.DataPoints(), otherUser, 8, 29, 7)
		numberPoint(sum.DataPoints(), "a person", 1, 2, 100)
		counts := cleanMetrics(testCore(), data)
		equal(t, "points", sum.DataPoints().Len(), 2)
		point := sum.DataPoints().At(0)
		equal(t, "value", point.IntValue(), want)
		equal(t, "start", point.StartTimestamp(), 8)
		equal(t, "end", point.Timestamp(), 30)
		equal(t, "merged", counts.merged["number"], 2)
		user, _ := point.Attributes().Get("user")
		equal(t, "mask", user.Str(), constantMask)
		equal(t, "the point that was not masked", sum.DataPoints().At(1).IntValue(), 100)
	}
}

func TestIntegersAndDoublesAreAddedAsDoubles(t *testing.T) {
	data, metric := oneMetric()
	sum := metric.SetEmptySum()
	numberPoint(sum.DataPoints(), oneUser, 1, 2, 4)
	numberPoint(sum.DataPoints(), otherUser, 1, 2, 0).SetDoubleValue(0.5)
	cleanMetrics(testCore(), data)
	equal(t, "sum", sum.DataPoints().At(0).DoubleValue(), 4.5)
	equal(t, "exemplars", sum.DataPoints().At(0).Exemplars().Len(), 2)
}

func TestGaugesThatBecomeAlikeKeepTheLatest(t *testing.T) {
	data, metric := oneMetric()
	gauge := metric.SetEmptyGauge()
	numberPoint(gauge.DataPoints(), oneUser, 0, 30, 1)
	numberPoint(gauge.DataPoints(), otherUser, 0, 20, 2)
	numberPoint(gauge.DataPoints(), "PLANTED3third", 0, 40, 0).SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	cleanMetrics(testCore(), data)
	equal(t, "points", gauge.DataPoints().Len(), 1)
	equal(t, "value", gauge.DataPoints().At(0).IntValue(), 1)
}

func TestPointsOfOneMaskedSeriesStayApart(t *testing.T) {
	data, metric := oneMetric()
	sum := metric.SetEmptySum()
	numberPoint(sum.DataPoints(), oneUser, 10, 20, 4)
	numberPoint(sum.DataPoints(), oneUser, 10, 30, 5)
	cleanMetrics(testCore(), data)
	equal(t, "points", sum.DataPoints().Len(), 2)
}

func histogramPoint(points pmetric.HistogramDataPointSlice, user string, bounds []float64, counts []uint64) {
	point := points.AppendEmpty()
	point.Attributes().PutStr("user", user)
	point.ExplicitBounds().FromRaw(bounds)
	point.BucketCounts().FromRaw(counts)
	total := uint64(0)
	for _, count := range counts {
		total += count
	}
	point.SetCount(total)
	point.SetSum(float64(total))
	point.SetMin(float64(len(user)))
	point.SetMax(float64(len(user)))
}

func TestHistogramsThatBecomeAlikeAddTheirBuckets(t *testing.T) {
	for name, each := range map[string]struct {
		other        []float64
		otherCounts  []uint64
		bounds       []float64
		wantedCounts []uint64
	}{
		"equal bounds":    {[]float64{1, 2, 3}, []uint64{1, 1, 1, 1}, []float64{1, 2, 3}, []uint64{2, 3, 4, 5}},
		"common bounds":   {[]float64{2, 5}, []uint64{1, 1, 1}, []float64{2}, []uint64{4, 9}},
		"no common bound": {[]float64{9}, []uint64{1, 1}, []float64{}, []uint64{12}},
	} {
		t.Run(name, func(t *testing.T) {
			data, metric := oneMetric()
			points := metric.SetEmptyHistogram().DataPoints()
			histogramPoint(points, oneUser, []float64{1, 2, 3}, []uint64{1, 2, 3, 4})
			histogramPoint(points, otherUser, each.other, each.otherCounts)
			total := points.At(0).Count() + points.At(1).Count()
			cleanMetrics(testCore(), data)
			equal(t, "points", points.Len(), 1)
			point := points.At(0)
			equal(t, "count", point.Count(), total)
			equal(t, "sum", point.Sum(), float64(total))
			equal(t, "min", point.Min(), float64(len(oneUser)))
			equal(t, "max", point.Max(), float64(len(otherUser)))
			if !slices.Equal(point.ExplicitBounds().AsRaw(), each.bounds) || !slices.Equal(point.BucketCounts().AsRaw(), each.wantedCounts) {
				t.Errorf("got %v %v", point.ExplicitBounds().AsRaw(), point.BucketCounts().AsRaw())
			}
		})
	}
}

func exponentialPoint(points pmetric.ExponentialHistogramDataPointSlice, user string, scale, offset int32, counts ...uint64) pmetric.ExponentialHistogramDataPoint {
	point := points.AppendEmpty()
	point.Attributes().PutStr("user", user)
	point.SetScale(scale)
	point.Positive().SetOffset(offset)
	point.Positive().BucketCounts().FromRaw(counts)
	for _, count := range counts {
		point.SetCount(point.Count() + count)
	}
	return point
}

func TestExponentialHistogramsAreAddedAtTheCoarserScale(t *testing.T) {
	data, metric := oneMetric()
	points := metric.SetEmptyExponentialHistogram().DataPoints()
	exponentialPoint(points, oneUser, 1, -2, 1, 2, 3, 4) // (2^-1, 2^-0.5] ... (2^0.5, 2]
	exponentialPoint(points, otherUser, 0, 0, 5, 6)      // (1, 2] and (2, 4]
	cleanMetrics(testCore(), data)
	equal(t, "points", points.Len(), 1)
	point := points.At(0)
	equal(t, "count", point.Count(), 21)
	equal(t, "scale", point.Scale(), 0)
	equal(t, "offset", point.Positive().Offset(), -1)
	if !slices.Equal(point.Positive().BucketCounts().AsRaw(), []uint64{3, 12, 6}) {
		t.Errorf("buckets %v", point.Positive().BucketCounts().AsRaw())
	}
}

func TestExponentialHistogramsFarApartStayBounded(t *testing.T) {
	data, metric := oneMetric()
	points := metric.SetEmptyExponentialHistogram().DataPoints()
	exponentialPoint(points, oneUser, 20, math.MinInt32, 1)
	exponentialPoint(points, otherUser, 20, math.MaxInt32-1, 2)
	cleanMetrics(testCore(), data)
	point := points.At(0)
	equal(t, "count", point.Count(), 3)
	if buckets := point.Positive().BucketCounts(); buckets.Len() > maximumBuckets || buckets.Len() < 2 {
		t.Errorf("%d buckets", buckets.Len())
	}
}

func TestBucketsWithinTheLargerZeroThresholdCountAsZero(t *testing.T) {
	data, metric := oneMetric()
	points := metric.SetEmptyExponentialHistogram().DataPoints()
	exponentialPoint(points, oneUser, 0, -3, 1, 2, 3) // up to 0.25, 0.5, 1
	wide := exponentialPoint(points, otherUser, 0, 0, 4)
	wide.SetZeroThreshold(0.5)
	wide.SetZeroCount(7)
	wide.SetCount(11)
	cleanMetrics(testCore(), data)
	point := points.At(0)
	equal(t, "zero count", point.ZeroCount(), 10)
	equal(t, "count", point.Count(), 17)
	if !slices.Equal(point.Positive().BucketCounts().AsRaw(), []uint64{3, 4}) {
		t.Errorf("buckets %v from %d", point.Positive().BucketCounts().AsRaw(), point.Positive().Offset())
	}
}

func TestSummariesThatBecomeAlikeKeepTheLatestAndCountTheLoss(t *testing.T) {
	data, metric := oneMetric()
	points := metric.SetEmptySummary().DataPoints()
	for user, end := range map[string]pcommon.Timestamp{oneUser: 30, otherUser: 20} {
		point := points.AppendEmpty()
		point.Attributes().PutStr("user", user)
		point.SetTimestamp(end)
		point.SetCount(uint64(end))
	}
	counts := cleanMetrics(testCore(), data)
	equal(t, "points", points.Len(), 1)
	equal(t, "count", points.At(0).Count(), 30)
	equal(t, "dropped", counts.dropped[reasonSummary], 1)
}
