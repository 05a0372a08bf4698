package secretredactionprocessor

import (
	"context"
	"errors"
	"runtime"
	"time"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/threadclock"
)

// mostWork is the processor time that the texts of one request may cost. What is left of them then is dropped.
const mostWork = time.Second

// Small texts are counted together until one of these is reached: asking for the time of each would cost as much as the scan.
const (
	textsPerCheck = 64
	bytesPerCheck = 16 << 10
)

var errTooCostly = errors.New("the texts of this request cost more than one request may")

// work bounds what the texts of one request cost. A nil one has no bound.
type work struct {
	ctx          context.Context
	limit, began time.Duration
	texts, bytes int
	ended        error
}

// bounded runs a pass over a batch on one thread, whose processor time is what the bound is about.
func bounded(ctx context.Context, limit time.Duration, pass func(*work)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	one := &work{ctx: ctx, limit: limit, began: threadclock.Used()}
	pass(one)
	if errors.Is(one.ended, errTooCostly) {
		return nil
	}
	return one.ended
}

// check says why nothing more may be scanned: the request was given up, or it has cost too much.
func (w *work) check() error {
	if w.ended == nil {
		w.texts, w.bytes = 0, 0
		if w.ended = w.ctx.Err(); w.ended == nil && threadclock.Used()-w.began > w.limit {
			w.ended = errTooCostly
		}
	}
	return w.ended
}

// scan runs one scan within the bound.
func (w *work) scan(size int, scan func(within func() error) error) error {
	if w == nil {
		return scan(nil)
	}
	w.texts++
	w.bytes += size
	if w.ended != nil || w.texts >= textsPerCheck || w.bytes >= bytesPerCheck {
		if err := w.check(); err != nil {
			return err
		}
	}
	return scan(w.check)
}
