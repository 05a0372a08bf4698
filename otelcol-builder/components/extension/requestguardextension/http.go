package requestguardextension

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
var bodies = sync.Pool{New: func() any { return new([]byte) }}

const (
	// shortOfMemory is the answer while the memory limiter refuses, or other requests hold the memory.
	shortOfMemory = "the collector is short of memory; try again later"
	// retryAfter is when senders try again, in seconds.
	retryAfter = "1"
)

const (
	// smallestRead is what a request holds at least.
	smallestRead = 16 << 10
	// largestKept is the size above which a buffer is given back to the system: a small request that gets it reserves all of it.
	largestKept = 256 << 10
	// largestAnnounced bounds what is reserved for an announced Content-Length: the longest request that a gateway takes.
	largestAnnounced = 20 << 20
)

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
	received, decoded := g.memory.holding()
	defer received.release()
	defer decoded.release()
	buffer := bodies.Get().(*[]byte)
	defer func() {
		if cap(*buffer) <= largestKept {
			bodies.Put(buffer)
		}
	}()
	if refused := g.admit(request, kind == jsonType, &received, &decoded, buffer); refused != nil {
		received.release()
		decoded.release()
		*buffer = nil
		// Read and not kept: else the connection is closed under the sender, who does not get the answer.
		_, _ = io.Copy(io.Discard, request.Body)
		answer(response, kind, refused)
		return
	}
	next.ServeHTTP(response, request)
}

// admit reads a request into the buffer, and reserves what it takes. It returns why it is refused, or nil. Refusals are
// counted.
func (g *guard) admit(request *http.Request, isJSON bool, received, decoded *reservation, buffer *[]byte) *refusal {
	if g.memoryIsShort(request.Context()) {
		return &refusal{noMemory, shortOfMemory}
	}
	refused := g.read(request, isJSON, received, decoded, buffer)
	if refused != nil {
		g.count(request.Context(), refused.reason)
	}
	return refused
}

func (g *guard) read(request *http.Request, isJSON bool, received, decoded *reservation, buffer *[]byte) *refusal {
	body, err := readReserved(request.Context(), received, request.Body, (*buffer)[:0], request.ContentLength)
	*buffer = body
	if refused, explained := g.explain(err); explained {
		return refused
	}
	if err != nil {
		// What could be read, and the same error again: the receiver answers it.
		request.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
		return nil
	}
	taken, refused := g.check(request.URL.Path, isJSON, body)
	if refused == nil && isJSON {
		refused = misplacedJSON(request.URL.Path, body)
	}
	if refused != nil {
		return refused
	}
	// The receiver reads a copy of the body, and decodes that.
	if err := decoded.grow(request.Context(), len(body)+taken); err != nil {
		return g.noRoom(err)
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// explain returns the refusal for an error of reading that the receiver would not explain.
func (g *guard) explain(err error) (*refusal, bool) {
	if errors.Is(err, errNeverFits) || errors.Is(err, errNoRoom) {
		return g.noRoom(err), true
	}
	return explainReadError(err)
}

// readReserved appends all of a body to a buffer. What the buffer grows by is reserved before: at once what the sender
// announces, which is -1 for compressed and chunked bodies.
func readReserved(ctx context.Context, held *reservation, from io.Reader, buffer []byte, announced int64) ([]byte, error) {
	// One more byte, so that the end of the body is seen without more room.
	size := max(cap(buffer), smallestRead, int(min(announced+1, largestAnnounced)))
	if err := held.grow(ctx, size); err != nil {
		return buffer, err
	}
	if cap(buffer) < size {
		buffer = make([]byte, 0, size)
	}
	for {
		read, err := from.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+read]
		if err == io.EOF {
			return buffer, nil
		}
		if err != nil {
			return buffer, err
		}
		if len(buffer) < cap(buffer) {
			continue
		}
		larger := held.more(cap(buffer) / 2)
		if err := held.grow(ctx, larger); err != nil {
			return buffer, err
		}
		buffer = append(make([]byte, 0, larger), buffer...)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// answer writes the status as OTLP/HTTP wants it: in the encoding of the request. After 503 senders try again.
func answer(response http.ResponseWriter, kind string, refused *refusal) {
	code, said := http.StatusBadRequest, status.New(codes.InvalidArgument, refused.message).Proto()
	switch refused.reason {
	case tooLarge:
		code = http.StatusRequestEntityTooLarge
	case noMemory:
		code, said.Code = http.StatusServiceUnavailable, int32(codes.Unavailable)
		response.Header().Set("Retry-After", retryAfter)
	}
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
