package requestguardextension

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
)

var guardID, limiterID = component.MustNewID("request_guard"), component.MustNewID("memory_limiter")

type guardedHost struct{ guard, limiter component.Component }

func (h guardedHost) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{guardID: h.guard, limiterID: h.limiter}
}

// limiter stands for the extension memory_limiter: the test says when memory is short.
type limiter struct {
	component.StartFunc
	component.ShutdownFunc
	refuses atomic.Bool
}

func (l *limiter) MustRefuse() bool { return l.refuses.Load() }

// guarded is the stock OTLP receiver with the guard before it.
type guarded struct {
	http     http.Client
	grpc     *grpc.ClientConn
	received *writing
	limiter  *limiter
	guard    *guard
}

// writing is the end of the pipeline, which keeps what it gets, or only writes it as JSON.
type writing struct {
	consumertest.TracesSink
	writes bool
}

// ConsumeTraces does to a request what the file exporter does.
func (w *writing) ConsumeTraces(ctx context.Context, traces ptrace.Traces) error {
	if !w.writes {
		return w.TracesSink.ConsumeTraces(ctx, traces)
	}
	_, err := new(ptrace.JSONMarshaler).MarshalTraces(traces)
	return err
}

// behindGuard starts the stock receiver on two sockets in a folder, with a memory limit that is far.
func behindGuard(t testing.TB) *guarded {
	t.Helper()
	return behindGuardOf(t, 600)
}

func behindGuardOf(t testing.TB, limitMiB int) *guarded {
	t.Helper()
	g, err := newGuard(&Config{MaxDepth: testDepth, MemoryLimiter: &limiterID}, componenttest.NewNopTelemetrySettings())
	fatal(t, err)
	host := guardedHost{g, &limiter{}}
	fatal(t, g.Start(t.Context(), host))
	fatal(t, g.NotifyConfigSnapshot(t.Context(), configuration("memory_limiter", map[string]any{"limit_mib": limitMiB})))
	folder := t.TempDir()
	overHTTP, overGRPC := filepath.Join(folder, "http"), filepath.Join(folder, "grpc")
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	middlewares := []configmiddleware.Config{{ID: guardID}}
	serverHTTP := config.Protocols.HTTP.GetOrInsertDefault()
	serverHTTP.ServerConfig.NetAddr = confignet.AddrConfig{Endpoint: overHTTP, Transport: confignet.TransportTypeUnix}
	serverHTTP.ServerConfig.Middlewares = middlewares
	serverGRPC := config.Protocols.GRPC.GetOrInsertDefault()
	serverGRPC.NetAddr = confignet.AddrConfig{Endpoint: overGRPC, Transport: confignet.TransportTypeUnix}
	serverGRPC.Middlewares = middlewares
	sink := &writing{}
	startReceiver(t, factory, config, sink, host)
	connection, err := grpc.NewClient("unix://"+overGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{})))
	fatal(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", overHTTP)
	}
	return &guarded{http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}, connection, sink, host.limiter.(*limiter), g}
}

// configuration is that of a collector with one extension.
func configuration(extension string, settings map[string]any) extensioncapabilities.ConfigSnapshot {
	conf := confmap.NewFromStringMap(map[string]any{"extensions": map[string]any{extension: settings}})
	return extensioncapabilities.NewConfigSnapshot(conf, conf)
}

