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

// waitLimit is for how long senders wait for room before their data becomes dead letters. Once it has passed nobody waits until
// there has been room: processors hold locks while they wait, and are shut down before the exporters are.
const waitLimit = 2 * time.Second

// leaveLimit is for how long the end waits for a sender that is at the queue.
const leaveLimit = 5 * time.Second

// waitPoll is how often a waiting sender looks for room when nothing tells it that there is some.
const waitPoll = 100 * time.Millisecond

// intake stands before the queue and decides what happens to data that the queue cannot take.
type intake[T comparable] struct {
	*delivery[T]
	whenFull string
	// capacity is the queue's size in bytes, 0 when it is counted in something else.
	capacity int64
	next     func(context.Context, T) error
	stopped  chan struct{}
	stop     sync.Once
	room     chan struct{}
	// overdue: senders have waited for room as long as they may, and there has been none since.
	overdue atomic.Bool

	full  atomic.Bool
	freed atomic.Int64
	// inside is read-locked by each sender: the end waits for those that wait.
	inside sync.RWMutex
}

func newIntake[T comparable](to *delivery[T], whenFull string, queue *exporterhelper.QueueBatchConfig) *intake[T] {
	made := &intake[T]{delivery: to, whenFull: whenFull, stopped: make(chan struct{}), room: make(chan struct{}, 1)}
	if queue.Sizer == exporterhelper.RequestSizerTypeBytes {
		made.capacity = queue.QueueSize
	}
	to.left = made.left
	return made
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

// leave returns when every sender is either in the queue or has put its data aside; false where that takes too long.
func (i *intake[T]) leave(ctx context.Context) bool {
	left := make(chan struct{})
	go func() {
		i.inside.Lock()
		defer i.inside.Unlock()
		close(left)
	}()
	select {
	case <-left:
		return true
	case <-ctx.Done():
	case <-time.After(leaveLimit):
	}
	return false
}

// takeOrPushBack takes the data only when every exporter of the signal has room.
func (i *intake[T]) takeOrPushBack(ctx context.Context, data T) error {
	if !gateOf(i.signal.name).open() {
		i.counters.add(i.counters.ExporterPushedBackItems, i.signal.count(data))
		return errPushedBack
	}
	err := i.enqueue(ctx, data)
	if err == nil || ctx.Err() != nil || errors.Is(err, errEnded) {
		return err
	}
	i.counters.add(i.counters.ExporterPushedBackItems, i.signal.count(data))
	i.logger.Error("The queue cannot take more: senders are told to send again later, and no exporter of the signal takes data."+
		" Fix: bring the endpoint back, or give the queue more room (sending_queue.queue_size, and the disk when it is kept there).", zap.Error(err))
	if i.capacity > 0 && int64(i.signal.bytes(data)) > i.capacity {
		return err // it never fits: no reason to shut the others out
	}
	i.freed.Store(0)
	i.full.Store(true)
	since, isFull := time.Now(), errors.Is(err, exporterhelper.ErrQueueIsFull)
	gateOf(i.signal.name).close(i, func() bool {
		rested := time.Since(since) >= gateRetry
		if i.freed.Load() > i.capacity/10 || rested && (!isFull || !i.health.waits()) {
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
		i.counters.add(i.counters.ExporterOverflowDroppedItems, items)
		i.logger.Error("The queue cannot take more: items are dropped, since this exporter has when_full: drop."+
			" Fix: bring the endpoint back, or give the queue more room.", zap.Error(err), zap.Int("dropped_items", items))
	}
	return nil
}

// takeInTheEnd waits for a while until the queue takes the data: its sender could not send it again. When there is no room in that
// time, or the collector ends before, the data becomes a dead letter.
func (i *intake[T]) takeInTheEnd(ctx context.Context, data T) error {
	enough := time.NewTimer(waitLimit)
	defer enough.Stop()
	for {
		err := i.enqueue(ctx, data)
		if err == nil {
			i.overdue.Store(false)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if i.capacity > 0 && int64(i.signal.bytes(data)) > i.capacity {
			return i.takeInParts(ctx, data, err)
		}
		if i.overdue.Load() && !errors.Is(err, errEnded) {
			return i.putAside(data, queueFull, err)
		}
		i.logger.Error("The queue cannot take more: its sender waits for a moment, then what comes becomes dead letters."+
			" Fix: bring the endpoint back, or give the queue more room (sending_queue.queue_size, and the disk when it is kept there).", zap.Error(err))
		select {
		case <-ctx.Done():
			return err
		case <-i.stopped:
			return i.putAside(data, shutDown, err)
		case <-enough.C:
			i.overdue.Store(true)
		case <-i.room:
		case <-time.After(waitPoll):
		}
	}
}

// putAside makes a dead letter of what the queue could not take. What cannot be written either is lost: its sender cannot repeat it.
func (i *intake[T]) putAside(data T, kind verdict, why error) error {
	err := i.bury(part[T]{data, kind, why})
	if err != nil {
		i.counters.add(i.counters.ExporterOverflowDroppedItems, i.signal.count(data))
		i.logger.Error("Items that neither the queue nor a dead letter takes are lost. Fix: see the error.",
			zap.Error(err), zap.Int("lost_items", i.signal.count(data)))
	}
	return err
}

// takeInParts takes what is larger than the whole queue, and so would wait for ever, in halves. A single item that is too large
// becomes a dead letter.
func (i *intake[T]) takeInParts(ctx context.Context, data T, err error) error {
	items := i.signal.count(data)
	if items < 2 {
		return i.putAside(data, tooLarge, err)
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
