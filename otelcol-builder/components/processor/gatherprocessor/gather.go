// Package gatherprocessor is the processor gather: it puts small pieces together before something that costs by the piece.
//
// Tail sampling hands on one trace at a time, and a queue on disk writes each piece through to the disk: gathered for a fifth of a
// second, thousands of traces cost one write. What is gathered is in memory, as the undecided traces before it are: it does not
// belong where each request must be on disk before it is answered.
package gatherprocessor // import "otel-rl.example/otelcol-rl/processor/gatherprocessor"

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"otel-rl.example/otelcol-rl/processor/gatherprocessor/internal/metadata"
)

// Config bounds what is gathered.
type Config struct {
	// Wait is how long spans are held at most.
	Wait time.Duration `mapstructure:"wait"`
	// MaxSpans are handed on at once, and whoever brings the next ones waits for that.
	MaxSpans int `mapstructure:"max_spans"`
}

// Validate refuses bounds that hold nothing or hold for ever.
func (c *Config) Validate() error {
	if c.Wait <= 0 || c.MaxSpans <= 0 {
		return errors.New("wait and max_spans must be more than 0")
	}
	return nil
}

// NewFactory returns the factory of the processor gather.
func NewFactory() processor.Factory {
	return processor.NewFactory(
		metadata.Type,
		func() component.Config { return &Config{Wait: 200 * time.Millisecond, MaxSpans: 8192} },
		processor.WithTraces(func(
			_ context.Context, settings processor.Settings, config component.Config, next consumer.Traces,
		) (processor.Traces, error) {
			return newGatherer(config.(*Config), settings.TelemetrySettings, next)
		}, metadata.TracesStability),
	)
}

// gatherer holds spans until there are enough of them or the oldest has waited long enough.
type gatherer struct {
	config *Config
	logger *zap.Logger
	lost   metric.Int64Counter
	next   consumer.Traces

	mu    sync.Mutex // held while spans are handed on: whoever brings more waits
	held  ptrace.Traces
	spans int
	ended bool

	stopped chan struct{}
	stop    sync.Once
	ticker  sync.WaitGroup
}

func newGatherer(config *Config, settings component.TelemetrySettings, next consumer.Traces) (*gatherer, error) {
	telemetry, err := metadata.NewTelemetryBuilder(settings)
	if err != nil {
		return nil, err
	}
	return &gatherer{
		config: config, logger: settings.Logger, lost: telemetry.ProcessorGatherLostSpans, next: next,
		held: ptrace.NewTraces(), stopped: make(chan struct{}),
	}, nil
}

// Capabilities says that the spans are taken out of what comes in.
func (*gatherer) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// Start begins to hand on what has waited long enough.
func (g *gatherer) Start(context.Context, component.Host) error {
	g.ticker.Go(func() {
		tick := time.NewTicker(g.config.Wait)
		defer tick.Stop()
		for {
			select {
			case <-g.stopped:
				return
			case <-tick.C:
				g.mu.Lock()
				g.handOn(context.Background())
				g.mu.Unlock()
			}
		}
	})
	return nil
}

// Shutdown hands on what is held; what comes later goes on at once.
func (g *gatherer) Shutdown(ctx context.Context) error {
	g.stop.Do(func() { close(g.stopped) })
	g.ticker.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	g.handOn(ctx)
	return nil
}

// ConsumeTraces holds the spans.
func (g *gatherer) ConsumeTraces(ctx context.Context, traces ptrace.Traces) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	spans := traces.SpanCount()
	if spans == 0 {
		return nil // a resource without spans would be held until some come
	}
	g.spans += spans
	traces.ResourceSpans().MoveAndAppendTo(g.held.ResourceSpans())
	if g.ended || g.spans >= g.config.MaxSpans {
		g.handOn(context.WithoutCancel(ctx)) // they are many callers' spans
	}
	return nil
}

// handOn passes the held spans to the next component, and says so where it does not take them: nobody can send them again.
func (g *gatherer) handOn(ctx context.Context) {
	if g.spans == 0 {
		return
	}
	spans, traces := g.spans, g.held
	g.spans, g.held = 0, ptrace.NewTraces()
	if err := g.next.ConsumeTraces(ctx, traces); err != nil {
		g.lost.Add(ctx, int64(spans))
		g.logger.Error("Sampled spans were not taken and are lost. Fix: see the error; sinks after tail sampling need when_full: wait.",
			zap.Int("lost_spans", spans), zap.Error(err))
	}
}
