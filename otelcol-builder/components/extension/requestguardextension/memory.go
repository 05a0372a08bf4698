package requestguardextension

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"golang.org/x/sync/semaphore"
)

// patience is how long a request waits for the memory that others hold. Senders give up after 10 s by default.
const patience = 2 * time.Second

// The parts of the memory limit that all requests may take together: as they come, and decoded. The rest is for what the
// pipelines make of them, for queues, and for the collector itself. Two rules keep requests from waiting for each other for
// ever: who holds something of a pool does not wait for more of it, and who waits for decoded memory, with received memory
// in its hands, waits for those that are decoded, which need nothing more.
const shareReceived, shareDecoded = 6, 3

var (
	errNeverFits = errors.New("the request takes more memory than all requests may")
	errNoRoom    = errors.New("other requests hold the memory")
)

// memory is what all requests that are under way may take together.
type memory struct {
	limit             int
	received, decoded *pool
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, received: newPool(limit / shareReceived), decoded: newPool(limit / shareDecoded)}
}

// pool is memory for one purpose.
type pool struct {
	total    int
	free     *semaphore.Weighted
	patience time.Duration
}

func newPool(total int) *pool {
	return &pool{total: total, free: semaphore.NewWeighted(int64(total)), patience: patience}
}

// holding returns what one request holds so far of the memory for received data, and of that for decoded data: nothing.
func (m *memory) holding() (received, decoded reservation) {
	if m == nil {
		return
	}
	return reservation{pool: m.received}, reservation{pool: m.decoded}
}

// reservation is what one request holds of a pool. Without a pool there are no bounds.
type reservation struct {
	pool  *pool
	bytes int
}

// grow reserves until the request holds that many bytes. Where others hold them it waits for a while, unless it holds some
// itself: those that do could wait for each other.
func (r *reservation) grow(ctx context.Context, bytes int) error {
	if bytes <= r.bytes {
		return nil
	}
	if r.pool == nil {
		r.bytes = bytes
		return nil
	}
	if bytes > r.pool.total {
		return errNeverFits
	}
	more := int64(bytes - r.bytes)
	if !r.pool.free.TryAcquire(more) {
		if r.bytes > 0 {
			return errNoRoom
		}
		waiting, cancel := context.WithTimeout(ctx, r.pool.patience)
		defer cancel()
		if r.pool.free.Acquire(waiting, more) != nil {
			return errNoRoom
		}
	}
	r.bytes = bytes
	return nil
}

// more returns the size that the reservation has with so many bytes more. It is the whole pool where only less is left.
func (r *reservation) more(bytes int) int {
	if r.pool == nil || r.bytes >= r.pool.total {
		return r.bytes + bytes
	}
	return min(r.bytes+bytes, r.pool.total)
}

// release gives everything back. It may be called again.
func (r *reservation) release() {
	if r.pool != nil && r.bytes > 0 {
		r.pool.free.Release(int64(r.bytes))
		r.bytes = 0
	}
}

// limitOf returns the limit of a memory limiter in bytes, from the configuration that the collector runs with.
func limitOf(limiter component.ID, configuration *confmap.Conf) (int, error) {
	settings, err := configuration.Sub("extensions::" + limiter.String())
	if err != nil {
		return 0, fmt.Errorf("extensions::%s: %w", limiter, err)
	}
	var limit struct {
		MiB int `mapstructure:"limit_mib"`
	}
	if err := settings.Unmarshal(&limit, confmap.WithIgnoreUnused()); err != nil {
		return 0, fmt.Errorf("extensions::%s: %w", limiter, err)
	}
	if limit.MiB <= 0 {
		return 0, fmt.Errorf("extensions::%s has no limit_mib, of which request_guard gives requests their part; write it", limiter)
	}
	return limit.MiB << 20, nil
}
