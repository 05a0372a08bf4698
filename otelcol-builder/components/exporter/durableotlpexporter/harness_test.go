package durableotlpexporter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configcompression"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"

	durable "otel-rl.example/otelcol-rl/exporter/durableotlpexporter"
	"otel-rl.example/otelcol-rl/exporter/durableotlpexporter/durableotlpgrpc"
	"otel-rl.example/otelcol-rl/exporter/durableotlpexporter/durableotlphttp"
)

// logLevel is that of the exporters under test.
var logLevel = zapcore.DebugLevel

const patience = 20 * time.Second

// backend is a real OTLP server: it keeps the names of the spans it took. The refusal decides about each request.
type backend struct {
	ptraceotlp.UnimplementedGRPCServer
	mu       sync.Mutex
	taken    []string
	requests int
	// http answers a request itself and says so, or lets it be taken.
	http func(http.ResponseWriter, *http.Request, []string) bool
	grpc func([]string) (ptraceotlp.ExportResponse, error)
}

func (b *backend) note(names []string) {
	b.taken = append(b.taken, names...)
}

func (b *backend) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(slices.Values(b.taken))
}

func (b *backend) seen() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests
}

func (b *backend) answerHTTP(answer func(http.ResponseWriter, *http.Request, []string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.http = answer
}

func (b *backend) answerGRPC(answer func([]string) (ptraceotlp.ExportResponse, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grpc = answer
}

func (b *backend) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	decoded := ptraceotlp.NewExportRequest()
	_ = decoded.UnmarshalProto(body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests++
	names := namesOf(decoded.Traces())
	if b.http == nil || !b.http(writer, request, names) {
		b.note(names)
	}
}

func (b *backend) Export(_ context.Context, request ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests++
	names := namesOf(request.Traces())
	if b.grpc != nil {
		if response, err := b.grpc(names); err != nil || response.PartialSuccess().RejectedSpans() > 0 {
			return response, err
		}
	}
	b.note(names)
	return ptraceotlp.NewExportResponse(), nil
}

func namesOf(data ptrace.Traces) []string {
	var names []string
	for _, resource := range data.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				names = append(names, span.Name())
			}
		}
	}
	return names
}

func spans(names ...string) ptrace.Traces {
	data := ptrace.NewTraces()
	resource := data.ResourceSpans().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "train")
	scope := resource.ScopeSpans().AppendEmpty()
	for _, name := range names {
		span := scope.Spans().AppendEmpty()
		span.SetName(name)
		span.SetEndTimestamp(pcommon.NewTimestampFromTime(time.Now()))
	}
	return data
}

func numbered(number int) []string {
	names := make([]string, number)
	for index := range names {
		names[index] = fmt.Sprintf("span-%05d", index)
	}
	return names
}

// host records what the exporter reports.
type host struct {
	mu     sync.Mutex
	events []*componentstatus.Event
}

func (h *host) GetExtensions() map[component.ID]component.Component { return nil }

func (h *host) Report(event *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

func (h *host) statuses() []componentstatus.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []componentstatus.Status
	for _, event := range h.events {
		found = append(found, event.Status())
	}
	return found
}

// bench is an exporter under test.
type bench struct {
	exporter.Traces
	t         *testing.T
	telemetry *componenttest.Telemetry
	logs      *observer.ObservedLogs
	letters   string
	host      *host
}

// once lets a test end the exporter before the end of the test does.
type once struct {
	exporter.Traces
	end func() error
}

func (o once) Shutdown(context.Context) error { return o.end() }

type tuning func(*durable.Durability, *queueing)

type queueing struct {
	size     int64
	bytes    bool
	endpoint string
	name     string
}

func quickly(config *durable.Durability) {
	config.UnhealthyAfter = time.Hour
	config.UnhealthyLag = 0
}

func start(t *testing.T, factory exporter.Factory, config component.Config, directory, name string) *bench {
	telemetry := componenttest.NewTelemetry()
	core, logs := observer.New(logLevel)
	set := exporter.Settings{ID: component.NewIDWithName(factory.Type(), name), TelemetrySettings: telemetry.NewTelemetrySettings()}
	set.Logger = zap.New(core)
	made, err := factory.CreateTraces(t.Context(), set, config)
	require.NoError(t, err)
	under := &bench{made, t, telemetry, logs, directory, &host{}}
	require.NoError(t, made.Start(context.Background(), under.host))
	under.Traces = once{Traces: made, end: sync.OnceValue(func() error { return made.Shutdown(context.Background()) })}
	t.Cleanup(func() { assert.NoError(t, under.Shutdown(context.Background())) })
	return under
}

