package queuestorageextension

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// counting counts the transactions of a store.
type counting struct {
	storage.Extension
	transactions *atomic.Int64
}

type countingClient struct {
	storage.Client
	storage.Walker
	transactions *atomic.Int64
}

func (c counting) GetClient(ctx context.Context, kind component.Kind, of component.ID, name string) (storage.Client, error) {
	inner, err := c.Extension.GetClient(ctx, kind, of, name)
	return countingClient{inner, inner.(storage.Walker), c.transactions}, err
}

func (c countingClient) Batch(ctx context.Context, operations ...*storage.Operation) error {
	c.transactions.Add(1)
	return c.Client.Batch(ctx, operations...)
}

// spread moves the items of a queue, 0 and following, to other indices and sets the write index.
func spread(t *testing.T, folder string, writeIndex uint64, to ...uint64) {
	t.Helper()
	from := started(t, folder)
	queue := opened(t, from)
	for index := len(to) - 1; index >= 0; index-- {
		read := storage.GetOperation(strconv.Itoa(index))
		fatal(t, queue.Batch(t.Context(), read))
		fatal(t, queue.Batch(t.Context(), storage.DeleteOperation(read.Key), storage.SetOperation(strconv.FormatUint(to[index], 10), read.Value)))
	}
	fatal(t, queue.Set(t.Context(), metadataKey, (&metadata{writeIndex: writeIndex}).encode()))
	fatal(t, errors.Join(queue.Close(t.Context()), from.Shutdown(t.Context())))
}

// An item that could not be delivered for a day stays behind, with 172,800 indices of what was delivered meanwhile after it.
func TestIndicesWithoutAnItemCostNoTransactions(t *testing.T) {
	const day = 172_800
	for name, to := range map[string][]uint64{
		"after what was left behind": {7, day, day + 1},
		"before all items":           {day - 2, day - 1, day},
		"after all items":            {0, 1, 2},
		"between items":              {0, day / 2, day},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			away := exporterOn(t, started(t, folder), func(context.Context, ptrace.Traces) error { return errors.New("away") })
			send(t, away, "one", "two", "three")
			fatal(t, away.end())
			spread(t, folder, day+5, to...)

			made := started(t, folder)
			transactions := new(atomic.Int64)
			made.stock = counting{made.stock, transactions}
			taken := make(chan string)
			back := exporterOn(t, made, func(_ context.Context, data ptrace.Traces) error {
				taken <- data.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name()
				return nil
			})
			for _, name := range []string{"one", "two", "three"} {
				if found := <-taken; found != name {
					t.Errorf("%s, not %s", found, name)
				}
			}
			send(t, back, "four")
			if found := <-taken; found != "four" {
				t.Error(found)
			}
			fatal(t, back.end())
			if number := transactions.Load(); number > 20 {
				t.Errorf("%d transactions", number)
			}
		})
	}
}
