package queuestorageextension

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// fullDisk is a store that reads and cannot write.
type fullDisk struct{ storage.Client }

var errFull = errors.New("no space left on device")

func (fullDisk) Batch(_ context.Context, operations ...*storage.Operation) error {
	for _, each := range operations {
		if each.Type != storage.Get {
			return errFull
		}
		if each.Key == "7" {
			each.Value = seal([]byte("seven"))
		}
	}
	return nil
}

func onFullDisk(unstored *int) *client {
	return &client{Client: fullDisk{}, unstored: func(error) { *unstored++ }, damaged: func(string, []byte) {}}
}

func TestAFullDiskStillHandsItemsOut(t *testing.T) {
	unstored := 0
	read := storage.GetOperation("7")
	err := onFullDisk(&unstored).Batch(t.Context(), storage.SetOperation(metadataKey, []byte("state")), read)
	if err != nil || string(read.Value) != "seven" || unstored != 1 {
		t.Fatalf("%v, %q, %d", err, read.Value, unstored)
	}
}

func TestAFullDiskRefusesNewItems(t *testing.T) {
	unstored := 0
	if err := onFullDisk(&unstored).Set(t.Context(), "8", []byte("eight")); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
}

func TestAnIndexWithoutAnItemIsLetGo(t *testing.T) {
	unstored := 0
	err := onFullDisk(&unstored).Batch(t.Context(), storage.SetOperation(metadataKey, nil), storage.GetOperation("9"))
	if !errors.Is(err, errNoItem) {
		t.Fatal(err)
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	f.Add((&metadata{itemsSize: 1, readIndex: 3, writeIndex: 9, dispatched: []uint64{4, 5}}).encode())
	f.Add([]byte{0x2a, 0x10, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, message []byte) {
		read, err := decodeMetadata(message)
		if err != nil {
			return
		}
		again, err := decodeMetadata(read.encode())
		if err != nil || again.readIndex != read.readIndex || len(again.dispatched) != len(read.dispatched) {
			t.Fatalf("%+v became %+v: %v", read, again, err)
		}
	})
}