func startReceiver(t testing.TB, factory receiver.Factory, config component.Config, next consumer.Traces, host component.Host) {
	t.Helper()
	settings := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	made, err := factory.CreateTraces(context.Background(), settings, config, next)
	fatal(t, err)
	fatal(t, made.Start(context.Background(), host))
	t.Cleanup(func() { _ = made.Shutdown(context.Background()) })
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bytesCodec sends what it is given.
type bytesCodec struct{}

func (bytesCodec) Marshal(value any) ([]byte, error) { return value.([]byte), nil }
func (bytesCodec) Unmarshal([]byte, any) error       { return nil }
func (bytesCodec) Name() string                      { return "proto" }

// post returns the status of one request and its answer.
func (g *guarded) post(t testing.TB, path, kind, encoding string, body []byte) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://guarded"+path, bytes.NewReader(body))
	fatal(t, err)
	request.Header.Set("Content-Type", kind)
	if encoding != "" {
		request.Header.Set("Content-Encoding", encoding)
	}
	response, err := g.http.Do(request)
	fatal(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	fatal(t, err)
	return response.StatusCode, string(answer)
}

func (g *guarded) export(t testing.TB, body []byte, options ...grpc.CallOption) error {
	t.Helper()
	return g.grpc.Invoke(t.Context(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export", body, new([]byte), options...)
}

func compressed(encoding string, body []byte) []byte {
	var into bytes.Buffer
	var writer io.WriteCloser
	switch encoding {
	case "gzip":
		writer = gzip.NewWriter(&into)
	case "deflate":
		writer = zlib.NewWriter(&into)
	default:
		return body
	}
	_, _ = writer.Write(body)
	_ = writer.Close()
	return into.Bytes()
}

func TestTheReceiverOutlivesRequestsThatWouldTakeItsStack(t *testing.T) {
	g := behindGuard(t)
	for name, body := range map[string][]byte{
		"nested":                nestedProtobuf(mostLevels),
		"behind an empty group": append([]byte{0x7b, 0x7c}, nestedProtobuf(mostLevels)...),
		"behind groups inside":  disguised([]byte{0x7b, 0x7c}, mostLevels),
	} {
		for _, encoding := range []string{"", "gzip", "deflate"} {
			if code, answer := g.post(t, "/v1/traces", protobufType, encoding, compressed(encoding, body)); code != http.StatusBadRequest {
				t.Errorf("%s %s: %d %s", name, encoding, code, answer)
			}
		}
		if code := status.Code(g.export(t, body)); code != codes.InvalidArgument {
			t.Errorf("%s over gRPC: %v", name, code)
		}
		if code := status.Code(g.export(t, body, grpc.UseCompressor("gzip"))); code != codes.InvalidArgument {
			t.Errorf("%s over gRPC, compressed: %v", name, code)
		}
	}
	for _, body := range []string{string(nestedJSON(mostLevels)), valueInJSON + strings.Repeat(`,"arrayValue":,"values":,`, mostLevels)} {
		for _, encoding := range []string{"", "gzip", "deflate"} {
			if code, answer := g.post(t, "/v1/traces", jsonType, encoding, compressed(encoding, []byte(body))); code != http.StatusBadRequest {
				t.Errorf("JSON %s: %d %s", encoding, code, answer)
			}
		}
	}
	if code, answer := g.post(t, "/v1/traces", protobufType, "gzip", compressed("gzip", nestedProtobuf(3))); code != http.StatusOK {
		t.Errorf("a good request afterwards: %d %s", code, answer)
	}
	if err := g.export(t, nestedProtobuf(3), grpc.UseCompressor("gzip")); err != nil {
		t.Errorf("a good request afterwards: %v", err)
	}
	if g.received.SpanCount() != 2 {
		t.Errorf("%d spans arrived", g.received.SpanCount())
	}
}

// otherCodec names another encoding, which gRPC puts into the content type.
type otherCodec struct{ bytesCodec }

func (otherCodec) Name() string { return "json" }

func TestTheGuardDecodesWhateverEncodingAGRPCRequestNames(t *testing.T) {
	g := behindGuard(t)
	deep := g.export(t, append([]byte{0x7b, 0x7c}, nestedProtobuf(mostLevels)...), grpc.ForceCodec(otherCodec{}))
	if status.Code(deep) != codes.InvalidArgument {
		t.Errorf("%v", deep)
	}
	if err := g.export(t, nestedProtobuf(3), grpc.ForceCodec(otherCodec{})); err != nil || g.received.SpanCount() != 1 {
		t.Errorf("%v, %d spans", err, g.received.SpanCount())
	}
}

// FuzzTheReceiverOverHTTP sends any body in any content type and compression: each is answered.
func FuzzTheReceiverOverHTTP(f *testing.F) {
	kinds, encodings := []string{protobufType, jsonType, jsonType + "; charset=utf-8", "text/plain"}, []string{"", "gzip", "deflate"}
	f.Add(nestedProtobuf(3), []byte{0x7b, 0x7c}, uint16(2000), byte(0), byte(1), true)
	f.Add(nestedJSON(3), []byte{}, uint16(0), byte(1), byte(2), true)
	f.Add([]byte(`{"resourceSpans": [`), []byte(`,"arrayValue":,"values":,`), uint16(2000), byte(1), byte(0), true)
	f.Add([]byte("\x1f\x8b\x08\x00"), []byte{}, uint16(0), byte(0), byte(1), false)
	g := behindGuard(f)
	f.Fuzz(func(t *testing.T, body, repeated []byte, times uint16, kind, encoding byte, compress bool) {
		if len(body) > 4096 || len(repeated) > 64 {
			t.Skip()
		}
		body = append(bytes.Clone(body), bytes.Repeat(repeated, int(times)%mostLevels)...)
		encodingName := encodings[int(encoding)%len(encodings)]
		if compress {
			body = compressed(encodingName, body)
		}
		code, answer := g.post(t, "/v1/traces", kinds[int(kind)%len(kinds)], encodingName, body)
		// otlpreceiver v0.158.0 (errorhandler) answers a body that does not decompress so, where no content type of OTLP is given.
		if code == http.StatusInternalServerError && strings.Contains(answer, "failed to marshal error message") {
			return
		}
		if code != 200 && code != 400 && code != 413 && code != 415 {
			t.Errorf("%d %s", code, answer)
		}
		g.received.Reset()
	})
}

// FuzzTheReceiverOverGRPC does the same over gRPC, plain and compressed.
func FuzzTheReceiverOverGRPC(f *testing.F) {
	f.Add([]byte{0x7b, 0x7c}, []byte{}, uint16(2000), true)
	f.Add([]byte{}, nestedProtobuf(3), uint16(3), false)
	g := behindGuard(f)
	f.Fuzz(func(t *testing.T, before, after []byte, levels uint16, compress bool) {
		if len(before) > 64 || len(after) > 4096 {
			t.Skip()
		}
		var options []grpc.CallOption
		if compress {
			options = append(options, grpc.UseCompressor("gzip"))
		}
		err := g.export(t, append(disguised(before, int(levels)%mostLevels), after...), options...)
		if code := status.Code(err); code != codes.OK && code != codes.InvalidArgument && code != codes.ResourceExhausted {
			t.Error(err)
		}
		g.received.Reset()
	})
}
