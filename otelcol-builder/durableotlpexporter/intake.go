package durableotlpexporter

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.uber.org/zap"
)

// waitPoll is how often a waiting sender looks for room when nothing tells it that there is some.
const waitPoll = 100 * time.Millisecond

// intake stands before the queue and decides what happens to data that the queue cannot take.
type intake[T comparable] struct {
	signal   signalOf[T]
	whenFull string
	// capacity is the queue's size in bytes, 0 when it is counted in something else.
	capacity int64
	next     func(context.Context, T) error
	waiting  func() bool
	// keep puts data aside that no queue can take any more.
	keep     func(T, verdict, error) error
	counters *counters
	logger   *zap.Logger
	quiet    *quiet
	stopped  chan struct{}
	room     chan struct{}

	full  atomic.Bool
	freed atomic.Int64
	// inside is read-locked by each sender: the end waits for those that wait.
	inside sync.RWMutex
}

// take puts data into the queue, or says why not.
func (i *intake[T]) take(ctx context.Context, data T) error {
	i.inside.RLock()
	defer i.inside.RUnlock()
	switch i.whenFull {
	case Drop:
		return i.takeOrDrop(ctx, data)
	case Wait:
		return i.takeInTheEnd(ctx, data)
	default:
		return i.takeOrPushBack(ctx, data)
	}
}

// enqueue puts data into the queue. After its end a queue in memory would still take data, for nobody.
func (i *intake[T]) enqueue(ctx context.Context, data T) error {
	select {
	case <-i.stopped:
		return errEnded
	default:
		return i.next(ctx, data)
	}
}

// leave returns when every sender is either in the queue or has put its data aside.
func (i *intake[T]) leave() {
	i.inside.Lock()
	defer i.inside.Unlock()
}

// takeOrPushBack takes the data only when every exporter of the signal has room.
func (i *intake[T]) takeOrPushBack(ctx context.Context, data T) error {
	if !gateOf(i.signal.name).open() {
		i.counters.pushedBack(i.signal.count(data))
		return errPushedBack
	}
	err := i.enqueue(ctx, data)
	if err == nil || ctx.Err() != nil || errors.Is(err, errEnded) {
		return err
	}
	i.counters.pushedBack(i.signal.count(data))
	i.quiet.say(i.logger, zap.ErrorLevel, "full", "The queue cannot take more: senders are told to send again later, and no exporter of the signal takes data."+
		" Fix: bring the endpoint back, or give the queue more room (sending_queue.queue_size, and the disk when it is kept there).", zap.Error(err))
	if i.capacity > 0 && int64(i.signal.bytes(data)) > i.capacity {
		return err // it never fits: no reason to shut the others out
	}
	i.freed.Store(0)
	i.full.Store(true)
	since, isFull := time.Now(), errors.Is(err, exporterhelper.ErrQueueIsFull)
	gateOf(i.signal.name).close(i, func() bool {
		rested := time.Since(since) >= gateRetry
		if i.freed.Load() > i.capacity/10 || rested && (!isFull || !i.waiting()) {
			i.full.Store(false)
			return true
		}
		return false
	})
	return err
}

// takeOrDrop never lets the sender feel that this queue is full.
func (i *intake[T]) takeOrDrop(ctx context.Context, data T) error {
	items := i.signal.count(data)
	if err := i.enqueue(ctx, data); err != nil {
		i.counters.overflowed(items)
		i.quiet.say(i.logger, zap.ErrorLevel, "overflow", "The queue cannot take more: items are dropped, since this exporter has when_full: drop."+
			" Fix: bring the endpoint back, or give the queue more room.", zap.Error(err), zap.Int("dropped_items", items))
	}
	return nil
}

// takeInTheEnd waits until the queue takes the data: its sender could not send it again. When the collector ends before there
// is room, the data becomes a dead letter.
func (i *intake[T]) takeInTheEnd(ctx context.Context, data T) error {
	over := ending()
	for {
		err := i.enqueue(ctx, data)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if i.capacity > 0 && int64(i.signal.bytes(data)) > i.capacity {
			return i.takeInParts(ctx, data, err)
		}
		i.quiet.say(i.logger, zap.ErrorLevel, "full", "The queue cannot take more: its sender waits."+
			" Fix: bring the endpoint back, or give the queue more room (sending_queue.queue_size, and the disk when it is kept there).", zap.Error(err))
		select {
		case <-ctx.Done():
			return err
		case <-i.stopped:
			return i.keep(data, shutDown, err)
		case <-over:
			return i.keep(data, shutDown, err)
		case <-i.room:
		case <-time.After(waitPoll):
		}
	}
}

// takeInParts takes what is larger than the whole queue, and so would wait for ever, in halves. A single item that is too large
// becomes a dead letter.
func (i *intake[T]) takeInParts(ctx context.Context, data T, err error) error {
	items := i.signal.count(data)
	if items < 2 {
		return i.keep(data, tooLarge, err)
	}
	first := i.takeInTheEnd(ctx, i.signal.cut(data, 0, items/2))
	return errors.Join(first, i.takeInTheEnd(ctx, i.signal.cut(data, items/2, items)))
}

// left notes that data has left the queue for good.
func (i *intake[T]) left(data T) {
	if i.full.Load() {
		i.freed.Add(int64(i.signal.bytes(data)))
	}
	select {
	case i.room <- struct{}{}:
	default:
	}
}
