package tracebudgetextension

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"otel-rl.example/otelcol-rl/extension/tracebudgetextension/internal/metadata"
)

// ownMetrics are the collector's own metrics of the budget.
type ownMetrics struct {
	*metadata.TelemetryBuilder
	shares sync.Map // policy -> its full share
}

func newOwnMetrics(settings component.TelemetrySettings, config *Config, shared *budget) (*ownMetrics, error) {
	builder, err := metadata.NewTelemetryBuilder(settings)
	if err != nil {
		return nil, err
	}
	own := &ownMetrics{TelemetryBuilder: builder}
	return own, errors.Join(
		builder.RegisterTraceBudgetLimitCallback(func(_ context.Context, observer metric.Float64Observer) error {
			observer.Observe(config.SpansPerSecond / float64(config.Gateways))
			return nil
		}),
		builder.RegisterTraceBudgetPercentageCallback(func(_ context.Context, observer metric.Float64Observer) error {
			factor := shared.count(0, 0)
			own.shares.Range(func(policy, share any) bool {
				observer.Observe(100*share.(float64)*factor, metric.WithAttributes(attribute.String("policy", policy.(string))))
				return true
			})
			return nil
		}))
}

// decisions counts the traces of one policy; the attribute sets are made once.
type decisions struct {
	own         *ownMetrics
	kept, letGo metric.MeasurementOption
}

func (own *ownMetrics) forPolicy(policy string) decisions {
	option := func(decision string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("policy", policy), attribute.String("decision", decision)))
	}
	return decisions{own: own, kept: option("kept"), letGo: option("let_go")}
}

func (d decisions) count(ctx context.Context, decision metric.MeasurementOption, spans int64) {
	d.own.TraceBudgetTraces.Add(ctx, 1, decision)
	d.own.TraceBudgetSpans.Add(ctx, spans, decision)
}
