package durableotlpexporter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Answers that are no HTTP status codes.
const (
	webPage    = -1
	redirected = -2
)

// watcherID names the client middleware that watches the answers. It is no extension of the collector: only the stock exporter
// inside sees it.
var watcherID = component.MustNewIDWithName("durable_otlp", "answers")

// WatchAnswers is the middleware entry that the stock exporters need, so that their answers can be told apart and read.
func WatchAnswers() configmiddleware.Config { return configmiddleware.Config{ID: watcherID} }

type answerKey struct{}

// withAnswer returns a context under which a request leaves its answer in the integer.
func withAnswer(ctx context.Context) (context.Context, *int) {
	answer := new(int)
	return context.WithValue(ctx, answerKey{}, answer), answer
}

// watchedHost is the collector as the stock exporter inside sees it: with one more extension.
type watchedHost struct {
	component.Host
	watcher answerWatcher
}

func (h watchedHost) GetExtensions() map[component.ID]component.Component {
	extensions := maps.Clone(h.Host.GetExtensions())
	if extensions == nil {
		extensions = map[component.ID]component.Component{}
	}
	extensions[watcherID] = h.watcher
	return extensions
}

type answerWatcher struct {
	component.StartFunc
	component.ShutdownFunc
	// rejected reads a successful answer, which may say that items were dropped all the same.
	rejected func(answer []byte, isJSON bool)
}

var (
	_ extensionmiddleware.HTTPClient = answerWatcher{}
	_ extensionmiddleware.GRPCClient = answerWatcher{}
)

// GetGRPCClientOptions makes the client read each answer with one more look at its bytes.
func (w answerWatcher) GetGRPCClientOptions(context.Context) ([]grpc.DialOption, error) {
	registered := encoding.GetCodecV2(proto.Name)
	if registered == nil {
		return nil, errors.New("gRPC has no codec for protobuf")
	}
	return []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.ForceCodecV2(answerCodec{registered, w.rejected}))}, nil
}

// answerCodec is the codec that is registered for protobuf, the collector's, and looks at what it decodes: answers only.
type answerCodec struct {
	encoding.CodecV2
	rejected func(answer []byte, isJSON bool)
}

// Unmarshal decodes an answer.
func (c answerCodec) Unmarshal(data mem.BufferSlice, into any) error {
	if size := data.Len(); size > 0 && size <= longestAnswer {
		c.rejected(data.Materialize(), false)
	}
	return c.CodecV2.Unmarshal(data, into)
}

// GetHTTPRoundTripper returns the watcher of one client.
func (w answerWatcher) GetHTTPRoundTripper(context.Context) (extensionmiddleware.WrapHTTPRoundTripperFunc, error) {
	return func(_ context.Context, next http.RoundTripper) (http.RoundTripper, error) {
		return answerRecorder{next, w.rejected}, nil
	}, nil
}

type answerRecorder struct {
	next     http.RoundTripper
	rejected func(answer []byte, isJSON bool)
}

// longestAnswer is how much the stock exporter reads of an answer.
const longestAnswer = 64 << 10

// RoundTrip records the answer, and refuses two that look like a success but are none: a redirect that turned the request
// into one without a body, and a web page (of a log-in proxy, say) where OTLP was to be answered.
func (r answerRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, _ := request.Context().Value(answerKey{}).(*int)
	if answer == nil {
		answer = new(int)
	}
	if request.Method != http.MethodPost {
		*answer = redirected
		return nil, errors.New("the endpoint redirects to " + request.URL.Redacted() + ", where data cannot be sent to")
	}
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	*answer = response.StatusCode
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode < 300 && kind == "text/html" {
		*answer = webPage
		_ = response.Body.Close()
		return nil, errors.New("the endpoint answers with a web page")
	}
	if response.StatusCode < 300 && (kind == "application/x-protobuf" || kind == "application/json") {
		r.read(response, kind == "application/json")
	}
	return response, nil
}

// read looks at the answer and leaves it to be read again; after an error the body gives the same one once more.
func (r answerRecorder) read(response *http.Response, isJSON bool) {
	start, _ := io.ReadAll(io.LimitReader(response.Body, longestAnswer))
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), response.Body), response.Body}
	r.rejected(start, isJSON)
}
