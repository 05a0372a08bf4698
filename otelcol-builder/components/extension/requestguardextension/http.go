package requestguardextension

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"sync"

	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const jsonType, protobufType = "application/json", "application/x-protobuf"

// bodies holds buffers between requests; the receiver copies what it reads from them.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// largestKept is the size above which a buffer is given back to the system.
const largestKept = 4 << 20

// GetHTTPHandler returns the wrapper; the collector runs it after authentication and decompression.
func (g *guard) GetHTTPHandler(context.Context) (extensionmiddleware.WrapHTTPHandlerFunc, error) {
	return func(_ context.Context, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
			g.serve(response, request, next)
		}), nil
	}, nil
}

func (g *guard) serve(response http.ResponseWriter, request *http.Request, next http.Handler) {
	kind, _, _ := mime.ParseMediaType(request.Header.Get("Content-Type"))
	if request.Method != http.MethodPost || (kind != jsonType && kind != protobufType) {
		next.ServeHTTP(response, request) // the receiver answers these well
		return
	}
	buffer := bodies.Get().(*bytes.Buffer)
	buffer.Reset()
	defer func() {
		if buffer.Cap() <= largestKept {
			bodies.Put(buffer)
		}
	}()
	_, err := buffer.ReadFrom(request.Body)
	refused, explained := explainReadError(err)
	switch {
	case explained:
	case err != nil:
		// What could be read, and the same error again: the receiver answers it.
		request.Body = io.NopCloser(io.MultiReader(bytes.NewReader(buffer.Bytes()), failing{err}))
	default:
		refused = g.checkBody(request.URL.Path, kind == jsonType, buffer.Bytes())
		request.Body = io.NopCloser(bytes.NewReader(buffer.Bytes()))
	}
	if refused != nil {
		g.count(request.Context(), refused.reason)
		answer(response, kind, refused)
		return
	}
	next.ServeHTTP(response, request)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// answer writes the status as OTLP/HTTP wants it: in the encoding of the request. Senders do not try again.
func answer(response http.ResponseWriter, kind string, refused *refusal) {
	code := http.StatusBadRequest
	if refused.reason == tooLarge {
		code = http.StatusRequestEntityTooLarge
	}
	said := status.New(codes.InvalidArgument, refused.message).Proto()
	var body []byte
	if kind == jsonType {
		body, _ = json.Marshal(map[string]any{"code": said.GetCode(), "message": said.GetMessage()})
	} else {
		body, _ = proto.Marshal(said)
	}
	response.Header().Set("Content-Type", kind)
	response.WriteHeader(code)
	_, _ = response.Write(body)
}
