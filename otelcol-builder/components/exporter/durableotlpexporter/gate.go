package durableotlpexporter

import (
	"errors"
	"sync"
	"time"
)

// gateRetry is after how long a queue is tried again that could not be written, or that is full although nothing waits.
const gateRetry = 5 * time.Second

// errPushedBack is what a sender gets while another exporter of the same signal cannot take data. It is not permanent, so the
// sender tries again.
var errPushedBack = errors.New("another exporter's queue is full, so nothing was taken: send again later")

// gate keeps the exporters of one signal together: data is taken by all of them or by none. Without it each repetition by the
// sender would be stored once more by every exporter that still has room.
type gate struct {
	mu     sync.Mutex
	closed map[any]func() bool // by exporter: does it have room again?
}

var (
	gatesLock sync.Mutex
	gates     = map[string]*gate{}
)

// gateOf returns the gate of a signal.
func gateOf(signalName string) *gate {
	gatesLock.Lock()
	defer gatesLock.Unlock()
	if gates[signalName] == nil {
		gates[signalName] = &gate{closed: map[any]func() bool{}}
	}
	return gates[signalName]
}

// close shuts the gate for all until hasRoom says that this exporter has room again.
func (g *gate) close(exporter any, hasRoom func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed[exporter] = hasRoom
}

// leave removes an exporter.
func (g *gate) leave(exporter any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.closed, exporter)
}

// open says whether every exporter may take data.
func (g *gate) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for exporter, hasRoom := range g.closed {
		if !hasRoom() {
			return false
		}
		delete(g.closed, exporter)
	}
	return true
}
