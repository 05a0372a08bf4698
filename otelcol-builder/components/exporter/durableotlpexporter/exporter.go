package durableotlpexporter

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Settings is what a durable exporter is made of.
type Settings struct {
	Exporter   exporter.Settings
	Config     component.Config // of the durable exporter
	Durability Durability
	Queue      configoptional.Optional[exporterhelper.QueueBatchConfig]
	Retry      configretry.BackOffConfig
	// Inner is the stock exporter's factory, and InnerConfig its configuration with queue and retries off.
	Inner       exporter.Factory
	InnerConfig component.Config
}

// durable is one exporter for one signal.
type durable[T comparable] struct {
	outer    component.Component
	intake   *intake[T]
	delivery *delivery[T]
	health   *health[T]
	counters *counters
	settings Settings
}

// newDurable returns the exporter without exporterhelper and without the stock exporter's send function.
func newDurable[T comparable](of signalOf[T], settings Settings) (*durable[T], error) {
	made, err := newCounters(settings.Exporter.TelemetrySettings, settings.Exporter.ID, of.name)
	if err != nil {
		return nil, err
	}
	// What it says is about the endpoint, the queue and the disk: where in the program it is said helps nobody.
	settings.Exporter.Logger = settings.Exporter.Logger.WithOptions(zap.AddStacktrace(zapcore.FatalLevel))
	logger, messages := settings.Exporter.Logger, newQuiet()
	state := newHealth[T](settings.Durability.UnhealthyAfter, settings.Durability.UnhealthyLag)
	queue := settings.Queue.Get()
	entry := &intake[T]{
		signal: of, whenFull: settings.Durability.WhenFull,
		waiting:  func() bool { age, _, _ := state.ages(); return age > 0 },
		counters: made, logger: logger, quiet: messages, stopped: make(chan struct{}), room: make(chan struct{}, 1),
	}
	if queue.Sizer == exporterhelper.RequestSizerTypeBytes {
		entry.capacity = queue.QueueSize
	}
	way := &delivery[T]{
		onDisk: queue.StorageID != nil, signal: of, exporter: settings.Exporter.ID.String(), prefix: filePrefix(settings.Exporter.ID, of.name),
		health: state, counters: made, logger: logger, quiet: messages, left: entry.left,
	}
	entry.patience = waitLimit
	entry.keep = func(data T, kind verdict, err error) error { return way.bury(part[T]{data, kind, err}) }
	return &durable[T]{intake: entry, health: state, counters: made, settings: settings, delivery: way}, nil
}

// filePrefix returns the first part of the names of an exporter's dead-letter files.
func filePrefix(exporter component.ID, signalName string) string {
	return strings.NewReplacer("/", "~", string(filepath.Separator), "~", " ", "~").Replace(exporter.String()) + "-" + signalName
}

// innerSettings are those of the stock exporter: it counts nothing, or every item would be counted twice.
func (d *durable[T]) innerSettings() exporter.Settings {
	inner := d.settings.Exporter
	inner.ID = component.NewIDWithName(d.settings.Inner.Type(), inner.ID.Name())
	inner.MeterProvider = noop.NewMeterProvider()
	inner.Logger = d.outerSettings().Logger
	return inner
}

// outerSettings are those of the exporterhelper: what it says about rejected data is said once a minute, with the fix.
func (d *durable[T]) outerSettings() exporter.Settings {
	outer := d.settings.Exporter
	outer.Logger = outer.Logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return innerCore{core}
	}))
	return outer
}

// options returns those of the exporterhelper around the delivery.
func (d *durable[T]) options(inner component.Component) []exporterhelper.Option {
	return []exporterhelper.Option{
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{}), // the stock exporter has its own for each request
		exporterhelper.WithRetry(d.settings.Retry),
		exporterhelper.WithQueue(d.settings.Queue),
		exporterhelper.WithStart(func(ctx context.Context, host component.Host) error {
			return inner.Start(ctx, watchedHost{host, answerWatcher{rejected: d.rejected}})
		}),
		exporterhelper.WithShutdown(inner.Shutdown),
	}
}

// Start opens the dead letters, then the stock exporter and the queue.
func (d *durable[T]) Start(ctx context.Context, host component.Host) error {
	letters, err := openDeadLetters(d.settings.Durability.DeadLetter, d.removed)
	if err != nil {
		return err
	}
	d.delivery.letters = letters
	d.health.start(host)
	err = d.counters.observe(d.health.ages, func() (int64, int64) {
		present, size, _ := letters.files()
		return int64(len(present)), size
	})
	return errors.Join(err, d.outer.Start(ctx, host))
}

