package tracebudgetextension

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor/pkg/samplingpolicy"
)

func newExtension(t *testing.T, config Config, now func() time.Time) *traceBudget {
	t.Helper()
	settings := component.TelemetrySettings{MeterProvider: noop.NewMeterProvider()}
	extension, err := newTraceBudget(settings, &config, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := extension.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return extension
}

func newPolicy(t *testing.T, extension *traceBudget, values map[string]any) samplingpolicy.Evaluator {
	t.Helper()
	evaluator, err := extension.NewEvaluator("rest", values)
	if err != nil {
		t.Fatal(err)
	}
	return evaluator
}

func keeps(t *testing.T, evaluator samplingpolicy.Evaluator, id pcommon.TraceID) bool {
	t.Helper()
	decision, err := evaluator.Evaluate(context.Background(), id, &samplingpolicy.TraceData{SpanCount: 4})
	if err != nil {
		t.Fatal(err)
	}
	return decision == samplingpolicy.Sampled
}

// traceIDs are the same in every run; both halves are random as in ids of the SDKs and in our hashes.
func traceIDs(number int) []pcommon.TraceID {
	source := rand.New(rand.NewPCG(1, 2))
	ids := make([]pcommon.TraceID, number)
	for index := range ids {
		binary.BigEndian.PutUint64(ids[index][:8], source.Uint64())
		binary.BigEndian.PutUint64(ids[index][8:], source.Uint64())
	}
	return ids
}

func share(percentage any) map[string]any { return map[string]any{"percentage": percentage} }

func TestWhatIsKeptAtALowerShareIsKeptAtEveryHigherOne(t *testing.T) {
	extension := newExtension(t, Config{Gateways: 1, Window: window}, newClock().now)
	shares := []float64{0, 0.001, 0.5, 1, 10, 33.3, 50, 99.9, 100}
	ids := traceIDs(5000)
	var lower map[pcommon.TraceID]bool
	for _, percentage := range shares {
		policy := newPolicy(t, extension, share(percentage))
		kept := map[pcommon.TraceID]bool{}
		for _, id := range ids {
			if keeps(t, policy, id) {
				kept[id] = true
			}
		}
		for id := range lower {
			if !kept[id] {
				t.Fatalf("%v is not kept at %v %% but at the share below", id, percentage)
			}
		}
		expected := percentage / 100 * float64(len(ids))
		if difference := float64(len(kept)) - expected; difference > 150 || difference < -150 {
			t.Fatalf("%d of %d kept at %v %%", len(kept), len(ids), percentage)
		}
		lower = kept
	}
}

func TestABudgetKeepsOnlyTracesThatTheFullShareWouldKeepToo(t *testing.T) {
	full := newPolicy(t, newExtension(t, Config{Gateways: 1, Window: window}, newClock().now), share(50))
	tight := Config{SpansPerSecond: 10, Gateways: 1, Window: window}
	lowered := newPolicy(t, newExtension(t, tight, newClock().now), share(50))
	kept, keptInFull := 0, 0
	for _, id := range traceIDs(5000) {
		inFull := keeps(t, full, id)
		inLowered := keeps(t, lowered, id)
		if inLowered && !inFull {
			t.Fatalf("%v is kept only with a budget", id)
		}
		if inLowered {
			kept++
		}
		if inFull {
			keptInFull++
		}
	}
	if kept == 0 || kept*5 > keptInFull {
		t.Fatalf("%d kept with the budget, %d without", kept, keptInFull)
	}
}

func TestTwoGatewaysDecideAlikeForEveryTraceID(t *testing.T) {
	config := Config{Gateways: 2, Window: window}
	first := newPolicy(t, newExtension(t, config, newClock().now), share(25))
	second := newPolicy(t, newExtension(t, config, newClock().now), share(25))
	for _, id := range traceIDs(5000) {
		if keeps(t, first, id) != keeps(t, second, id) {
			t.Fatalf("they differ at %v", id)
		}
	}
}

func TestGatewaysShareTheBudgetEvenly(t *testing.T) {
	alone := newExtension(t, Config{SpansPerSecond: 100, Gateways: 1, Window: window}, newClock().now)
	oneOfFour := newExtension(t, Config{SpansPerSecond: 100, Gateways: 4, Window: window}, newClock().now)
	if alone.budget.allowance != 4*oneOfFour.budget.allowance {
		t.Fatalf("%v and %v", alone.budget.allowance, oneOfFour.budget.allowance)
	}
}

func TestTheLow56BitsOfTheTraceIDDecide(t *testing.T) {
	extension := newExtension(t, Config{Gateways: 1, Window: window}, newClock().now)
	half := newPolicy(t, extension, share(50))
	low := pcommon.TraceID{15: 1}
	high := pcommon.TraceID{9: 0x80}
	unread := pcommon.TraceID{0: 0xff, 8: 0xff, 15: 1}
	if keeps(t, half, low) || !keeps(t, half, high) || keeps(t, half, unread) {
		t.Fatal("not the randomness of W3C trace context level 2")
	}
}

func TestAlwaysKeepsWhateverTheBudgetSays(t *testing.T) {
	extension := newExtension(t, Config{SpansPerSecond: 1, Gateways: 1, Window: window}, newClock().now)
	always := newPolicy(t, extension, map[string]any{"always": true})
	rest := newPolicy(t, extension, share(100))
	for _, id := range traceIDs(100) {
		if !keeps(t, always, id) {
			t.Fatalf("%v was let go", id)
		}
	}
	for _, id := range traceIDs(100) {
		if keeps(t, rest, id) {
			t.Fatalf("%v was kept although the budget is used up", id)
		}
	}
}

func TestPoliciesThatSayNothingOrNonsenseAreRefusedWithTheReason(t *testing.T) {
	extension := newExtension(t, Config{Gateways: 1, Window: window}, newClock().now)
	for expected, values := range map[string]map[string]any{
		"either percentage or always": {},
		"give 0 to 100":               {"percentage": 101},
		"percentagee":                 {"percentagee": 1},
		`policy "rest"`:               {"percentage": -1},
	} {
		_, err := extension.NewEvaluator("rest", values)
		if err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%v: %v", values, err)
		}
	}
	if _, err := extension.NewEvaluator("rest", map[string]any{"percentage": 1, "always": true}); err == nil {
		t.Error("percentage and always together are accepted")
	}
}

