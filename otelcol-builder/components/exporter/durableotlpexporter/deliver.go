package durableotlpexporter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.uber.org/zap"

	"otel-rl.example/otelcol-rl/internal/addresses"
)

const (
	// poisonFailures is how often a request must have failed, and how many others must have got through meanwhile, until it is
	// treated as refused although the endpoint did not say so.
	poisonFailures = 10
	// patientFailures is the same for answers that speak of a limit, which often pass.
	patientFailures = 40
	// searchBudget bounds the requests that look for the refused items of one batch, and coldSearchBudget those while the
	// endpoint has taken no part of it.
	searchBudget     = 512
	coldSearchBudget = 32
	// doubtSearchEvery is at which attempts a batch is searched while nothing shows that the endpoint works.
	doubtSearchEvery = 6
)

var errEnded = errors.New("the collector ended before the endpoint took it")

// delivery sends requests through the stock exporter and decides what becomes of those that it could not deliver.
type delivery[T comparable] struct {
	signal   signalOf[T]
	send     func(context.Context, T) error
	letters  *deadLetters
	exporter string
	prefix   string
	health   *health[T]
	counters *counters
	logger   *zap.Logger
	left     func(T)
	onDisk   bool // the queue outlives the process
	stopping atomic.Bool
	// fits is how many items the endpoint took when it had refused more for a while; 0 when nothing says that there is a limit.
	fits atomic.Int64
}

// part is a piece of a batch with what the endpoint said about it.
type part[T comparable] struct {
	data T
	kind verdict
	err  error
}

// ask sends once, judges the answer, and says whether it may mean that this is too much at once.
func (d *delivery[T]) ask(ctx context.Context, data T) (kind verdict, tooMuch bool, err error) {
	watched, answer := withAnswer(ctx)
	err = addresses.Shown(d.send(watched, data)) // it goes to the log, to the health and into dead letters
	kind = judge(err, *answer)
	if kind == accepted {
		d.health.succeeded(d.counters.noteLag(d.signal.time(data), time.Now()))
		return accepted, false, nil
	}
	d.counters.addBecause(d.counters.ExporterFailedRequests, 1, kind)
	return kind, kind == unavailable && mayBeTooMuch(err, *answer), err
}

// deliver is what the retries call. Without an error the request is dealt with: delivered, or written to the dead letters.
func (d *delivery[T]) deliver(ctx context.Context, data T) error {
	if d.signal.count(data) == 0 {
		d.finished(data) // there is nothing to deliver, and some endpoints refuse nothing
		return nil
	}
	if d.stopping.Load() && !d.onDisk && d.health.failing() {
		d.health.failed(data, data, errEnded)
		return errEnded // asking a dead endpoint for each batch would make the end endless: keepTheRest keeps it
	}
	kind, tooMuch, err := d.ask(ctx, data)
	if kind == accepted {
		if int64(d.signal.count(data)) > d.fits.Load() {
			d.fits.Store(0)
		}
		d.finished(data)
		return nil
	}
	if tooMuch && d.mayBeSplit(data) {
		return d.sendInPieces(ctx, part[T]{data, kind, err})
	}
	if kind.waits() && !d.poisoned(data, kind, tooMuch) {
		return d.wait(data, data, kind, err)
	}
	if (kind == refused || kind == tooLarge) && !d.endpointWorks(ctx, data) {
		return d.doubt(ctx, part[T]{data, kind, err})
	}
	found := d.search(ctx, part[T]{data, kind, err})
	for _, bad := range found.bad {
		if failure := d.bury(bad); failure != nil {
			d.signal.move(bad.data, found.rest)
			found.waitKind, found.waitErr = unavailable, failure
		}
	}
	if d.signal.count(found.rest) > 0 {
		return d.wait(data, found.rest, found.waitKind, found.waitErr)
	}
	d.finished(data)
	return nil
}

func (d *delivery[T]) finished(data T) {
	d.health.done(data)
	d.left(data)
}

// poisoned says whether others get through time and again while this request is answered with an error. An answer that may pass
// shows that only for a single item, and after longer.
func (d *delivery[T]) poisoned(data T, kind verdict, tooMuch bool) bool {
	least := poisonFailures
	if kind == unavailable {
		if least = patientFailures; !tooMuch || d.signal.count(data) > 1 {
			return false
		}
	}
	state, known := d.health.known(data)
	return known && state.failures >= least && d.health.successes.Load()-state.successes >= int64(least)
}

