package queuestorageextension

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// A release that names its files otherwise would leave them unexamined, or take those of a compaction for queues.
func TestQueueFilesHaveTheNamesOfTheStockStorage(t *testing.T) {
	folder := t.TempDir()
	made := started(t, folder)
	fatal(t, opened(t, made).Close(t.Context()))
	compacting, err := os.CreateTemp(folder, filestorage.TempDbPrefix+"_")
	fatal(t, errors.Join(err, compacting.Close()))
	entries, err := os.ReadDir(folder)
	fatal(t, err)
	var queues []string
	for _, entry := range entries {
		if isQueue(entry.Name()) {
			queues = append(queues, entry.Name())
		}
	}
	if !slices.Equal(queues, []string{"exporter_durable_otlp_grpc_gateway_1_traces"}) {
		t.Fatal(queues)
	}
}

type hostWith struct {
	component.Host
	storage component.Component
}

func (h hostWith) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{component.MustNewID("queue_storage"): h.storage}
}

// queueing is an exporter with a real queue.
type queueing struct {
	exporter.Traces
	end func() error
}

func exporterOn(t *testing.T, store *queueStorage, push func(context.Context, ptrace.Traces) error) queueing {
	t.Helper()
	settings, storageID := exportertest.NewNopSettings(owner.Type()), component.MustNewID("queue_storage")
	settings.ID = owner
	queue := exporterhelper.NewDefaultQueueConfig()
	queue.StorageID, queue.NumConsumers = &storageID, 1
	made, err := exporterhelper.NewTraces(t.Context(), settings, struct{}{}, push,
		exporterhelper.WithQueue(configoptional.Some(queue)), exporterhelper.WithRetry(configretry.NewDefaultBackOffConfig()))
	fatal(t, err)
	fatal(t, made.Start(t.Context(), hostWith{componenttest.NewNopHost(), store}))
	return queueing{made, func() error { return errors.Join(made.Shutdown(t.Context()), store.Shutdown(t.Context())) }}
}

func send(t *testing.T, to exporter.Traces, names ...string) {
	t.Helper()
	for _, name := range names {
		data := ptrace.NewTraces()
		data.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName(name)
		err := to.ConsumeTraces(t.Context(), data)
		// The indices behind the last item count until the queue has passed them.
		for errors.Is(err, exporterhelper.ErrQueueIsFull) {
			time.Sleep(time.Millisecond)
			err = to.ConsumeTraces(t.Context(), data)
		}
		fatal(t, err)
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The state of the queue is a private message of the exporterhelper. A release that changes it fails here, and not at a restart.
func TestTheStateOfTheCollectorsOwnQueueIsRead(t *testing.T) {
	folder, asked := t.TempDir(), make(chan struct{}, 1)
	away := exporterOn(t, started(t, folder), func(context.Context, ptrace.Traces) error {
		select {
		case asked <- struct{}{}:
		default:
		}
		return errors.New("away")
	})
	send(t, away, "one", "two", "three")
	<-asked
	fatal(t, away.end())

	made := started(t, folder)
	stored, err := made.stock.GetClient(t.Context(), component.KindExporter, owner, "traces")
	fatal(t, err)
	encoded, err := stored.Get(t.Context(), metadataKey)
	fatal(t, errors.Join(err, stored.Close(t.Context())))
	content, intact := unseal(encoded)
	state, err := decodeMetadata(content)
	// While the exporter ends, its consumer may take further items.
	taken := len(state.dispatched)
	if err != nil || !intact || state.writeIndex != 3 || taken == 0 || state.readIndex != uint64(taken) {
		t.Fatalf("%+v, %v", state, err)
	}
	if state := stateOf(t, opened(t, made)); state.readIndex != 0 || len(state.dispatched) != 0 {
		t.Fatalf("%+v", state)
	}
}
