package queuestorageextension

import (
	"context"
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/extension/xextension/storage"
)

const (
	// longestGap is how many indices without an item are left for the queue to step over: each costs it two writes to the disk.
	longestGap = 100
	// mostStragglers bounds the items that are moved to behind a gap: those that were tried while all around them were delivered.
	mostStragglers = 1024
)

// closeGaps lets a queue find its items at once. An item that could not be delivered for a day stays behind where it was read,
// with nothing after it but the indices of what was delivered meanwhile: it is moved to right before the next item.
func (c *client) closeGaps(ctx context.Context, state *metadata) (changed bool, err error) {
	walker, canWalk := c.Client.(storage.Walker)
	if !canWalk || state.writeIndex-state.readIndex <= longestGap || state.writeIndex < state.readIndex {
		return false, nil
	}
	var stored []uint64
	err = walker.Walk(ctx, func(key string, _ []byte) ([]*storage.Operation, error) {
		if index, isItem := itemIndex(key); isItem && index >= state.readIndex && index < state.writeIndex {
			stored = append(stored, index)
		}
		return nil, nil
	})
	if err != nil {
		return false, err
	}
	if len(stored) == 0 {
		state.readIndex = state.writeIndex
		return true, nil
	}
	slices.Sort(stored)
	if last := stored[len(stored)-1]; state.writeIndex-last > longestGap {
		state.writeIndex, changed = last+1, true
	}
	first := afterLastGap(stored)
	if first > mostStragglers {
		return changed, nil
	}
	if begin := stored[first] - uint64(first); begin > state.readIndex {
		if err := c.move(ctx, stored[:first], stored[first]); err != nil {
			return changed, nil //nolint:nilerr // on a full disk the queue steps over the gap by itself, slowly
		}
		state.readIndex, changed = begin, true
	}
	return changed, nil
}

// afterLastGap returns which of the sorted indices is the first one behind the last long gap.
func afterLastGap(stored []uint64) int {
	for position := len(stored) - 1; position > 0; position-- {
		if stored[position]-stored[position-1] > longestGap {
			return position
		}
	}
	return 0
}

// move puts items to right before an index, in their order and in one transaction. Their seals go with them.
func (c *client) move(ctx context.Context, items []uint64, before uint64) error {
	if len(items) == 0 {
		return nil
	}
	reads := make([]*storage.Operation, len(items))
	for position, index := range items {
		reads[position] = storage.GetOperation(strconv.FormatUint(index, 10))
	}
	if err := c.Client.Batch(ctx, reads...); err != nil {
		return err
	}
	writes := make([]*storage.Operation, 0, 2*len(items))
	for position := len(items) - 1; position >= 0; position-- { // from the last on: what is in the way has been moved by then
		to := before - uint64(len(items)-position)
		writes = append(writes, storage.SetOperation(strconv.FormatUint(to, 10), reads[position].Value), storage.DeleteOperation(reads[position].Key))
	}
	return c.Client.Batch(ctx, writes...)
}
