package durableotlpexporter

import "context"

const (
	// wholeFailures is how often a request is tried whole before it is tried in pieces, where the endpoint says too many or too late.
	wholeFailures = 6
	// mostPieces bounds the requests of one attempt in pieces.
	mostPieces = 64
)

// mayBeSplit says whether a request that waits for an endpoint with a limit of rate or time is tried in pieces: it has failed whole
// again and again, or pieces were what got through last.
func (d *delivery[T]) mayBeSplit(data T) bool {
	items := int64(d.signal.count(data))
	if fits := d.fits.Load(); fits > 0 && items > fits {
		return true
	}
	state, known := d.health.known(data)
	return items > 1 && known && state.failures > 0 && state.failures%wholeFailures == 0
}

// sendInPieces tries smaller and smaller pieces until the endpoint takes one, and then goes on with pieces of that size. What it
// does not take waits: a busy endpoint refuses all of them. A limit that every request exceeds (a burst of so many items) would
// otherwise hold this request, and those behind it, for ever.
func (d *delivery[T]) sendInPieces(ctx context.Context, whole part[T]) error {
	items := d.signal.count(whole.data)
	size, mayShrink := items/2, true
	if fits := int(d.fits.Load()); fits > 0 && fits < items {
		state, _ := d.health.known(whole.data)
		size, mayShrink = fits, state.failures%wholeFailures == 0
	}
	sent, fitted := 0, false
	for range mostPieces {
		if sent == items || size == 0 || d.stopping.Load() || ctx.Err() != nil {
			break
		}
		end := min(items, sent+size)
		kind, _, err := d.ask(ctx, d.signal.cut(whole.data, sent, end))
		if kind == accepted {
			sent, fitted = end, true
			d.fits.Store(int64(size))
			continue
		}
		whole.kind, whole.err = kind, err
		if fitted || !mayShrink || !kind.waits() {
			break // it has had enough for now, or says something else: the rest is asked for as a whole again
		}
		size /= 2
	}
	if !fitted && size == 0 {
		d.fits.Store(0) // not even a single item: it takes nothing at all now
	}
	if sent == items {
		d.finished(whole.data)
		return nil
	}
	if sent == 0 {
		return d.wait(whole.data, whole.data, unavailable, whole.err)
	}
	return d.wait(whole.data, d.signal.cut(whole.data, sent, items), unavailable, whole.err)
}
