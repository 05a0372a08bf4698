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

	successes atomic.Int64

	mu           sync.Mutex
	waiting      map[T]attempt
	failingSince time.Time // zero: the last request got through
	lastSuccess  time.Time
	reason       string // why it is unhealthy, "" when it is not
}

// Reasons why an exporter is unhealthy.
const late, failing = "late", "failing"

func newHealth[T comparable](after, lag time.Duration) *health[T] {
	return &health[T]{unhealthyAfter: after, unhealthyLag: lag, waiting: map[T]attempt{}}
}

func (h *health[T]) start(host component.Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host, h.lastSuccess = host, time.Now()
}

// succeeded notes that the endpoint took something that was of this age.
func (h *health[T]) succeeded(age time.Duration) {
	h.successes.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastSuccess, h.failingSince = time.Now(), time.Time{}
	if h.unhealthyLag > 0 && age > h.unhealthyLag {
		h.turn(late, fmt.Errorf("late: what is delivered now is %s old", age.Round(time.Second)))
	} else {
		h.turn("", nil)
	}
}

// turn tells the collector what is new. It knows no way from one error to another but through OK.
func (h *health[T]) turn(reason string, err error) {
	if reason == h.reason {
		return
	}
	if h.reason != "" {
		componentstatus.ReportStatus(h.host, componentstatus.NewEvent(componentstatus.StatusOK))
	}
	if h.reason = reason; reason != "" {
		componentstatus.ReportStatus(h.host, componentstatus.NewRecoverableErrorEvent(err))
	}
}

// failed notes that a request has to wait. rest is what remains of it.
func (h *health[T]) failed(request, rest T, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
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
	if since := now.Sub(h.failingSince); since >= h.unhealthyAfter {
		h.turn(failing, fmt.Errorf("nothing could be delivered for %s: %w", since.Round(time.Second), err))
	}
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
	now := time.Now()
	for _, state := range h.waiting {
		oldest = max(oldest, now.Sub(state.since).Seconds())
	}
	if len(h.waiting) > 0 {
		sinceSuccess = now.Sub(h.lastSuccess).Seconds()
	}
	return oldest, sinceSuccess, h.reason != ""
}