// endpointWorks tells whether it is the items that are refused. An endpoint that refuses even a request without items (no
// compression, wrong encoding, wrong tenant) may be set up wrongly, and then nothing may become a dead letter. But some, Loki among
// them, refuse such a request by rule: then it is shown by others that get through, or by parts of the request that are taken.
func (d *delivery[T]) endpointWorks(ctx context.Context, request T) bool {
	if before, known := d.health.known(request); known && d.health.successes.Load() > before.successes {
		return true
	}
	watched, answer := withAnswer(ctx)
	return judge(d.send(watched, d.signal.empty()), *answer) == accepted
}

// doubt keeps what an endpoint refuses that has not shown yet that it works. From time to time it is asked for the parts; when it
// takes some, the next attempt knows that it works.
func (d *delivery[T]) doubt(ctx context.Context, whole part[T]) error {
	before, _ := d.health.known(whole.data)
	if before.failures%doubtSearchEvery != 0 {
		return d.wait(whole.data, whole.data, misconfigured, whole.err)
	}
	d.health.failed(whole.data, whole.data, whole.err) // before the search, so that what it gets through is seen
	found := d.search(ctx, whole)
	if !found.accepted {
		return d.wait(whole.data, whole.data, misconfigured, whole.err)
	}
	for _, bad := range found.bad {
		d.signal.move(bad.data, found.rest)
	}
	if d.signal.count(found.rest) == 0 {
		d.finished(whole.data)
		return nil
	}
	return d.wait(whole.data, found.rest, whole.kind, whole.err)
}

// wait keeps what remains of a request for the next attempt. Errors that carry a delay asked for by the endpoint pass as they
// are; the others must not look permanent, or the collector would drop the data.
func (d *delivery[T]) wait(request, rest T, kind verdict, err error) error {
	d.health.failed(request, rest, err)
	text := strings.TrimPrefix(err.Error(), "Permanent error: ")
	level, message := zap.WarnLevel, "The endpoint cannot be reached or is busy; what it did not take waits in the queue."
	if kind != unavailable {
		level, message = zap.ErrorLevel, "The endpoint does not take the requests of this exporter; nothing is lost, they wait in the queue."
	}
	if consumererror.IsPermanent(err) {
		err = errors.New(text)
	}
	d.logger.Log(level, message+" Fix: "+fixFor(kind, text)+".", zap.String("reason", string(kind)), zap.Error(err))
	if rest != request {
		return d.signal.rest(err, rest)
	}
	return err
}

// keepTheRest writes what a queue in memory could not deliver before the end to the dead letters.
func (d *delivery[T]) keepTheRest() error {
	if d.onDisk {
		return nil
	}
	var failures []error
	lost := 0
	for _, request := range d.health.undelivered() {
		if err := d.bury(part[T]{request, shutDown, errEnded}); err != nil {
			failures, lost = append(failures, err), lost+d.signal.count(request)
		}
	}
	if lost > 0 {
		d.logger.Error("What could not be delivered before the end is lost: no dead letter can be written."+
			" Fix: make room, or give the collector's user the right to write.",
			zap.Int("lost_items", lost), zap.String("directory", d.letters.directory), zap.Error(failures[0]))
	}
	return errors.Join(failures...)
}

// bury writes refused items to the dead letters.
func (d *delivery[T]) bury(bad part[T]) error {
	items := d.signal.count(bad.data)
	request, err := d.signal.json(bad.data)
	var line []byte
	if err == nil {
		line, err = letterLine(request, letterNote{
			Exporter: d.exporter, Reason: string(bad.kind), Error: bad.err.Error(), Time: time.Now().UTC().Format(time.RFC3339Nano), Items: items,
		})
	}
	if err == nil {
		err = d.letters.write(d.prefix, line)
	}
	if err != nil {
		d.counters.add(d.counters.ExporterDeadLetterFailures, 1)
		return fmt.Errorf("no dead letter can be written (make room, or give the collector's user the right to write): %w", err)
	}
	d.counters.addBecause(d.counters.ExporterDeadLetterItems, items, bad.kind)
	message := "The endpoint refuses items for good (" + string(bad.kind) + "): they are in the dead letters. Fix: change what it complains about, then replay the files."
	if bad.kind == shutDown {
		message = "What could not be delivered before the end is in the dead letters. Fix: bring the endpoint back, then replay the files."
	}
	d.logger.Error(message,
		zap.String("reason", string(bad.kind)), zap.Int("items", items), zap.String("directory", d.letters.directory), zap.Error(bad.err))
	return nil
}
