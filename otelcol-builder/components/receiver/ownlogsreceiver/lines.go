package ownlogsreceiver

import (
	"strings"
	"sync"
)

const (
	// capacity of the buffer, in records; together with the interval at which the receiver empties it, it bounds what
	// the collector can ever send of its own logs, also when sending them is what it complains about.
	capacity = 1000
	// maximumBytes of one record that is kept.
	maximumBytes = 16 << 10
)

// processLines holds what the process logged and nobody took yet. Loggers live before the first pipeline and after the
// last, hence one buffer for the process.
var processLines = &lines{}

// lines is a bounded buffer of encoded log records: the newest push out the oldest. Safe for concurrent use.
type lines struct {
	mutex   sync.Mutex
	held    []string
	dropped int64
}

// Write takes one encoded record.
func (l *lines) Write(record []byte) (int, error) {
	// What is cut or was never UTF-8 would make a backend refuse the whole request.
	kept := strings.ToValidUTF8(string(record[:min(len(record), maximumBytes)]), "\uFFFD")
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.held) == capacity {
		l.held = l.held[1:]
		l.dropped++
	}
	l.held = append(l.held, kept)
	return len(record), nil
}

// take empties the buffer and returns what it held and how many records were pushed out since the last time.
func (l *lines) take() ([]string, int64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	taken, dropped := l.held, l.dropped
	l.held, l.dropped = nil, 0
	return taken, dropped
}