func TestConfigurationsWithoutMeaningAreRefused(t *testing.T) {
	for expected, config := range map[string]Config{
		"spans_per_second": {SpansPerSecond: -1, Gateways: 1, Window: window},
		"gateways":         {Gateways: 0, Window: window},
		"window":           {Gateways: 1},
	} {
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%+v: %v", config, err)
		}
	}
	config := NewFactory().CreateDefaultConfig().(*Config)
	if err := config.Validate(); err != nil {
		t.Error(err)
	}
}

func TestPoliciesMayDecideAtTheSameTime(t *testing.T) {
	extension := newExtension(t, Config{SpansPerSecond: 10, Gateways: 1, Window: window}, newClock().now)
	rest := newPolicy(t, extension, share(50))
	always := newPolicy(t, extension, map[string]any{"always": true})
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for _, id := range traceIDs(200) {
				for _, policy := range []samplingpolicy.Evaluator{rest, always} {
					if _, err := policy.Evaluate(context.Background(), id, &samplingpolicy.TraceData{SpanCount: 4}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	running.Wait()
	if fixed := extension.budget.fixed; fixed != 4*200*4 {
		t.Fatalf("%v spans counted", fixed)
	}
}

func BenchmarkDecision(b *testing.B) {
	settings := component.TelemetrySettings{MeterProvider: noop.NewMeterProvider()}
	extension, err := newTraceBudget(settings, &Config{SpansPerSecond: 1000, Gateways: 1, Window: window}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	policy, err := extension.NewEvaluator("rest", share(10))
	if err != nil {
		b.Fatal(err)
	}
	ids := traceIDs(1024)
	trace := &samplingpolicy.TraceData{SpanCount: 4}
	for index := range b.N {
		if _, err := policy.Evaluate(context.Background(), ids[index%len(ids)], trace); err != nil {
			b.Fatal(err)
		}
	}
}
