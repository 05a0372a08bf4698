package secretredactionprocessor

import (
	"math"
	"slices"

	"go.opentelemetry.io/collector/pdata/pmetric"
)

// maximumBuckets bounds the buckets of one side of a merged exponential histogram; beyond it the scale gets coarser.
const maximumBuckets = 320

// extremes is what both types of histograms have beside their buckets.
type extremes interface {
	interval
	HasSum() bool
	Sum() float64
	SetSum(float64)
	RemoveSum()
	HasMin() bool
	Min() float64
	SetMin(float64)
	RemoveMin()
	HasMax() bool
	Max() float64
	SetMax(float64)
	RemoveMax()
	Count() uint64
	SetCount(uint64)
	Exemplars() pmetric.ExemplarSlice
}

func addExtremes(into, from extremes) {
	widen(into, from)
	into.SetCount(into.Count() + from.Count())
	if into.HasSum() && from.HasSum() {
		into.SetSum(into.Sum() + from.Sum())
	} else {
		into.RemoveSum()
	}
	if into.HasMin() && from.HasMin() {
		into.SetMin(min(into.Min(), from.Min()))
	} else {
		into.RemoveMin()
	}
	if into.HasMax() && from.HasMax() {
		into.SetMax(max(into.Max(), from.Max()))
	} else {
		into.RemoveMax()
	}
	from.Exemplars().MoveAndAppendTo(into.Exemplars())
}

// addHistogram adds the buckets between the bounds that both have: with equal bounds that is all of them.
func addHistogram(into, from pmetric.HistogramDataPoint) {
	addExtremes(into, from)
	bounds := commonBounds(into.ExplicitBounds().AsRaw(), from.ExplicitBounds().AsRaw())
	counts := bucketsBetween(bounds, into)
	for i, count := range bucketsBetween(bounds, from) {
		counts[i] += count
	}
	into.ExplicitBounds().FromRaw(bounds)
	into.BucketCounts().FromRaw(counts)
}

func commonBounds(one, other []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(one), func(bound float64) bool { return !slices.Contains(other, bound) })
}

func bucketsBetween(bounds []float64, point pmetric.HistogramDataPoint) []uint64 {
	counts := make([]uint64, len(bounds)+1)
	if point.BucketCounts().Len() == 0 {
		counts[len(bounds)] = point.Count()
		return counts
	}
	for i, count := range point.BucketCounts().All() {
		bucket := len(bounds)
		if i < point.ExplicitBounds().Len() {
			bucket, _ = slices.BinarySearch(bounds, point.ExplicitBounds().At(i))
		}
		counts[bucket] += count
	}
	return counts
}

// addExponentialHistogram brings both to one scale and one zero threshold first.
func addExponentialHistogram(into, from pmetric.ExponentialHistogramDataPoint) {
	addExtremes(into, from)
	into.SetZeroCount(into.ZeroCount() + from.ZeroCount())
	scale := min(into.Scale(), from.Scale())
	positive := []side{sideOf(into.Positive(), into.Scale()-scale), sideOf(from.Positive(), from.Scale()-scale)}
	negative := []side{sideOf(into.Negative(), into.Scale()-scale), sideOf(from.Negative(), from.Scale()-scale)}
	for tooWide(positive) || tooWide(negative) {
		scale--
		for i := range positive {
			positive[i], negative[i] = positive[i].coarser(1), negative[i].coarser(1)
		}
	}
	threshold := max(into.ZeroThreshold(), from.ZeroThreshold())
	into.SetScale(scale)
	into.SetZeroThreshold(threshold)
	into.SetZeroCount(into.ZeroCount() + put(into.Positive(), positive, scale, threshold) +
		put(into.Negative(), negative, scale, threshold))
}

// side is one side of an exponential histogram, by the index of the bucket.
type side map[int64]uint64

func sideOf(buckets pmetric.ExponentialHistogramDataPointBuckets, coarser int32) side {
	counts := side{}
	for i, count := range buckets.BucketCounts().All() {
		if count > 0 {
			counts[int64(buckets.Offset())+int64(i)] += count
		}
	}
	return counts.coarser(coarser)
}

func (s side) coarser(steps int32) side {
	if steps == 0 {
		return s
	}
	merged := side{}
	for index, count := range s {
		merged[index>>min(steps, 62)] += count
	}
	return merged
}

func span(sides []side) (first, last int64) {
	first, last = math.MaxInt64, math.MinInt64
	for _, counts := range sides {
		for index := range counts {
			first, last = min(first, index), max(last, index)
		}
	}
	return first, last
}

func tooWide(sides []side) bool {
	first, last := span(sides)
	return first <= last && last-first >= maximumBuckets
}

// put writes the sum of both into the buckets and returns the count of what lies within the zero threshold.
func put(buckets pmetric.ExponentialHistogramDataPointBuckets, sides []side, scale int32, threshold float64) uint64 {
	within := uint64(0)
	for _, counts := range sides {
		for index, count := range counts {
			if upper := math.Exp2(math.Ldexp(float64(index+1), -int(scale))); threshold > 0 && upper <= threshold {
				within += count
				delete(counts, index)
			}
		}
	}
	first, last := span(sides)
	if first > last {
		buckets.SetOffset(0)
		buckets.BucketCounts().FromRaw(nil)
		return within
	}
	sums := make([]uint64, last-first+1)
	for _, counts := range sides {
		for index, count := range counts {
			sums[index-first] += count
		}
	}
	buckets.SetOffset(int32(first))
	buckets.BucketCounts().FromRaw(sums)
	return within
}
