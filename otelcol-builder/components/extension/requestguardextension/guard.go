package requestguardextension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"otel-rl.example/otelcol-rl/extension/requestguardextension/internal/metadata"
)

// Reasons by which refused requests are counted.
const (
	tooDeep   = "nested_too_deep"
	tooLarge  = "too_large"
	misplaced = "wrong_signal_or_version"
	malformed = "malformed"
)

// guard is the extension; it is a middleware of HTTP and of gRPC servers.
type guard struct {
	component.StartFunc
	component.ShutdownFunc
	maxDepth int
	refused  metric.Int64Counter
}

var (
	_ extensionmiddleware.HTTPServer = (*guard)(nil)
	_ extensionmiddleware.GRPCServer = (*guard)(nil)
)

// refusal is why a request is not decoded, in words that say what to do.
type refusal struct {
	reason, message string
}

func (r *refusal) Error() string { return r.message }

func newGuard(config *Config, settings component.TelemetrySettings) (*guard, error) {
	telemetry, err := metadata.NewTelemetryBuilder(settings)
	if err != nil {
		return nil, err
	}
	return &guard{maxDepth: config.MaxDepth, refused: telemetry.RequestGuardRefusedRequests}, nil
}

func (g *guard) count(ctx context.Context, reason string) {
	g.refused.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
}

func (g *guard) nestedTooDeep() *refusal {
	return &refusal{tooDeep, fmt.Sprintf(
		"an attribute value is nested in more than about %d maps and lists; send it flat, or as JSON text", g.maxDepth)}
}

// checkBody returns why the body of an OTLP/HTTP request is refused, or nil.
func (g *guard) checkBody(path string, isJSON bool, body []byte) *refusal {
	if !isJSON {
		return g.checkProtobuf(body)
	}
	if jsonTooDeep(body, g.maxDepth) {
		return g.nestedTooDeep()
	}
	if len(body) > 0 && !json.Valid(body) {
		return malformedJSON(body)
	}
	if message := wrongSignal(path, body); message != "" {
		return &refusal{misplaced, message}
	}
	return nil
}

// checkProtobuf returns why an encoded request is refused, over HTTP and over gRPC, or nil.
func (g *guard) checkProtobuf(body []byte) *refusal {
	if protobufTooDeep(body, g.maxDepth) {
		return g.nestedTooDeep()
	}
	if holdsGroup(body) {
		return &refusal{malformed, "the request has a group of fields (wire types 3 and 4), which OTLP has not; send OTLP protobuf"}
	}
	return nil
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

// GetGRPCServerOptions replaces the codec of the server by one that looks first.
func (g *guard) GetGRPCServerOptions(context.Context) ([]grpc.ServerOption, error) {
	codec, err := newGuardedCodec(g)
	if err != nil {
		return nil, err
	}
	return []grpc.ServerOption{grpc.ForceServerCodecV2(codec)}, nil
}
