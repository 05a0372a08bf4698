package tracebudgetextension

import (
	"sync"
	"time"
)

// risePerWindow is how much of the full share comes back per window once the budget has room again.
const risePerWindow = 0.1

// budget turns the spans that want to be kept into a factor between 0 and 1 by which every percentage is multiplied.
//
// Within a window the factor only falls: it is the allowance that the traces which are always kept leave over, divided by
// the spans that the full percentages would have kept so far. Since a trace's place is its id, that demand is known
// exactly whatever the factor is. At the end of a window the factor rises by a small step, never beyond what the demand
// of the window would have allowed.
type budget struct {
	mutex     sync.Mutex
	now       func() time.Time
	window    time.Duration
	allowance float64 // spans per window; 0: no budget

	factor  float64
	started time.Time
	fixed   float64 // spans of traces that are always kept, in this window
	wanted  float64 // spans that the full percentages would keep, in this window
}

func newBudget(spansPerSecond float64, window time.Duration, now func() time.Time) *budget {
	return &budget{
		now:       now,
		window:    window,
		allowance: spansPerSecond * window.Seconds(),
		factor:    1,
		started:   now(),
	}
}

// count counts the spans of traces that are kept whatever the budget says, and of those that their full percentage would keep. It
// returns the factor that holds for them.
func (b *budget) count(fixed, wanted int64) float64 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.advance()
	b.fixed += float64(fixed)
	b.wanted += float64(wanted)
	if b.allowance > 0 {
		b.factor = min(b.factor, b.possible())
	}
	return b.factor
}

// possible returns the highest factor that the window so far allows.
func (b *budget) possible() float64 {
	left := max(0, b.allowance-b.fixed)
	if b.wanted <= left {
		return 1
	}
	return left / b.wanted
}

// advance closes the windows that have ended: the one with the counts, then those in which nothing came.
func (b *budget) advance() {
	windows := int64(b.now().Sub(b.started) / b.window)
	if windows <= 0 || b.allowance <= 0 {
		return
	}
	b.factor = min(b.factor+risePerWindow, max(b.factor, b.possible()))
	b.factor = min(1, b.factor+risePerWindow*float64(windows-1))
	b.started = b.started.Add(time.Duration(windows) * b.window)
	b.fixed, b.wanted = 0, 0
}
