package queuestorageextension

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
)

var owner = component.MustNewIDWithName("durable_otlp_grpc", "gateway_1")

func newExtension(t *testing.T, folder string) *queueStorage {
	t.Helper()
	config := createDefaultConfig().(*Config)
	config.Directory, config.Timeout = folder, 100*time.Millisecond
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	factory := NewFactory()
	made, err := factory.Create(t.Context(), extensiontest.NewNopSettings(factory.Type()), config)
	if err != nil {
		t.Fatal(err)
	}
	return made.(*queueStorage)
}

func started(t *testing.T, folder string) *queueStorage {
	t.Helper()
	made := newExtension(t, folder)
	if err := made.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Shutdown(context.Background()) })
	return made
}

func opened(t *testing.T, from *queueStorage) storage.Client {
	t.Helper()
	made, err := from.GetClient(t.Context(), component.KindExporter, owner, "traces")
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func item(number int) []byte { return bytes.Repeat(fmt.Append(nil, "item ", number, " "), 2000) }

// queued leaves a queue of `count` items behind, some of them under way.
func queued(t *testing.T, folder string, count int, dispatched ...uint64) string {
	t.Helper()
	made := started(t, folder)
	queue := opened(t, made)
	for number := range count {
		if err := queue.Set(t.Context(), fmt.Sprint(number), item(number)); err != nil {
			t.Fatal(err)
		}
	}
	state := metadata{readIndex: uint64(count / 2), writeIndex: uint64(count), dispatched: dispatched}
	if err := queue.Set(t.Context(), metadataKey, state.encode()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(queue.Close(t.Context()), made.Shutdown(t.Context())); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(folder, "exporter_*_traces"))
	if len(files) != 1 {
		t.Fatalf("queue files: %v", files)
	}
	return files[0]
}

func stateOf(t *testing.T, queue storage.Client) metadata {
	t.Helper()
	stored, err := queue.Get(t.Context(), metadataKey)
	if err != nil {
		t.Fatal(err)
	}
	state, err := decodeMetadata(stored)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestASecondCollectorIsToldWhichFolderIsInUse(t *testing.T) {
	folder := t.TempDir()
	started(t, folder)
	err := newExtension(t, folder).Start(t.Context(), componenttest.NewNopHost())
	if err == nil || !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), "OTEL_RL_COLLECTOR_QUEUE_DIR") {
		t.Fatal(err)
	}
}

func TestAFolderIsFreeAfterItsCollectorStopped(t *testing.T) {
	folder := t.TempDir()
	if err := started(t, folder).Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	started(t, folder)
}

func TestItemsUnderWayGoBackToTheirPlace(t *testing.T) {
	folder := t.TempDir()
	queued(t, folder, 10, 3, 1)
	state := stateOf(t, opened(t, started(t, folder)))
	if state.readIndex != 1 || state.writeIndex != 10 || len(state.dispatched) != 0 {
		t.Fatalf("%+v", state)
	}
}

func TestACutQueueIsTakenOverAsFarAsItGoes(t *testing.T) {
	folder := t.TempDir()
	file := queued(t, folder, 200)
	if err := os.Truncate(file, 2<<20); err != nil {
		t.Fatal(err)
	}
	queue := opened(t, started(t, folder))
	state, left := stateOf(t, queue), 0
	for index := state.readIndex; index < state.writeIndex; index++ {
		if stored, err := queue.Get(t.Context(), fmt.Sprint(index)); err != nil {
			t.Fatal(err)
		} else if stored != nil {
			if !bytes.Equal(stored, item(int(index))) {
				t.Fatalf("item %d is another one", index)
			}
			left++
		}
	}
	if left == 0 || left == 200 {
		t.Fatalf("%d items are left", left)
	}
	requireKept(t, folder, 1)
}

func TestAQueueWithoutItsMetaPagesIsTakenOverWhole(t *testing.T) {
	folder := t.TempDir()
	file := queued(t, folder, 100)
	damage(t, file, 0, 2*os.Getpagesize())
	queue := opened(t, started(t, folder))
	for number := range 100 {
		if stored, err := queue.Get(t.Context(), fmt.Sprint(number)); err != nil || !bytes.Equal(stored, item(number)) {
			t.Fatalf("item %d: %v", number, err)
		}
	}
	requireKept(t, folder, 1)
}

func TestAFileThatIsNoQueueAtAllStopsNobody(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "exporter_durable_otlp_grpc_gateway_1_traces")
	if err := os.WriteFile(file, bytes.Repeat([]byte("text "), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	queue := opened(t, started(t, folder))
	if err := queue.Set(t.Context(), "0", item(0)); err != nil {
		t.Fatal(err)
	}
	requireKept(t, folder, 1)
}

func TestADamagedItemIsKeptAndNotHandedOut(t *testing.T) {
	folder := t.TempDir()
	file := queued(t, folder, 3)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damage(t, file, bytes.Index(content, []byte("item 1"))+100, 3)
	queue := opened(t, started(t, folder))
	read := storage.GetOperation("1")
	err = queue.Batch(t.Context(), storage.SetOperation(metadataKey, (&metadata{writeIndex: 3}).encode()), read)
	if !errors.Is(err, errDamagedItem) || read.Value != nil {
		t.Fatalf("%v, %d bytes", err, len(read.Value))
	}
	if kept, _ := filepath.Glob(filepath.Join(folder, "*.damaged-item-1")); len(kept) != 1 {
		t.Fatalf("kept: %v", kept)
	}
}

func TestTheStockStorageReadsWhatThisOneWrote(t *testing.T) {
	folder := t.TempDir()
	queued(t, folder, 3)
	made := newExtension(t, folder)
	stock, err := made.stock.GetClient(t.Context(), component.KindExporter, owner, "traces")
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close(t.Context())
	if stored, err := stock.Get(t.Context(), "2"); err != nil || !bytes.HasPrefix(stored, item(2)) || len(stored) != len(item(2))+sealSize {
		t.Fatalf("%v, %d bytes", err, len(stored))
	}
}

func requireKept(t *testing.T, folder string, number int) {
	t.Helper()
	if kept, _ := filepath.Glob(filepath.Join(folder, "*.damaged-*")); len(kept) != number {
		t.Fatalf("kept: %v", kept)
	}
}

func damage(t *testing.T, path string, at, size int) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(bytes.Repeat([]byte{0xff}, size), int64(at)); err != nil {
		t.Fatal(err)
	}
}
