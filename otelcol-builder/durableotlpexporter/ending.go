package durableotlpexporter

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// lastWait is for how long senders still wait for room, all together, once the collector is told to end.
const lastWait = 2 * time.Second

var (
	endingLock sync.Mutex
	nextEnding <-chan struct{}
	// anyStopped says that the collector has begun to shut its exporters down.
	anyStopped atomic.Bool
)

// ending returns a channel that is closed a moment after the process is told to end, or to read its configuration anew. The
// processors before an exporter are shut down before it is, and they wait for their senders: a sender that waits for room would
// never let them end.
func ending() <-chan struct{} {
	endingLock.Lock()
	defer endingLock.Unlock()
	if nextEnding == nil {
		nextEnding = watchForEnd()
	}
	return nextEnding
}

// expectEnding begins to watch; an end that has passed, as the one before a reload, is forgotten.
func expectEnding() {
	endingLock.Lock()
	defer endingLock.Unlock()
	select {
	case <-nextEnding:
		nextEnding = nil
		anyStopped.Store(false)
	default:
	}
	if nextEnding == nil {
		nextEnding = watchForEnd()
	}
}

func watchForEnd() <-chan struct{} {
	told, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(told, syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	go func() {
		name := <-told
		time.Sleep(lastWait)
		signal.Stop(told)
		close(over)
		if name != syscall.SIGHUP && !anyStopped.Load() {
			// A collector that was still starting has not heard it: until it listens itself, only this does.
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Signal(name)
			}
		}
	}()
	return over
}
