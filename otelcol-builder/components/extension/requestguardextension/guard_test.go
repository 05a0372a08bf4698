package requestguardextension

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func newTestGuard(t *testing.T) (*guard, *componenttest.Telemetry) {
	t.Helper()
	telemetry := componenttest.NewTelemetry()
	g, err := newGuard(&Config{MaxDepth: 40}, telemetry.NewTelemetrySettings())
	if err != nil {
		t.Fatal(err)
	}
	return g, telemetry
}

// served sends one request through the guard and returns the answer and what the handler behind it read.
func served(t *testing.T, g *guard, path, kind string, body io.Reader) (*httptest.ResponseRecorder, []byte) {
	t.Helper()
	var read []byte
	wrap, err := g.GetHTTPHandler(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	handler, err := wrap(context.Background(), http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		read, err = io.ReadAll(request.Body)
		if err != nil {
			http.Error(response, err.Error(), http.StatusTeapot)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, path, body)
	request.Header.Set("Content-Type", kind)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder, read
}

func TestGoodRequestsReachTheReceiverUnchanged(t *testing.T) {
	g, _ := newTestGuard(t)
	for kind, body := range map[string]string{
		protobufType:                      string(nestedProtobuf(3)),
		jsonType:                          string(nestedJSON(3)),
		"application/json; charset=utf-8": `{"resource_spans": []}`,
		"text/plain":                      "whatever the receiver says about it",
	} {
		answer, read := served(t, g, "/v1/traces", kind, strings.NewReader(body))
		if answer.Code != http.StatusOK || string(read) != body {
			t.Errorf("%s: %d %s, read %d of %d bytes", kind, answer.Code, answer.Body, len(read), len(body))
		}
	}
	if answer, _ := served(t, g, "/v1/traces", jsonType, strings.NewReader("{}")); answer.Code != http.StatusOK {
		t.Errorf("an empty request is refused: %s", answer.Body)
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	g, _ := newTestGuard(t)
	for name, c := range map[string]struct {
		path, kind, body, says string
		code                   int
	}{
		"deep protobuf":    {"/v1/traces", protobufType, string(nestedProtobuf(5000)), "send it flat", 400},
		"deep JSON":        {"/v1/traces", jsonType, string(nestedJSON(5000)), "send it flat", 400},
		"metrics":          {"/v1/traces", jsonType, `{"resourceMetrics": []}`, "send it to /v1/metrics", 400},
		"traces":           {"/v1/logs", jsonType, `{"resource_spans" : []}`, "send it to /v1/traces", 400},
		"old":              {"/v1/traces", jsonType, `{"resourceSpans":[{"instrumentationLibrarySpans":[]}]}`, "scopeSpans", 400},
		"something else":   {"/v1/metrics", jsonType, `{"spans": []}`, "no field resourceMetrics", 400},
		"over the maximum": {"/v1/traces", protobufType, strings.Repeat("x", 2<<20), "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 413},
	} {
		body := http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader(c.body)), 1<<20)
		answer, read := served(t, g, c.path, c.kind, body)
		if answer.Code != c.code || !strings.Contains(answer.Body.String(), c.says) || read != nil {
			t.Errorf("%s: %d %s", name, answer.Code, answer.Body)
		}
		if answer.Header().Get("Content-Type") != c.kind {
			t.Errorf("%s: answered in %s", name, answer.Header().Get("Content-Type"))
		}
	}
}

func TestTextThatOnlyNamesAnOldFieldPasses(t *testing.T) {
	g, _ := newTestGuard(t)
	body := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"instrumentationLibrarySpans","attributes":[{"key":"k",` +
		`"value":{"stringValue":"{\"instrumentationLibrarySpans\": []}"}}]}]}]}]}`
	if answer, _ := served(t, g, "/v1/traces", jsonType, strings.NewReader(body)); answer.Code != http.StatusOK {
		t.Errorf("refused: %s", answer.Body)
	}
}

func TestRefusalsAreCountedByReason(t *testing.T) {
	g, telemetry := newTestGuard(t)
	for range 3 {
		served(t, g, "/v1/traces", jsonType, bytes.NewReader(nestedJSON(5000)))
	}
	if _, err := telemetry.GetMetric("otelcol_request_guard_refused_requests"); err != nil {
		t.Error(err)
	}
}

func TestABodyThatBreaksOffIsTheReceiversToAnswer(t *testing.T) {
	g, _ := newTestGuard(t)
	broken := io.MultiReader(strings.NewReader("{"), failing{errors.New("gone")})
	if answer, _ := served(t, g, "/v1/traces", jsonType, broken); answer.Code != http.StatusTeapot {
		t.Errorf("answered %d", answer.Code)
	}
}

func TestOverGRPCWhatIsNoOTLPIsDecodedAsEver(t *testing.T) {
	codec, err := newKeepingCodec(&calls{})
	if err != nil {
		t.Fatal(err)
	}
	if codec.Name() != encoding.GetCodecV2("proto").Name() {
		t.Errorf("the codec is called %s", codec.Name())
	}
	good, err := codec.Marshal(structpb.NewStringValue("hello"))
	if err != nil {
		t.Fatal(err)
	}
	var read structpb.Value
	if err := codec.Unmarshal(good, &read); err != nil || read.GetStringValue() != "hello" {
		t.Errorf("%v %v", err, read.GetStringValue())
	}
}

func TestTheConfigurationIsChecked(t *testing.T) {
	if err := NewFactory().CreateDefaultConfig().(*Config).Validate(); err != nil {
		t.Error(err)
	}
	if err := (&Config{MaxDepth: 0}).Validate(); err == nil {
		t.Error("0 levels pass")
	}
}

func TestProfilesAreNotWeighedAsAnotherSignal(t *testing.T) {
	g, _ := newTestGuard(t)
	g.memory = newMemory(30 << 20)
	// As spans it would take 200 MiB.
	taken, refused := g.check("/v1development/profiles", false, bomb(1<<20))
	require.Nil(t, refused)
	require.Equal(t, aroundRequest, taken)
	taken, refused = g.check("/v1development/profiles", true, bytes.ReplaceAll(bombInJSON(1<<20), []byte("Spans"), []byte("Profiles")))
	require.Nil(t, refused)
	require.Equal(t, aroundRequest, taken)
	_, refused = g.check("/v1development/profiles", true, nestedJSON(mostLevels))
	require.Equal(t, tooDeep, refused.reason)
}
