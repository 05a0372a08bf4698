package durableotlpexporter

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// attempt is what is remembered of a request that could not be delivered yet.
type attempt struct {
	since     time.Time
	failures  int
	successes int64 // of the exporter, when this request failed first
}

// health remembers what waits and since when, and tells the collector whether the exporter gets anything through.
type health[T comparable] struct {
	host           component.Host
	unhealthyAfter time.Duration
	unhealthyLag   time.Duration
	now            func() time.Time

	successes atomic.Int64

	mu           sync.Mutex
	waiting      map[T]attempt
	failingSince time.Time // zero: the last request got through
	lastSuccess  time.Time
	unhealthy    bool
	late         bool // what made it unhealthy is the age of what it delivers
}

func newHealth[T comparable](after, lag time.Duration) *health[T] {
	return &health[T]{unhealthyAfter: after, unhealthyLag: lag, now: time.Now, waiting: map[T]attempt{}}
}

func (h *health[T]) start(host component.Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host, h.lastSuccess = host, h.now()
}

// succeeded notes that the endpoint took something that was of this age.
func (h *health[T]) succeeded(age time.Duration) {
	h.successes.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastSuccess, h.failingSince = h.now(), time.Time{}
	late := h.unhealthyLag > 0 && age > h.unhealthyLag
	if h.unhealthy && !(late && h.late) {
		h.report(componentstatus.NewEvent(componentstatus.StatusOK))
		h.unhealthy = false
	}
	if late && !h.unhealthy {
		err := fmt.Errorf("late: what is delivered now is %s old", age.Round(time.Second))
		h.report(componentstatus.NewRecoverableErrorEvent(err))
	}
	h.unhealthy, h.late = late, late
}

// report tells the collector. It knows no way from one error to another but through OK.
func (h *health[T]) report(event *componentstatus.Event) { componentstatus.ReportStatus(h.host, event) }

// failed notes that a request has to wait, and returns what is known of it. rest is what remains of the request.
func (h *health[T]) failed(request, rest T, err error) attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	state, known := h.waiting[request]
	if !known {
		state = attempt{since: now, successes: h.successes.Load()}
	}
	state.failures++
	delete(h.waiting, request)
	h.waiting[rest] = state
	if h.failingSince.IsZero() {
		h.failingSince = now
	}
	if failing := now.Sub(h.failingSince); failing >= h.unhealthyAfter && (!h.unhealthy || h.late) {
		if h.unhealthy {
			h.report(componentstatus.NewEvent(componentstatus.StatusOK))
		}
		h.unhealthy, h.late = true, false
		err = fmt.Errorf("nothing could be delivered for %s: %w", failing.Round(time.Second), err)
		h.report(componentstatus.NewRecoverableErrorEvent(err))
	}
	return state
}

// undelivered returns the requests that wait.
func (h *health[T]) undelivered() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.waiting))
}

// waits says whether a request waits.
func (h *health[T]) waits() bool { return len(h.undelivered()) > 0 }

// failing says whether the last request failed.
func (h *health[T]) failing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.failingSince.IsZero()
}

// done forgets a request that is dealt with.
func (h *health[T]) done(request T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, request)
}

// known returns what is remembered of a request.
func (h *health[T]) known(request T) (attempt, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state, found := h.waiting[request]
	return state, found
}

// ages returns for how many seconds the oldest undelivered request has been tried, how long ago the last success was while
// something waits (both 0 when nothing does), and whether the exporter is reported as unhealthy.
func (h *health[T]) ages() (oldest, sinceSuccess float64, unhealthy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for _, state := range h.waiting {
		oldest = max(oldest, now.Sub(state.since).Seconds())
	}
	if len(h.waiting) > 0 {
		sinceSuccess = now.Sub(h.lastSuccess).Seconds()
	}
	return oldest, sinceSuccess, h.unhealthy
}