func overHTTP(t *testing.T, server *backend, tunings ...tuning) *bench {
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	queue := &queueing{endpoint: listener.URL}
	factory := durableotlphttp.NewFactory()
	config := factory.CreateDefaultConfig().(*durableotlphttp.Config)
	config.Exporter.ClientConfig.Compression = configcompression.Type("none")
	config.Exporter.RetryConfig.InitialInterval = 5 * time.Millisecond
	config.Exporter.RetryConfig.MaxInterval = 10 * time.Millisecond
	config.Durability.DeadLetter.Directory = filepath.Join(t.TempDir(), "letters")
	quickly(&config.Durability)
	for _, tune := range tunings {
		tune(&config.Durability, queue)
	}
	config.Exporter.ClientConfig.Endpoint = queue.endpoint
	if queue.size > 0 {
		config.Exporter.QueueConfig.Get().QueueSize = queue.size
		config.Exporter.QueueConfig.Get().NumConsumers = 1
	}
	if queue.bytes {
		config.Exporter.QueueConfig.Get().Sizer = exporterhelper.RequestSizerTypeBytes
	}
	return start(t, factory, config, config.Durability.DeadLetter.Directory, queue.name)
}

func overGRPC(t *testing.T, server *backend, options ...grpc.ServerOption) *bench {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	service := grpc.NewServer(options...)
	ptraceotlp.RegisterGRPCServer(service, server)
	go func() { _ = service.Serve(listener) }()
	t.Cleanup(service.Stop)
	factory := durableotlpgrpc.NewFactory()
	config := factory.CreateDefaultConfig().(*durableotlpgrpc.Config)
	config.Exporter.ClientConfig.Endpoint = listener.Addr().String()
	config.Exporter.ClientConfig.TLS = configtls.ClientConfig{Insecure: true}
	config.Exporter.RetryConfig.InitialInterval = 5 * time.Millisecond
	config.Exporter.RetryConfig.MaxInterval = 10 * time.Millisecond
	config.Durability.DeadLetter.Directory = filepath.Join(t.TempDir(), "letters")
	quickly(&config.Durability)
	return start(t, factory, config, config.Durability.DeadLetter.Directory, "")
}

func (b *bench) send(names ...string) {
	b.t.Helper()
	require.NoError(b.t, b.ConsumeTraces(context.Background(), spans(names...)))
}

func (b *bench) eventually(condition func() bool, what string) {
	b.t.Helper()
	require.Eventually(b.t, condition, patience, 5*time.Millisecond, what)
}

// counted returns the value of one of the exporter's counters, of one reason when that is given.
func (b *bench) counted(name, reason string) int64 {
	metric, err := b.telemetry.GetMetric("otelcol_exporter_" + name)
	if err != nil {
		return 0
	}
	var total int64
	for _, point := range metric.Data.(metricdata.Sum[int64]).DataPoints {
		found, _ := point.Attributes.Value("reason")
		if reason == "" || found.AsString() == reason {
			total += point.Value
		}
	}
	return total
}

// gauge returns the value of one of the exporter's gauges.
func (b *bench) gauge(name string) float64 {
	metric, err := b.telemetry.GetMetric("otelcol_exporter_" + name)
	require.NoError(b.t, err)
	return metric.Data.(metricdata.Gauge[float64]).DataPoints[0].Value
}

type letter struct {
	DeadLetter struct {
		Reason, Error, Exporter string
		Items                   int
	} `json:"deadLetter"`
	names []string
}

// dead returns the dead letters that were written.
func (b *bench) dead() []letter {
	files, err := filepath.Glob(filepath.Join(b.letters, "*.jsonl"))
	require.NoError(b.t, err)
	var found []letter
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(b.t, err)
		for line := range strings.Lines(string(content)) {
			var one letter
			require.NoError(b.t, json.Unmarshal([]byte(line), &one))
			data, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces([]byte(line))
			require.NoError(b.t, err)
			one.names = namesOf(data)
			found = append(found, one)
		}
	}
	return found
}

func deadNames(letters []letter) []string {
	var names []string
	for _, one := range letters {
		names = append(names, one.names...)
	}
	return slices.Sorted(slices.Values(names))
}
