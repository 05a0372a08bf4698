// Package secretredactionprocessor removes content and masks secrets and personal data in all signals.
//
// Every text of an item is looked at: names, attribute keys and values at any depth, bodies, messages. Content (prompts,
// completions, tool arguments and results) is removed or capped by its key; in what is left, secrets and personal data become
// masks. What cannot be scanned does not pass.
package secretredactionprocessor

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processorhelper"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/metadata"
)

var changesData = processorhelper.WithCapabilities(consumer.Capabilities{MutatesData: true})

// NewFactory returns the factory of the processor.
func NewFactory() processor.Factory {
	made := &factory{cores: map[*Config]*sharedCore{}}
	return processor.NewFactory(
		metadata.Type,
		createDefaultConfig,
		processor.WithTraces(made.traces, metadata.TracesStability),
		processor.WithMetrics(made.metrics, metadata.MetricsStability),
		processor.WithLogs(made.logs, metadata.LogsStability),
	)
}

// factory gives the pipelines of one configuration one detector and one cache.
type factory struct {
	mutex sync.Mutex
	cores map[*Config]*sharedCore
}

type sharedCore struct {
	*core
	users int
}

func (f *factory) take(config *Config) (*core, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	shared := f.cores[config]
	if shared == nil {
		made, err := newCore(config)
		if err != nil {
			return nil, err
		}
		shared = &sharedCore{core: made}
		f.cores[config] = shared
	}
	shared.users++
	return shared.core, nil
}

func (f *factory) giveBack(config *Config) component.ShutdownFunc {
	var once sync.Once
	return func(context.Context) error {
		once.Do(func() {
			f.mutex.Lock()
			defer f.mutex.Unlock()
			if shared := f.cores[config]; shared != nil {
				if shared.users--; shared.users == 0 {
					delete(f.cores, config)
				}
			}
		})
		return nil
	}
}

func newCore(config *Config) (*core, error) {
	detector, err := detect.New(detect.Config{RulesFile: config.RulesFile, PersonalData: config.PersonalData})
	if err != nil {
		return nil, fmt.Errorf("the detector of secrets cannot be made: %w", err)
	}
	return coreWith(config, detector), nil
}

func coreWith(config *Config, detector finder) *core {
	made := &core{
		scanner: scanner{finder: detector, cache: newCache(config.CacheEntries)},
		content: config.Content,
		keys:    newKeyBook(),
		paths:   newKeyBook(),
	}
	if config.Fingerprints.Enabled {
		made.fingerprintKey = []byte(config.Fingerprints.Key)
	}
	return made
}

func (f *factory) traces(
	ctx context.Context, set processor.Settings, config component.Config, next consumer.Traces,
) (processor.Traces, error) {
	shared, metrics, err := f.parts(set, config, "traces")
	if err != nil {
		return nil, err
	}
	clean := func(ctx context.Context, data ptrace.Traces) (ptrace.Traces, error) {
		pass := walk{core: shared}
		if err := shared.whileWanted(ctx, &pass, func() { pass.traces(data) }); err != nil {
			return data, err
		}
		metrics.record(ctx, &pass.counts)
		return data, skipEmpty(data.ResourceSpans().Len())
	}
	return processorhelper.NewTraces(ctx, set, config, next, clean, f.options(config, metrics)...)
}

func (f *factory) metrics(
	ctx context.Context, set processor.Settings, config component.Config, next consumer.Metrics,
) (processor.Metrics, error) {
	shared, metrics, err := f.parts(set, config, "metrics")
	if err != nil {
		return nil, err
	}
	clean := func(ctx context.Context, data pmetric.Metrics) (pmetric.Metrics, error) {
		pass := walk{core: shared}
		if err := shared.whileWanted(ctx, &pass, func() { pass.metrics(data) }); err != nil {
			return data, err
		}
		metrics.record(ctx, &pass.counts)
		return data, skipEmpty(data.ResourceMetrics().Len())
	}
	return processorhelper.NewMetrics(ctx, set, config, next, clean, f.options(config, metrics)...)
}

func (f *factory) logs(
	ctx context.Context, set processor.Settings, config component.Config, next consumer.Logs,
) (processor.Logs, error) {
	shared, metrics, err := f.parts(set, config, "logs")
	if err != nil {
		return nil, err
	}
	clean := func(ctx context.Context, data plog.Logs) (plog.Logs, error) {
		pass := walk{core: shared}
		if err := shared.whileWanted(ctx, &pass, func() { pass.logs(data) }); err != nil {
			return data, err
		}
		metrics.record(ctx, &pass.counts)
		return data, skipEmpty(data.ResourceLogs().Len())
	}
	return processorhelper.NewLogs(ctx, set, config, next, clean, f.options(config, metrics)...)
}

func (f *factory) parts(set processor.Settings, config component.Config, signal string) (*core, *instruments, error) {
	metrics, err := newInstruments(set.TelemetrySettings, signal)
	if err != nil {
		return nil, nil, err
	}
	shared, err := f.take(config.(*Config))
	return shared, metrics, err
}

func (f *factory) options(config component.Config, metrics *instruments) []processorhelper.Option {
	giveBack := f.giveBack(config.(*Config))
	shutdown := func(ctx context.Context) error {
		metrics.alarm.stop()
		return giveBack(ctx)
	}
	return []processorhelper.Option{changesData, processorhelper.WithStart(metrics.alarm.start), processorhelper.WithShutdown(shutdown)}
}

// skipEmpty ends a batch of which nothing is left.
func skipEmpty(groups int) error {
	if groups == 0 {
		return processorhelper.ErrSkipProcessingData
	}
	return nil
}
