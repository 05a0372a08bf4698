package tracebudgetextension

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/sampling"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor/pkg/samplingpolicy"
)

// traceBudget is the extension: all its policies share one budget.
type traceBudget struct {
	component.StartFunc
	budget  *budget
	metrics *ownMetrics
}

var _ samplingpolicy.Extension = (*traceBudget)(nil)

func newTraceBudget(settings component.TelemetrySettings, config *Config, now func() time.Time) (*traceBudget, error) {
	shared := newBudget(config.SpansPerSecond/float64(config.Gateways), config.Window, now)
	metrics, err := newOwnMetrics(settings, config, shared)
	if err != nil {
		return nil, err
	}
	return &traceBudget{budget: shared, metrics: metrics}, nil
}

// Shutdown stops the observation of the gauges.
func (extension *traceBudget) Shutdown(context.Context) error {
	extension.metrics.Shutdown()
	return nil
}

// NewEvaluator returns the policy `policyName`, which either keeps a percentage or always keeps and counts.
func (extension *traceBudget) NewEvaluator(policyName string, values map[string]any) (samplingpolicy.Evaluator, error) {
	parsed, err := parsePolicy(policyName, values)
	if err != nil {
		return nil, err
	}
	counters := extension.metrics.forPolicy(policyName)
	if parsed.Always {
		return &alwaysEvaluator{budget: extension.budget, counters: counters}, nil
	}
	share := *parsed.Percentage / 100
	extension.metrics.shares.Store(policyName, share)
	return &shareEvaluator{budget: extension.budget, counters: counters, share: share, full: thresholdOf(share)}, nil
}

// thresholdOf returns the threshold of OpenTelemetry's consistent probability sampling: a trace is kept when its
// randomness is not below it, so what is kept at one share is kept at every higher one.
func thresholdOf(share float64) sampling.Threshold {
	if share >= 1 {
		return sampling.AlwaysSampleThreshold
	}
	threshold, err := sampling.ProbabilityToThreshold(share)
	if err != nil { // the share is below the smallest one that can be expressed, 2^-56
		return sampling.NeverSampleThreshold
	}
	return threshold
}

type alwaysEvaluator struct {
	budget   *budget
	counters decisions
}

// Evaluate keeps every trace that it is asked about, and counts it.
func (evaluator *alwaysEvaluator) Evaluate(
	ctx context.Context, _ pcommon.TraceID, trace *samplingpolicy.TraceData,
) (samplingpolicy.Decision, error) {
	evaluator.budget.count(trace.SpanCount, 0)
	evaluator.counters.count(ctx, evaluator.counters.kept, trace.SpanCount)
	return samplingpolicy.Sampled, nil
}

// IsStateful reports that the count of one trace changes what becomes of others.
func (*alwaysEvaluator) IsStateful() bool { return true }

type shareEvaluator struct {
	budget   *budget
	counters decisions
	share    float64
	full     sampling.Threshold
}

var _ samplingpolicy.ThresholdEvaluator = (*shareEvaluator)(nil)

// Evaluate keeps the trace when its id lies within the share that the budget leaves.
func (evaluator *shareEvaluator) Evaluate(
	ctx context.Context, id pcommon.TraceID, trace *samplingpolicy.TraceData,
) (samplingpolicy.Decision, error) {
	decision, _, err := evaluator.EvaluateWithThreshold(ctx, id, trace)
	return decision, err
}

// EvaluateWithThreshold also returns the threshold, which the processor can write into the tracestate.
func (evaluator *shareEvaluator) EvaluateWithThreshold(
	ctx context.Context, id pcommon.TraceID, trace *samplingpolicy.TraceData,
) (samplingpolicy.Decision, sampling.Threshold, error) {
	randomness := sampling.TraceIDToRandomness(id)
	if evaluator.full.ShouldSample(randomness) {
		threshold := thresholdOf(evaluator.share * evaluator.budget.count(0, trace.SpanCount))
		if threshold.ShouldSample(randomness) {
			evaluator.counters.count(ctx, evaluator.counters.kept, trace.SpanCount)
			return samplingpolicy.Sampled, threshold, nil
		}
	}
	evaluator.counters.count(ctx, evaluator.counters.letGo, trace.SpanCount)
	return samplingpolicy.NotSampled, sampling.NeverSampleThreshold, nil
}

// IsStateful reports that the budget remembers what was kept before.
func (*shareEvaluator) IsStateful() bool { return true }
