package requestguardextension

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"sync/atomic"

	// Registers the compressors that are wrapped here.
	_ "go.opentelemetry.io/collector/config/configgrpc"
	"google.golang.org/grpc/encoding"
)

const (
	// inflatedFreely is what a message may inflate to without room: more than any answer that an exporter gets.
	inflatedFreely = 64 << 10
	// inflatedAtOnce is the room that a larger one needs: the longest that a gateway takes.
	inflatedAtOnce = 20 << 20
)

// inflating is the memory that messages of gRPC inflate in: compressors belong to the process.
var inflating atomic.Pointer[memory]

// What a message ends in that was not inflated to its end. Nobody else knows these.
var cutOffForNow, cutOffForGood = secret(), secret()

func secret() []byte {
	bytes := make([]byte, 32)
	_, _ = rand.Read(bytes)
	return bytes
}

// cutOff returns why a message was not inflated to its end, or nil.
func cutOff(body []byte) error {
	switch {
	case bytes.HasSuffix(body, cutOffForNow):
		return errNoRoom
	case bytes.HasSuffix(body, cutOffForGood):
		return errNeverFits
	}
	return nil
}

// gRPC inflates a message before any code of the server sees it, so that many small messages at once could take all
// memory. Registering is for init functions only.
func init() {
	for _, name := range []string{"gzip", "zstd", "snappy"} {
		if registered := encoding.GetCompressor(name); registered != nil {
			encoding.RegisterCompressor(boundedCompressor{withBoundedWindow(registered)})
		}
	}
}

func withBoundedWindow(registered encoding.Compressor) encoding.Compressor {
	if registered.Name() == "zstd" {
		return &boundedZstd{Compressor: registered}
	}
	return registered
}

// boundedCompressor inflates only what there is room for.
type boundedCompressor struct{ encoding.Compressor }

// Decompress returns a reader that waits for room. An error would be answered with INTERNAL, after which senders drop the
// data: where there is no room, the message ends in one of the secrets instead, and the guard answers.
func (c boundedCompressor) Decompress(from io.Reader) (io.Reader, error) {
	inflated, err := c.Compressor.Decompress(from)
	held, _ := inflating.Load().holding()
	if err != nil || held.pool == nil {
		return inflated, err // without a guard there is no bound
	}
	if _, wide := inflated.(wideWindow); wide {
		return &boundedReader{from: inflated, held: held, atOnce: inflatedAtOnce + widestWindow}, nil
	}
	return &boundedReader{from: inflated, held: held, room: inflatedFreely, atOnce: inflatedAtOnce}, nil
}

type boundedReader struct {
	from               io.Reader
	held               reservation
	read, room, atOnce int
}

func (r *boundedReader) Read(into []byte) (int, error) {
	if r.read >= r.room {
		r.makeRoom()
	}
	read, err := r.from.Read(into[:min(len(into), r.room-r.read)])
	r.read += read
	return read, err
}

func (r *boundedReader) makeRoom() {
	err := r.held.grow(context.Background(), r.held.more(r.atOnce))
	switch {
	case err == nil:
		r.room = inflatedFreely + r.held.bytes
	case errors.Is(err, errNeverFits):
		r.endIn(cutOffForGood)
	default:
		r.endIn(cutOffForNow)
	}
}

func (r *boundedReader) endIn(secret []byte) {
	r.from, r.room = bytes.NewReader(secret), math.MaxInt
}

// Close gives the room back; gRPC closes what it has read. The guard reserves what the message takes from there on.
func (r *boundedReader) Close() error {
	r.held.release()
	if closer, ok := r.from.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
