package durableotlpexporter

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.uber.org/zap"
)

const (
	// waitPoll is how often a waiting sender looks for room when nothing tells it that there is some.
	waitPoll = 100 * time.Millisecond
	// lastWait is for how long senders still wait for room, all together, once the collector is told to end.
	lastWait = 2 * time.Second
)

// ending is closed a moment after the process is told to end. The processors before an exporter are shut down before it is,
// and they wait for their senders: a sender that waits for room would never let them end.
var ending = sync.OnceValue(func() <-chan struct{} {
	told, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(told, syscall.SIGTERM, os.Interrupt)
	go func() {
		name := <-told
		time.Sleep(lastWait)
		signal.Stop(told)
		close(over)
		if !anyStopped.Load() {
			// A collector that was still starting has not heard it: until it listens itself, only this does.
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Signal(name)
			}
		}
	}()
	return over
})

// anyStopped says that the collector has begun to shut its exporters down.
var anyStopped atomic.Bool

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
}

// take puts data into the queue, or says why not.
func (i *intake[T]) take(ctx context.Context, data T) error {
	switch i.whenFull {
	case Drop:
		return i.takeOrDrop(ctx, data)
	case Wait:
		return i.takeInTheEnd(ctx, data)
	default:
		return i.takeOrPushBack(ctx, data)
	}
}

// takeOrPushBack takes the data only when every exporter of the signal has room.
func (i *intake[T]) takeOrPushBack(ctx context.Context, data T) error {
	if !gateOf(i.signal.name).open() {
		i.counters.pushedBack(i.signal.count(data))
		return errPushedBack
	}
	err := i.next(ctx, data)
	if err == nil || ctx.Err() != nil {
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
	if err := i.next(ctx, data); err != nil {
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
		err := i.next(ctx, data)
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
