package requestguardextension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"otel-rl.example/otelcol-rl/extension/requestguardextension/internal/metadata"
)

// Reasons by which refused requests are counted.
const (
	tooDeep   = "nested_too_deep"
	tooLarge  = "too_large"
	misplaced = "wrong_signal_or_version"
	malformed = "malformed"
	noMemory  = "memory"
)

// guard is the extension; it is a middleware of HTTP and of gRPC servers.
type guard struct {
	component.ShutdownFunc
	maxDepth  int
	limiterID *component.ID
	limiter   memoryLimiter
	memory    *memory
	calls     calls
	refused   metric.Int64Counter
	logger    *zap.Logger
}

// memoryLimiter is what the extension memory_limiter says; it is read at each request.
type memoryLimiter interface{ MustRefuse() bool }

var (
	_ extensionmiddleware.HTTPServer              = (*guard)(nil)
	_ extensionmiddleware.GRPCServer              = (*guard)(nil)
	_ extensioncapabilities.ConfigSnapshotWatcher = (*guard)(nil)
)

// refusal is why a request is not decoded, in words that say what to do.
type refusal struct {
	reason, message string
}

func newGuard(config *Config, settings component.TelemetrySettings) (*guard, error) {
	telemetry, err := metadata.NewTelemetryBuilder(settings)
	if err != nil {
		return nil, err
	}
	return &guard{
		maxDepth: config.MaxDepth, limiterID: config.MemoryLimiter,
		refused: telemetry.RequestGuardRefusedRequests, logger: settings.Logger,
	}, nil
}

// Start finds the memory limiter; receivers start after all extensions.
func (g *guard) Start(_ context.Context, host component.Host) error {
	warnOfFewDescriptors(g.logger)
	if g.limiterID == nil {
		return nil
	}
	limiter, ok := host.GetExtensions()[*g.limiterID].(memoryLimiter)
	if !ok {
		return fmt.Errorf("memory_limiter: no extension %q that limits memory; name it under service::extensions", g.limiterID)
	}
	g.limiter = limiter
	return nil
}

// NotifyConfigSnapshot reads the limit of the memory limiter, which does not tell it. It comes before receivers start.
func (g *guard) NotifyConfigSnapshot(_ context.Context, snapshot extensioncapabilities.ConfigSnapshot) error {
	if g.limiterID == nil {
		return nil
	}
	limit, err := limitOf(*g.limiterID, snapshot.Effective())
	if err != nil {
		return err
	}
	g.memory = newMemory(limit)
	inflating.Store(g.memory)
	return nil
}

// memoryIsShort says whether a request has to be refused, and counts it then.
func (g *guard) memoryIsShort(ctx context.Context) bool {
	if g.limiter == nil || !g.limiter.MustRefuse() {
		return false
	}
	g.count(ctx, noMemory)
	return true
}

func (g *guard) count(ctx context.Context, reason string) {
	g.refused.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
}

func (g *guard) nestedTooDeep() *refusal {
	return &refusal{tooDeep, fmt.Sprintf(
		"an attribute value is nested in more than about %d maps and lists; send it flat, or as JSON text", g.maxDepth)}
}

// most is how much memory a request may take when it is decoded.
func (g *guard) most() int {
	if g.memory == nil {
		return math.MaxInt
	}
	return g.memory.decoded.total
}

// noRoom turns the error of a reservation into what the sender is told.
func (g *guard) noRoom(err error) *refusal {
	if errors.Is(err, errNeverFits) {
		return g.tooMuchMemory()
	}
	return &refusal{noMemory, shortOfMemory}
}

func (g *guard) tooMuchMemory() *refusal {
	return &refusal{tooLarge, fmt.Sprintf(
		"the request takes more memory, as it came or decoded, than the collector's limit of %d MiB leaves for one; export fewer spans, "+
			"records or points at a time (OTEL_BSP_MAX_EXPORT_BATCH_SIZE), or raise OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB", g.memory.limit>>20)}
}

// check returns why a request to this path or method is refused, or nil, and how much memory it takes when it is decoded.
// Where a receiver has another path than OTLP says, the request is looked at as one of each signal.
func (g *guard) check(target string, isJSON bool, body []byte) (memory int, refused *refusal) {
	if of := requestTo(target); of != nil {
		return g.checkMessage(of, isJSON, body)
	}
	for _, of := range []*messageType{tracesRequest, metricsRequest, logsRequest} {
		bytes, refused := g.checkMessage(of, isJSON, body)
		if refused != nil {
			return 0, refused
		}
		memory = max(memory, bytes)
	}
	return memory, nil
}

func (g *guard) checkMessage(of *messageType, isJSON bool, body []byte) (memory int, refused *refusal) {
	if isJSON {
		return g.checkJSON(of, body)
	}
	w := weighProtobuf(of, body, g.maxDepth, g.most())
	switch {
	case w.tooDeep:
		return 0, g.nestedTooDeep()
	case holdsGroup(body):
		return 0, &refusal{malformed, "the request has a group of fields (wire types 3 and 4), which OTLP has not; send OTLP protobuf"}
	case w.tooMuch():
		return 0, g.tooMuchMemory()
	}
	return w.bytes, nil
}

func (g *guard) checkJSON(of *messageType, body []byte) (memory int, refused *refusal) {
	w, misfit := weighJSON(of, body, g.maxDepth, g.most())
	switch {
	case w.tooDeep:
		return 0, g.nestedTooDeep()
	case len(body) > 0 && !json.Valid(body):
		return 0, malformedJSON(body)
	case w.tooMuch():
		return 0, g.tooMuchMemory()
	case misfit != "":
		return 0, &refusal{malformed, fmt.Sprintf("the request is no OTLP JSON: %s; send what the OTLP specification says of JSON", misfit)}
	}
	return w.bytes, nil
}

// malformedJSON says where a text stops being JSON. The decoder must not see it: it goes on after an error and recurses
// without a bracket.
func malformedJSON(body []byte) *refusal {
	var ignored json.RawMessage
	err := json.Unmarshal(body, &ignored)
	var place *json.SyntaxError
	if errors.As(err, &place) {
		return &refusal{malformed, fmt.Sprintf("the request is no JSON: %v (byte %d of %d); send whole OTLP JSON", err, place.Offset, len(body))}
	}
	return &refusal{malformed, fmt.Sprintf("the request is no JSON: %v; send whole OTLP JSON", err)}
}

// explainReadError turns the error of a body that is over the receiver's limit into what to do about it.
func explainReadError(err error) (*refusal, bool) {
	var limit *http.MaxBytesError
	if !errors.As(err, &limit) {
		return nil, false
	}
	return &refusal{tooLarge, fmt.Sprintf(
		"the request is larger than %d MiB; export fewer spans at a time (OTEL_BSP_MAX_EXPORT_BATCH_SIZE) or shorten "+
			"attributes (OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT)", limit.Limit>>20)}, true
}
