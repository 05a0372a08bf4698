package tracebudgetextension

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const scopeName = "otel-rl.example/otelcol-rl/extension/tracebudgetextension"

// ownMetrics are the collector's own metrics of the budget; their names begin like those of all other components.
type ownMetrics struct {
	traces       metric.Int64Counter
	spans        metric.Int64Counter
	registration metric.Registration

	mutex  sync.Mutex
	shares map[string]float64
}

func newOwnMetrics(provider metric.MeterProvider, config *Config, shared *budget) (*ownMetrics, error) {
	meter := provider.Meter(scopeName)
	traces, errTraces := meter.Int64Counter("otelcol_trace_budget_traces",
		metric.WithUnit("{trace}"), metric.WithDescription("Traces that a policy decided, kept or let go."))
	spans, errSpans := meter.Int64Counter("otelcol_trace_budget_spans",
		metric.WithUnit("{span}"), metric.WithDescription("Spans of the traces that a policy decided, kept or let go."))
	percentage, errPercentage := meter.Float64ObservableGauge("otelcol_trace_budget_percentage",
		metric.WithUnit("%"), metric.WithDescription("Percentage of the traces that a policy keeps now, after the budget."))
	limit, errLimit := meter.Float64ObservableGauge("otelcol_trace_budget_limit",
		metric.WithUnit("{span}/s"), metric.WithDescription("Spans per second that this gateway may keep; 0 without a budget."))
	if err := errors.Join(errTraces, errSpans, errPercentage, errLimit); err != nil {
		return nil, err
	}
	own := &ownMetrics{traces: traces, spans: spans, shares: map[string]float64{}}
	registration, err := meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		observer.ObserveFloat64(limit, config.SpansPerSecond/float64(config.Gateways))
		factor := shared.current()
		own.mutex.Lock()
		defer own.mutex.Unlock()
		for policy, share := range own.shares {
			observer.ObserveFloat64(percentage, 100*share*factor, metric.WithAttributes(attribute.String("policy", policy)))
		}
		return nil
	}, percentage, limit)
	own.registration = registration
	return own, err
}

func (own *ownMetrics) observeShare(policy string, share float64) {
	own.mutex.Lock()
	defer own.mutex.Unlock()
	own.shares[policy] = share
}

func (own *ownMetrics) shutdown() error {
	return own.registration.Unregister()
}

// policyCounters counts the decisions of one policy; the attribute sets are made once.
type policyCounters struct {
	own                     *ownMetrics
	keptOption, letGoOption metric.MeasurementOption
}

func (own *ownMetrics) forPolicy(policy string) policyCounters {
	option := func(decision string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(
			attribute.String("policy", policy), attribute.String("decision", decision)))
	}
	return policyCounters{own: own, keptOption: option("kept"), letGoOption: option("let_go")}
}

func (counters policyCounters) kept(ctx context.Context, spans int64) {
	counters.own.traces.Add(ctx, 1, counters.keptOption)
	counters.own.spans.Add(ctx, spans, counters.keptOption)
}

func (counters policyCounters) letGo(ctx context.Context, spans int64) {
	counters.own.traces.Add(ctx, 1, counters.letGoOption)
	counters.own.spans.Add(ctx, spans, counters.letGoOption)
}
