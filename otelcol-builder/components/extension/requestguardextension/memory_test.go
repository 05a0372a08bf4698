package requestguardextension

import (
	"bytes"
	"io"
	"math/bits"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
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

func TestALimiterWithoutALimitStopsTheStart(t *testing.T) {
	g, err := newGuard(&Config{MaxDepth: 40, MemoryLimiter: &limiterID}, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	err = g.NotifyConfigSnapshot(t.Context(), configuration("memory_limiter", map[string]any{"limit_percentage": 80}))
	require.ErrorContains(t, err, "no limit_mib")
}

// bomb is a request of empty spans that takes 200 times its size.
func bomb(size int) []byte {
	return message(nil, 1, message(nil, 2, bytes.Repeat([]byte{0x12, 0}, size/2)))
}

func bombInJSON(size int) []byte {
	return []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat("{},", size/3) + `{}]}]}]}`)
}

func TestARequestThatCanNeverFitIsRefusedForGoodWithWhatToDo(t *testing.T) {
	g := behindGuardOf(t, 30)
	const size = 1 << 20
	for _, encoding := range []string{"", "gzip", "deflate"} {
		for kind, body := range map[string][]byte{protobufType: bomb(size), jsonType: bombInJSON(size)} {
			code, answer := g.post(t, "/v1/traces", kind, encoding, compressed(encoding, body))
			require.Equal(t, http.StatusRequestEntityTooLarge, code, answer)
			require.Contains(t, answer, "limit of 30 MiB")
			require.Contains(t, answer, "OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB")
		}
	}
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} {
		err := g.export(t, bomb(size), options...)
		require.Equal(t, codes.ResourceExhausted, status.Code(err), err)
		require.ErrorContains(t, err, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE")
	}
	require.NoError(t, g.export(t, honestSpans(size), grpc.UseCompressor("gzip")))
	g.holdsNothing(t)
}

// holdAll takes a whole pool until the function that it returns is called. It waits until nobody else holds any of it.
func holdAll(t *testing.T, of *pool) (release func()) {
	t.Helper()
	require.NoError(t, of.free.Acquire(t.Context(), int64(of.total)))
	return func() { of.free.Release(int64(of.total)) }
}

// holdsNothing fails where a request that has ended still holds memory.
func (g *guarded) holdsNothing(t *testing.T) {
	t.Helper()
	for _, each := range []*pool{g.guard.memory.received, g.guard.memory.decoded} {
		require.True(t, each.free.TryAcquire(int64(each.total)), "memory is held")
		each.free.Release(int64(each.total))
	}
}

func TestWhileOthersHoldTheMemorySendersTryAgain(t *testing.T) {
	g := behindGuardOf(t, 30)
	body, memory := honestSpans(1<<20), g.guard.memory
	memory.received.patience, memory.decoded.patience = time.Millisecond, time.Millisecond
	for _, held := range []*pool{memory.received, memory.decoded} {
		release := holdAll(t, held)
		for _, encoding := range []string{"", "gzip"} {
			code, answer := g.post(t, "/v1/traces", protobufType, encoding, compressed(encoding, body))
			require.Equal(t, http.StatusServiceUnavailable, code)
			require.Contains(t, answer, shortOfMemory)
		}
		for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}, {grpc.UseCompressor("zstd")}} {
			err := g.export(t, body, options...)
			require.Equal(t, codes.Unavailable, status.Code(err), err)
		}
		release()
	}
	require.NoError(t, g.export(t, body, grpc.UseCompressor("zstd")))
	g.holdsNothing(t)
}

func TestRequestsWaitForTheMemoryThatOthersGiveBack(t *testing.T) {
	g := behindGuardOf(t, 30)
	memory := g.guard.memory
	memory.received.patience, memory.decoded.patience = time.Minute, time.Minute
	for _, held := range []*pool{memory.received, memory.decoded} {
		release, answers := holdAll(t, held), make(chan error)
		for range 4 {
			go func() { answers <- g.export(t, honestSpans(1<<20), grpc.UseCompressor("gzip")) }()
		}
		release()
		for range 4 {
			require.NoError(t, <-answers)
		}
	}
	g.holdsNothing(t)
}

func TestAnAnswerOfNoRoomSaysWhenToTryAgain(t *testing.T) {
	g, _ := newTestGuard(t)
	g.memory = newMemory(30 << 20)
	g.memory.decoded.patience = time.Millisecond
	defer holdAll(t, g.memory.decoded)()
	answer, read := served(t, g, "/v1/traces", protobufType, bytes.NewReader(nestedProtobuf(1)))
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Equal(t, retryAfter, answer.Header().Get("Retry-After"))
	require.Empty(t, read)
}

func TestABodyIsReadNoFurtherThanThereIsMemory(t *testing.T) {
	memory := newMemory(30 << 20)
	held, _ := memory.holding()
	endless := &counted{from: io.LimitReader(zeros{}, 1<<30)}
	body, err := readReserved(t.Context(), &held, endless, nil, -1)
	require.ErrorIs(t, err, errNeverFits)
	require.LessOrEqual(t, endless.read, memory.received.total)
	require.LessOrEqual(t, cap(body), held.bytes)
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}

