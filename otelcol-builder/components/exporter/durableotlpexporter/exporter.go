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

	"otel-rl.example/otelcol-rl/internal/addresses"
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
	*intake[T]
	outer    component.Component
	settings Settings
}

// newDurable puts the delivery between the stock exporter, which is made by `inner`, and the exporterhelper, which is made by `outer`.
func newDurable[T comparable, E component.Component, F ~func(context.Context, T) error](
	ctx context.Context, of signalOf[T], settings Settings, consume func(E, context.Context, T) error,
	inner func(context.Context, exporter.Settings, component.Config) (E, error),
	outer func(context.Context, exporter.Settings, component.Config, F, ...exporterhelper.Option) (E, error),
) (*durable[T], error) {
	counters, err := newCounters(settings.Exporter.TelemetrySettings, settings.Exporter.ID, of.name)
	if err != nil {
		return nil, err
	}
	// What it says is about the endpoint, the queue and the disk: where in the program it is said helps nobody.
	settings.Exporter.Logger = settings.Exporter.Logger.WithOptions(zap.AddStacktrace(zapcore.FatalLevel))
	entry := newIntake(&delivery[T]{
		onDisk: settings.Queue.Get().StorageID != nil, signal: of,
		exporter: settings.Exporter.ID.String(), prefix: filePrefix(settings.Exporter.ID, of.name),
		health:   newHealth[T](settings.Durability.UnhealthyAfter, settings.Durability.UnhealthyLag),
		counters: counters, logger: onceAMinute(settings.Exporter.Logger),
	}, settings.Durability.WhenFull, settings.Queue.Get())
	made := &durable[T]{intake: entry, settings: settings}
	outside := settings.Exporter // its words about rejected data are left out: they are said once a minute, with the fix
	outside.Logger = outside.Logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return innerCore{core} }))
	inside := outside
	inside.ID = component.NewIDWithName(settings.Inner.Type(), outside.ID.Name())
	inside.MeterProvider = noop.NewMeterProvider() // or every item would be counted twice
	stock, err := inner(ctx, inside, settings.InnerConfig)
	if err != nil {
		return nil, addresses.Shown(err)
	}
	made.send = func(ctx context.Context, data T) error { return consume(stock, ctx, data) }
	helper, err := outer(ctx, outside, settings.Config, made.deliver,
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{}), // the stock exporter has its own for each request
		exporterhelper.WithRetry(settings.Retry),
		exporterhelper.WithQueue(settings.Queue),
		exporterhelper.WithStart(func(ctx context.Context, host component.Host) error {
			return addresses.Shown(stock.Start(ctx, watchedHost{host, answerWatcher{rejected: made.rejected}}))
		}),
		exporterhelper.WithShutdown(stock.Shutdown))
	made.outer = helper
	entry.next = func(ctx context.Context, data T) error { return consume(helper, ctx, data) }
	return made, err
}

// filePrefix returns the first part of the names of an exporter's dead-letter files.
func filePrefix(exporter component.ID, signalName string) string {
	return strings.NewReplacer("/", "~", string(filepath.Separator), "~", " ", "~").Replace(exporter.String()) + "-" + signalName
}

// Start opens the dead letters, then the stock exporter and the queue.
func (d *durable[T]) Start(ctx context.Context, host component.Host) error {
	letters, err := openDeadLetters(d.settings.Durability.DeadLetter, d.removed)
	if err != nil {
		return err
	}
	d.letters = letters
	d.health.start(host)
	err = d.counters.observe(d.health.ages, func() (int64, int64) {
		present, size, _ := letters.files()
		return int64(len(present)), size
	})
	return errors.Join(err, d.outer.Start(ctx, host))
}

// rejected counts what the endpoint dropped out of a request that it took, by its answer.
func (d *durable[T]) rejected(answer []byte, isJSON bool) {
	if items := d.signal.rejected(answer, isJSON); items > 0 {
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
	d.stopping.Store(true)
	d.stop.Do(func() { close(d.stopped) })
	if !d.leave(ctx) {
		d.logger.Warn("A sender is still at the queue; the end goes on without it.")
	}
	gateOf(d.signal.name).leave(d.intake)
	failures := []error{d.outer.Shutdown(ctx)}
	d.counters.Shutdown()
	if d.letters != nil {
		failures = append(failures, d.keepTheRest(), d.letters.close())
	}
	return errors.Join(failures...)
}

// Capabilities says that what comes in is changed: by the exporterhelper's batches, and where parts of a request are moved.
func (d *durable[T]) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

func newTraces(ctx context.Context, settings Settings) (exporter.Traces, error) {
	made, err := newDurable(ctx, traces, settings, exporter.Traces.ConsumeTraces, settings.Inner.CreateTraces, exporterhelper.NewTraces)
	if err != nil {
		return nil, err
	}
	return struct {
		*durable[ptrace.Traces]
		consumer.ConsumeTracesFunc
	}{made, made.take}, nil
}

func newMetrics(ctx context.Context, settings Settings) (exporter.Metrics, error) {
	made, err := newDurable(ctx, metrics, settings, exporter.Metrics.ConsumeMetrics, settings.Inner.CreateMetrics, exporterhelper.NewMetrics)
	if err != nil {
		return nil, err
	}
	return struct {
		*durable[pmetric.Metrics]
		consumer.ConsumeMetricsFunc
	}{made, made.take}, nil
}

func newLogs(ctx context.Context, settings Settings) (exporter.Logs, error) {
	made, err := newDurable(ctx, logs, settings, exporter.Logs.ConsumeLogs, settings.Inner.CreateLogs, exporterhelper.NewLogs)
	if err != nil {
		return nil, err
	}
	return struct {
		*durable[plog.Logs]
		consumer.ConsumeLogsFunc
	}{made, made.take}, nil
}

// NewFactory returns the factory of an exporter; settings is how its configuration becomes two.
func NewFactory(
	kind component.Type, defaults component.CreateDefaultConfigFunc, stability component.StabilityLevel,
	settings func(exporter.Settings, component.Config) Settings,
) exporter.Factory {
	return exporter.NewFactory(kind, defaults,
		exporter.WithTraces(func(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Traces, error) {
			return newTraces(ctx, settings(set, config))
		}, stability),
		exporter.WithMetrics(func(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Metrics, error) {
			return newMetrics(ctx, settings(set, config))
		}, stability),
		exporter.WithLogs(func(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Logs, error) {
			return newLogs(ctx, settings(set, config))
		}, stability))
}
