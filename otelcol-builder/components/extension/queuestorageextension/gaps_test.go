package queuestorageextension

import (
	"fmt"
	"strconv"
	"testing"

	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// gapped leaves a queue behind that holds these items only, up to a write index.
func gapped(t *testing.T, folder string, state metadata, items ...uint64) {
	t.Helper()
	from := started(t, folder)
	queue := opened(t, from)
	for _, index := range items {
		fatal(t, queue.Set(t.Context(), strconv.FormatUint(index, 10), fmt.Append(nil, "item ", index)))
	}
	fatal(t, queue.Set(t.Context(), metadataKey, state.encode()))
	fatal(t, queue.Close(t.Context()))
	fatal(t, from.Shutdown(t.Context()))
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reopened returns the state of the queue and the items from its read index to its write index; none may be missing.
func reopened(t *testing.T, folder string) (state metadata, items []string, missing int) {
	t.Helper()
	queue := opened(t, started(t, folder))
	stored, err := queue.Get(t.Context(), metadataKey)
	fatal(t, err)
	state, err = decodeMetadata(stored)
	fatal(t, err)
	if long := state.writeIndex - state.readIndex; long > 1000 {
		t.Fatalf("the queue steps over %d indices", long)
	}
	for index := state.readIndex; index < state.writeIndex; index++ {
		read := storage.GetOperation(strconv.FormatUint(index, 10))
		if err := queue.Batch(t.Context(), read); err != nil || read.Value == nil {
			missing++
			continue
		}
		items = append(items, string(read.Value))
	}
	return state, items, missing
}

func TestItemsThatWereLeftBehindForADayAreFoundAtOnce(t *testing.T) {
	const day = 172_800
	folder := t.TempDir()
	gapped(t, folder, metadata{readIndex: day + 3, writeIndex: day + 5, dispatched: []uint64{7, 9}}, 7, 9, day, day+1, day+2, day+3, day+4)
	state, items, missing := reopened(t, folder)
	if missing > 0 || state.writeIndex != day+5 || len(state.dispatched) != 0 {
		t.Errorf("%d missing in %+v", missing, state)
	}
	wanted := fmt.Sprint([]string{"item 7", "item 9", "item 172800", "item 172801", "item 172802", "item 172803", "item 172804"})
	if found := fmt.Sprint(items); found != wanted {
		t.Errorf("%s, not %s", found, wanted)
	}
}

func TestGapsAtTheEndsAndEmptyQueuesAreSteppedOver(t *testing.T) {
	for name, c := range map[string]struct {
		state metadata
		items []uint64
		read  uint64
		write uint64
	}{
		"nothing stored": {metadata{readIndex: 5, writeIndex: 200_000}, nil, 200_000, 200_000},
		"at the start":   {metadata{readIndex: 5, writeIndex: 200_000}, []uint64{199_999}, 199_999, 200_000},
		"at the end":     {metadata{readIndex: 5, writeIndex: 200_000}, []uint64{5, 6}, 5, 7},
		"short":          {metadata{readIndex: 5, writeIndex: 60}, []uint64{5, 59}, 5, 60},
		"two of them":    {metadata{readIndex: 1, writeIndex: 9001}, []uint64{1, 3000, 9000}, 8998, 9001},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			gapped(t, folder, c.state, c.items...)
			state, items, _ := reopened(t, folder)
			if state.readIndex != c.read || state.writeIndex != c.write || len(items) != len(c.items) {
				t.Errorf("from %d to %d with %q", state.readIndex, state.writeIndex, items)
			}
		})
	}
}
