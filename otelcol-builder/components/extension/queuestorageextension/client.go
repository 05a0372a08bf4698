package queuestorageextension

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/collector/extension/xextension/storage"
)

var (
	// errNoItem is why the queue lets an index go that nothing is stored under.
	errNoItem = errors.New("nothing is stored under this index")
	// errDamagedItem is why it lets an item go that is not what was stored.
	errDamagedItem = errors.New("the item is not what was stored")
)

// client is the storage of one queue.
type client struct {
	storage.Client
	// unstored is told that the state of the queue could not be written while an item was handed out.
	unstored func(error)
	// damaged is told of a value that does not match its seal.
	damaged func(key string, value []byte)
	// found holds the indices below `walked` that had an item when the queue was opened.
	found  map[uint64]bool
	walked uint64
}

// open puts back what was under way when the queue was last open, and learns which items there are.
func (c *client) open(ctx context.Context) error {
	stored, err := c.Get(ctx, metadataKey)
	if err != nil || len(stored) == 0 {
		return err
	}
	state, err := decodeMetadata(stored)
	if err != nil {
		return nil //nolint:nilerr // the queue itself starts anew then, and says so
	}
	if state.undispatch() {
		if err := c.Set(ctx, metadataKey, state.encode()); err != nil {
			return err
		}
	}
	walker, canWalk := c.Client.(storage.Walker)
	if !canWalk {
		return nil
	}
	found := map[uint64]bool{}
	err = walker.Walk(ctx, func(key string, _ []byte) ([]*storage.Operation, error) {
		if index, isItem := itemIndex(key); isItem {
			found[index] = true
		}
		return nil, nil
	})
	if err == nil {
		c.found, c.walked = found, state.writeIndex
	}
	return nil //nolint:nilerr // the queue steps over gaps by itself then, slowly
}

// isGap says that the queue steps over an index without an item, by a read and then by a deletion. Each would cost a write to the
// disk: behind a request that was stuck for a day there are 172,800 such indices.
func (c *client) isGap(operations []*storage.Operation, kind storage.OpType) bool {
	if len(operations) != 2 || operations[0].Key != metadataKey || operations[1].Type != kind {
		return false
	}
	index, isItem := itemIndex(operations[1].Key)
	return isItem && index < c.walked && !c.found[index]
}

// Get returns the value of a key, nil when there is none.
func (c *client) Get(ctx context.Context, key string) ([]byte, error) {
	read := storage.GetOperation(key)
	err := c.Batch(ctx, read)
	return read.Value, err
}

// Set stores the value of a key.
func (c *client) Set(ctx context.Context, key string, value []byte) error {
	return c.Batch(ctx, storage.SetOperation(key, value))
}

// Batch executes operations in one transaction. The queue hands an item out by writing its state and reading the item at once;
// where the state cannot be written, which is so on a full disk, it would give the item up unread. It gets the item all the same:
// at worst it is sent again after a restart.
func (c *client) Batch(ctx context.Context, operations ...*storage.Operation) error {
	if c.isGap(operations, storage.Get) {
		return errNoItem
	}
	if c.isGap(operations, storage.Delete) {
		return nil
	}
	whole, writes := slices.Clone(operations), 0
	for index, each := range operations {
		if each.Type == storage.Set {
			writes++
			if isSealed(each.Key) {
				whole[index] = storage.SetOperation(each.Key, seal(each.Value))
			}
		}
	}
	reads := only(operations, storage.Get)
	err := c.Client.Batch(ctx, whole...)
	if err != nil && len(reads) > 0 && writes > 0 {
		c.unstored(err)
		err = c.Client.Batch(ctx, reads...)
	}
	if err != nil {
		return err
	}
	handsOut := writes > 0
	for _, read := range reads {
		if err := c.check(read); err != nil && handsOut {
			return err
		}
	}
	return nil
}

// check takes the seal from a value that was read; a damaged value is none.
func (c *client) check(read *storage.Operation) error {
	if read.Value == nil {
		return errNoItem
	}
	if !isSealed(read.Key) {
		return nil
	}
	value, intact := unseal(read.Value)
	if !intact {
		c.damaged(read.Key, read.Value)
		read.Value = nil
		return errDamagedItem
	}
	read.Value = value
	return nil
}

func only(operations []*storage.Operation, kind storage.OpType) []*storage.Operation {
	return slices.DeleteFunc(slices.Clone(operations), func(each *storage.Operation) bool { return each.Type != kind })
}
