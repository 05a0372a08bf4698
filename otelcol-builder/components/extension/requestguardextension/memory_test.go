package requestguardextension

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"otel-rl.example/otelcol-rl/extension/requestguardextension/internal/metadatatest"
)

func TestWhileMemoryIsShortARequestIsRefusedAndCounted(t *testing.T) {
	g, telemetry := newTestGuard(t)
	short := &limiter{}
	short.refuses.Store(true)
	g.limiterID = &limiterID
	require.NoError(t, g.Start(t.Context(), guardedHost{g, short}))
	for _, kind := range []string{protobufType, jsonType} {
		body := strings.NewReader("not even OTLP")
		answer, decoded := served(t, g, "/v1/traces", kind, body)
		require.Empty(t, decoded)
		require.Zero(t, body.Len(), "a sender that is not heard to the end does not get the answer")
		require.Equal(t, http.StatusServiceUnavailable, answer.Code)
		require.Contains(t, answer.Body.String(), shortOfMemory)
	}
	_, err := g.tap(t.Context(), nil)
	require.Equal(t, codes.Unavailable, status.Code(err))
	metadatatest.AssertEqualRequestGuardRefusedRequests(t, telemetry, []metricdata.DataPoint[int64]{
		{Value: 3, Attributes: attribute.NewSet(attribute.String("reason", noMemory))},
	}, metricdatatest.IgnoreTimestamp())
}

func TestTheReceiverTakesDataAgainWhenMemoryIsBack(t *testing.T) {
	g := behindGuard(t)
	large := nestedProtobuf(3)
	for _, refuses := range []bool{false, true, false} {
		g.limiter.refuses.Store(refuses)
		code, answer := g.post(t, "/v1/traces", protobufType, "gzip", compressed("gzip", large))
		err := g.export(t, large)
		if refuses {
			require.Equal(t, http.StatusServiceUnavailable, code)
			require.Contains(t, answer, shortOfMemory)
			// A code after which OTLP senders try again, unlike RESOURCE_EXHAUSTED without a delay.
			require.Equal(t, codes.Unavailable, status.Code(err))
			continue
		}
		require.Equal(t, http.StatusOK, code)
		require.NoError(t, err)
	}
	require.Equal(t, 4, g.received.SpanCount())
}

func TestAMemoryLimiterThatIsNotThereStopsTheStart(t *testing.T) {
	for name, extensions := range map[string]component.Component{"none": nil, "another": &guard{}} {
		g, err := newGuard(&Config{MaxDepth: 40, MemoryLimiter: &limiterID}, componenttest.NewNopTelemetrySettings())
		require.NoError(t, err)
		err = g.Start(t.Context(), guardedHost{g, extensions})
		require.Error(t, err, name)
		require.True(t, strings.Contains(err.Error(), "service::extensions"), err)
	}
}