// rejected counts what the endpoint dropped out of a request that it took, by its answer.
func (d *durable[T]) rejected(answer []byte, isJSON bool) {
	if items := d.intake.signal.rejected(answer, isJSON); items > 0 {
		d.counters.add(d.counters.ExporterPartialSuccessRejectedItems, int(items))
	}
}

// removed says that dead letters had to go.
func (d *durable[T]) removed(file string, items int) {
	d.counters.add(d.counters.ExporterDeadLetterRemovedItems, items)
	d.settings.Exporter.Logger.Error("The dead letters are full: the oldest file is removed and its items are lost."+
		" Fix: replay and remove the files, or raise dead_letter.max_megabytes.", zap.String("file", file), zap.Int("lost_items", items))
}

// Shutdown stops the retries first, so that what is not delivered stays in the queue on disk.
func (d *durable[T]) Shutdown(ctx context.Context) error {
	d.delivery.stopping.Store(true)
	select {
	case <-d.intake.stopped:
	default:
		close(d.intake.stopped)
	}
	if !d.intake.leave(ctx) {
		d.settings.Exporter.Logger.Warn("A sender is still at the queue; the end goes on without it.")
	}
	gateOf(d.intake.signal.name).leave(d.intake)
	failures := []error{d.outer.Shutdown(ctx)}
	d.counters.Shutdown()
	if d.delivery.letters != nil {
		failures = append(failures, d.delivery.keepTheRest(), d.delivery.letters.close())
	}
	return errors.Join(failures...)
}

// Capabilities says that what comes in is changed: by the exporterhelper's batches, and where parts of a request are moved.
func (d *durable[T]) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

type durableTraces struct{ *durable[ptrace.Traces] }

func (d durableTraces) ConsumeTraces(ctx context.Context, data ptrace.Traces) error {
	return d.intake.take(ctx, data)
}

// NewTraces returns the exporter of traces.
func NewTraces(ctx context.Context, settings Settings) (exporter.Traces, error) {
	made, err := newDurable(traces, settings)
	if err != nil {
		return nil, err
	}
	inner, err := settings.Inner.CreateTraces(ctx, made.innerSettings(), settings.InnerConfig)
	if err != nil {
		return nil, err
	}
	made.delivery.send = inner.ConsumeTraces
	outer, err := exporterhelper.NewTraces(ctx, made.outerSettings(), settings.Config, made.delivery.deliver, made.options(inner)...)
	if err != nil {
		return nil, err
	}
	made.outer, made.intake.next = outer, outer.ConsumeTraces
	return durableTraces{made}, nil
}

type durableMetrics struct{ *durable[pmetric.Metrics] }

func (d durableMetrics) ConsumeMetrics(ctx context.Context, data pmetric.Metrics) error {
	return d.intake.take(ctx, data)
}

// NewMetrics returns the exporter of metrics.
func NewMetrics(ctx context.Context, settings Settings) (exporter.Metrics, error) {
	made, err := newDurable(metrics, settings)
	if err != nil {
		return nil, err
	}
	inner, err := settings.Inner.CreateMetrics(ctx, made.innerSettings(), settings.InnerConfig)
	if err != nil {
		return nil, err
	}
	made.delivery.send = inner.ConsumeMetrics
	outer, err := exporterhelper.NewMetrics(ctx, made.outerSettings(), settings.Config, made.delivery.deliver, made.options(inner)...)
	if err != nil {
		return nil, err
	}
	made.outer, made.intake.next = outer, outer.ConsumeMetrics
	return durableMetrics{made}, nil
}

type durableLogs struct{ *durable[plog.Logs] }

func (d durableLogs) ConsumeLogs(ctx context.Context, data plog.Logs) error {
	return d.intake.take(ctx, data)
}

// NewLogs returns the exporter of logs.
func NewLogs(ctx context.Context, settings Settings) (exporter.Logs, error) {
	made, err := newDurable(logs, settings)
	if err != nil {
		return nil, err
	}
	inner, err := settings.Inner.CreateLogs(ctx, made.innerSettings(), settings.InnerConfig)
	if err != nil {
		return nil, err
	}
	made.delivery.send = inner.ConsumeLogs
	outer, err := exporterhelper.NewLogs(ctx, made.outerSettings(), settings.Config, made.delivery.deliver, made.options(inner)...)
	if err != nil {
		return nil, err
	}
	made.outer, made.intake.next = outer, outer.ConsumeLogs
	return durableLogs{made}, nil
}
