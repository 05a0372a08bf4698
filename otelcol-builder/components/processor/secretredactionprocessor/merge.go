package secretredactionprocessor

import (
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// mergeAlike merges the data points that became alike by masking, and returns the indexes of those to remove. Two points of
// one series that were alike before stay as they are unless a third joins them.
func mergeAlike[P dataPoint](
	w *walk, kind string, number int, at func(int) P, origins map[int]uint64, merge func(into, from P), cumulative bool,
) map[int]bool {
	if len(origins) == 0 || number < 2 {
		return nil
	}
	removed := map[int]bool{}
	for _, group := range alike(number, at, origins) {
		members := group
		if cumulative {
			members = latestOfEach(group, at, origins)
		}
		members = recorded(members, at)
		if len(members) == 0 {
			members = group[:1]
		}
		for _, index := range group {
			removed[index] = index != members[0]
		}
		for _, index := range members[1:] {
			merge(at(members[0]), at(index))
		}
		for range len(group) - 1 {
			w.counts.merge(kind)
		}
	}
	return removed
}

// alike returns groups of points with equal attributes of which at least two differed before masking.
func alike[P dataPoint](number int, at func(int) P, origins map[int]uint64) [][]int {
	byIdentity := map[string][]int{}
	for i := range number {
		identity := identityOf(at(i).Attributes())
		byIdentity[identity] = append(byIdentity[identity], i)
	}
	var groups [][]int
	for _, group := range byIdentity {
		differ := func(index int) bool { return origins[index] != origins[group[0]] }
		if slices.ContainsFunc(group, differ) {
			groups = append(groups, group)
		}
	}
	return groups
}

func identityOf(attributes pcommon.Map) string {
	parts := make([]string, 0, attributes.Len())
	for key, value := range attributes.All() {
		parts = append(parts, key+"\x00"+value.Type().String()+"\x00"+value.AsString())
	}
	slices.Sort(parts)
	return strings.Join(parts, "\x01")
}

// latestOfEach keeps, of every series there was, the latest point: a cumulative point holds all that came before it.
func latestOfEach[P dataPoint](group []int, at func(int) P, origins map[int]uint64) []int {
	latest := map[uint64]int{}
	for _, index := range group {
		before, seen := latest[origins[index]]
		if !seen || at(index).Timestamp() >= at(before).Timestamp() {
			latest[origins[index]] = index
		}
	}
	kept := make([]int, 0, len(latest))
	for _, index := range group {
		if latest[origins[index]] == index {
			kept = append(kept, index)
		}
	}
	return kept
}

// recorded leaves out the points that only say that there is no value.
func recorded[P dataPoint](group []int, at func(int) P) []int {
	return slices.DeleteFunc(slices.Clone(group), func(index int) bool { return at(index).Flags().NoRecordedValue() })
}

// interval is what data points with a start have.
type interval interface {
	StartTimestamp() pcommon.Timestamp
	SetStartTimestamp(pcommon.Timestamp)
	Timestamp() pcommon.Timestamp
	SetTimestamp(pcommon.Timestamp)
}

func widen(into, from interval) {
	into.SetStartTimestamp(min(into.StartTimestamp(), from.StartTimestamp()))
	into.SetTimestamp(max(into.Timestamp(), from.Timestamp()))
}

func latestNumber(into, from pmetric.NumberDataPoint) {
	from.Exemplars().MoveAndAppendTo(into.Exemplars())
	if from.Timestamp() < into.Timestamp() {
		return
	}
	into.SetTimestamp(from.Timestamp())
	into.SetStartTimestamp(from.StartTimestamp())
	setNumber(into, from)
}

func setNumber(into, from pmetric.NumberDataPoint) {
	if from.ValueType() == pmetric.NumberDataPointValueTypeInt {
		into.SetIntValue(from.IntValue())
		return
	}
	into.SetDoubleValue(from.DoubleValue())
}

func addNumber(into, from pmetric.NumberDataPoint) {
	widen(into, from)
	from.Exemplars().MoveAndAppendTo(into.Exemplars())
	const integer = pmetric.NumberDataPointValueTypeInt
	if into.ValueType() == integer && from.ValueType() == integer {
		into.SetIntValue(into.IntValue() + from.IntValue())
		return
	}
	into.SetDoubleValue(numberOf(into) + numberOf(from))
}

func numberOf(point pmetric.NumberDataPoint) float64 {
	if point.ValueType() == pmetric.NumberDataPointValueTypeInt {
		return float64(point.IntValue())
	}
	return point.DoubleValue()
}

// latestSummary: quantiles of two series say nothing about both together, so the later one stays and the loss is counted.
func (w *walk) latestSummary(into, from pmetric.SummaryDataPoint) {
	w.counts.drop(reasonSummary)
	if from.Timestamp() >= into.Timestamp() {
		from.CopyTo(into)
	}
}