type counted struct {
	from io.Reader
	read int
}

func (c *counted) Read(into []byte) (int, error) {
	read, err := c.from.Read(into)
	c.read += read
	return read, err
}

func TestAMessageIsInflatedNoFurtherThanThereIsMemory(t *testing.T) {
	const size = 1 << 26
	former := inflating.Load()
	defer inflating.Store(former)
	for _, name := range []string{"gzip", "zstd", "snappy"} {
		inflating.Store(newMemory(30 << 20))
		read := inflate(t, name, size)
		require.ErrorIs(t, cutOff(read), errNeverFits)
		require.LessOrEqual(t, len(read), inflatedFreely+5<<20+len(cutOffForGood))
		inflating.Store(nil)
		require.Len(t, inflate(t, name, size), size, "without a guard")
	}
}

// inflate packs so many zeros and returns what the registered compressor makes of them.
func inflate(t *testing.T, name string, size int64) []byte {
	t.Helper()
	var packed bytes.Buffer
	writer, err := encoding.GetCompressor(name).Compress(&packed)
	require.NoError(t, err)
	_, err = io.Copy(writer, io.LimitReader(zeros{}, size))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return inflated(t, name, &packed)
}

// inflated returns what the registered compressor makes of a message.
func inflated(t *testing.T, name string, packed io.Reader) []byte {
	t.Helper()
	reader, err := encoding.GetCompressor(name).Decompress(packed)
	require.NoError(t, err)
	inflated, err := io.ReadAll(reader)
	require.NoError(t, err)
	if closer, ok := reader.(io.Closer); ok {
		require.NoError(t, closer.Close())
	}
	return inflated
}

// wideFrame is an empty request in 11 bytes of zstd that asks for a window of 512 MiB.
var wideFrame = []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x98, 0x11, 0, 0, 0x0a, 0}

func TestAZstdMessageGetsNoWiderWindowThanThereIsRoomFor(t *testing.T) {
	former := inflating.Load()
	defer inflating.Store(former)
	for _, guarded := range []*memory{nil, newMemory(512 << 20)} {
		inflating.Store(guarded)
		for name, frame := range map[string][]byte{"alone": wideFrame, "after a narrow one": append(zstdFrame(narrowWindow), wideFrame...)} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			reader, err := encoding.GetCompressor("zstd").Decompress(bytes.NewReader(frame))
			require.NoError(t, err)
			_, err = io.ReadAll(reader)
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, zstd.ErrWindowSizeExceeded, name)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*narrowWindow), name)
		}
	}
}

func TestAZstdMessageWithAWideWindowIsInflatedOnceThereIsRoom(t *testing.T) {
	former := inflating.Load()
	defer inflating.Store(former)
	memory := newMemory(512 << 20)
	memory.received.patience = time.Millisecond
	inflating.Store(memory)
	frame := zstdFrame(widestWindow)
	release := holdAll(t, memory.received)
	require.ErrorIs(t, cutOff(inflated(t, "zstd", bytes.NewReader(frame))), errNoRoom)
	require.Equal(t, "a", string(inflated(t, "zstd", bytes.NewReader(zstdFrame(narrowWindow)))), "an answer that an exporter gets")
	release()
	require.Equal(t, "a", string(inflated(t, "zstd", bytes.NewReader(frame))))
	require.True(t, memory.received.free.TryAcquire(int64(memory.received.total)), "memory is held")
}

// zstdFrame returns a frame with one byte in it and this window.
func zstdFrame(window int) []byte {
	exponent := byte(bits.Len(uint(window))-1) - 10
	return []byte{0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3, 0x09, 0, 0, 'a'}
}

// BenchmarkGuardOfAnHonestBatch says what looking at a batch of 12 MiB costs, as a share of what decoding it takes.
func BenchmarkGuardOfAnHonestBatch(b *testing.B) {
	g, err := newGuard(&Config{MaxDepth: testDepth}, componenttest.NewNopTelemetrySettings())
	require.NoError(b, err)
	inProtobuf := honestSpans(12 << 20)
	request := ptraceotlp.NewExportRequest()
	require.NoError(b, request.UnmarshalProto(inProtobuf))
	inJSON, err := request.MarshalJSON()
	require.NoError(b, err)
	for name, body := range map[string][]byte{"protobuf": inProtobuf, "JSON": inJSON} {
		b.Run(name, func(b *testing.B) {
			var looking, decoding time.Duration
			for b.Loop() {
				start := time.Now()
				_, refused := g.check("/v1/traces", name == "JSON", body)
				looked := time.Now()
				_, err := decoded("/v1/traces", name == "JSON", body)
				looking, decoding = looking+looked.Sub(start), decoding+time.Since(looked)
				if refused != nil || err != nil {
					b.Fatal(refused, err)
				}
			}
			b.ReportMetric(looking.Seconds()/decoding.Seconds(), "guard/decode")
			b.ReportMetric(0, "ns/op")
		})
	}
}
