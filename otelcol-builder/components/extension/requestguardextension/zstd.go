package requestguardextension

import (
	"bufio"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/encoding"
)

const (
	// widestWindow is the window of zstd that every decoder should take, says its specification. The default of the library is
	// 512 MiB, which it allocates at once where 11 bytes ask for it.
	widestWindow = 8 << 20
	// narrowWindow is what a message may ask for without room: twice what the collector's exporters write.
	narrowWindow = 1 << 20
)

// boundedZstd is the registered zstd with a window that has a bound.
type boundedZstd struct {
	encoding.Compressor
	narrow sync.Pool
}

// Decompress returns a reader that fails where a message asks for too wide a window. The decoder of a wide window is not
// kept: it takes the memory that its request has reserved.
func (c *boundedZstd) Decompress(from io.Reader) (io.Reader, error) {
	message := bufio.NewReader(from)
	if asksForWideWindow(message) {
		decoder, err := newZstdDecoder(message, widestWindow)
		return wideWindow{decoder}, err
	}
	decoder, kept := c.narrow.Get().(*zstd.Decoder)
	if !kept {
		decoder, err := newZstdDecoder(message, narrowWindow)
		return &narrowReader{decoder, &c.narrow}, err
	}
	return &narrowReader{decoder, &c.narrow}, decoder.Reset(message)
}

// newZstdDecoder decodes where it is called: else a decoder would have goroutines of its own.
func newZstdDecoder(from io.Reader, window uint64) (*zstd.Decoder, error) {
	return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
}

// asksForWideWindow looks at the first frame; a wider one after it is an error of the narrow decoder.
func asksForWideWindow(message *bufio.Reader) bool {
	start, _ := message.Peek(zstd.HeaderMaxSize)
	var header zstd.Header
	if header.Decode(start) != nil {
		return false // the decoder says so better
	}
	window := header.WindowSize
	if header.SingleSegment {
		window = header.FrameContentSize
	}
	return window > narrowWindow
}

// wideWindow is a reader that needs room before it reads anything.
type wideWindow struct{ io.Reader }

type narrowReader struct {
	*zstd.Decoder
	pool *sync.Pool
}

// Close keeps the decoder for another message.
func (r *narrowReader) Close() error {
	err := r.Decoder.Reset(nil)
	if err == nil {
		r.pool.Put(r.Decoder)
	}
	return err
}
