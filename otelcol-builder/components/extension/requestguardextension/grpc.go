package requestguardextension

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// handshakeTimeout ends connections that are opened and then silent. The default of gRPC is two minutes.
const handshakeTimeout = 20 * time.Second

// calls holds requests that were received and not decoded, by the empty message that the decoder fills.
//
// gRPC decodes before any interceptor runs, with an error of its own: after INTERNAL senders drop the data. So the codec
// only keeps the bytes, and an interceptor decodes them, which can wait, and answer with the right code.
type calls struct{ encoded sync.Map }

// otlpMessage is a message of pdata.
type otlpMessage interface{ UnmarshalProto([]byte) error }

// keepingCodec keeps encoded OTLP for the interceptor, and decodes all else with the codec that is registered.
type keepingCodec struct {
	encoding.CodecV2
	calls *calls
}

func newKeepingCodec(kept *calls) (*keepingCodec, error) {
	registered := encoding.GetCodecV2(proto.Name)
	if registered == nil {
		return nil, errors.New("request_guard: gRPC has no codec for protobuf")
	}
	return &keepingCodec{registered, kept}, nil
}

// Unmarshal keeps a message of OTLP until the interceptors run.
func (c *keepingCodec) Unmarshal(data mem.BufferSlice, into any) error {
	if _, isOTLP := into.(otlpMessage); !isOTLP {
		return c.CodecV2.Unmarshal(data, into)
	}
	data.Ref()
	c.calls.encoded.Store(into, data)
	return nil
}

// GetGRPCServerOptions puts the codec and its interceptors into the server, and refuses calls while memory is short.
func (g *guard) GetGRPCServerOptions(context.Context) ([]grpc.ServerOption, error) {
	codec, err := newKeepingCodec(&g.calls)
	if err != nil {
		return nil, err
	}
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec), grpc.InTapHandle(g.tap), grpc.ConnectionTimeout(handshakeTimeout),
		// The outermost of all, and the one after those of authentication.
		grpc.UnaryInterceptor(g.claim), grpc.ChainUnaryInterceptor(g.decode),
	}, nil
}

// tap runs before a request is read.
func (g *guard) tap(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if g.memoryIsShort(ctx) {
		return nil, status.Error(codes.Unavailable, shortOfMemory)
	}
	return ctx, nil
}

type encodedKey struct{}

// claim takes what the codec kept of a request, so that nothing stays where another interceptor refuses the call.
func (g *guard) claim(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if kept, found := g.calls.encoded.LoadAndDelete(request); found {
		data := kept.(mem.BufferSlice)
		defer data.Free()
		ctx = context.WithValue(ctx, encodedKey{}, data)
	}
	return next(ctx, request)
}

// decode looks at what was kept of a request, reserves the memory that it takes, and decodes it.
func (g *guard) decode(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	data, kept := ctx.Value(encodedKey{}).(mem.BufferSlice)
	if !kept {
		return next(ctx, request)
	}
	received, decoded := g.memory.holding()
	defer received.release()
	defer decoded.release()
	refused, err := g.decodeReserved(ctx, data, request.(otlpMessage), info.FullMethod, &received, &decoded)
	if refused != nil {
		g.count(ctx, refused.reason)
		return nil, status.Error(refused.code(), refused.message)
	}
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "the request cannot be decoded: %v", err)
	}
	return next(ctx, request)
}

func (g *guard) decodeReserved(
	ctx context.Context, data mem.BufferSlice, into otlpMessage, method string, received, decoded *reservation,
) (*refusal, error) {
	// As it came, and in one piece.
	if err := received.grow(ctx, 2*data.Len()); err != nil {
		return g.noRoom(err), nil
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	body := whole.ReadOnlyData()
	if err := cutOff(body); err != nil {
		return g.noRoom(err), nil
	}
	taken, refused := g.check(method, false, body)
	if refused != nil {
		return refused, nil
	}
	if err := decoded.grow(ctx, taken); err != nil {
		return g.noRoom(err), nil
	}
	return nil, into.UnmarshalProto(body)
}

// code is the answer over gRPC. After RESOURCE_EXHAUSTED without a delay senders do not try again.
func (r *refusal) code() codes.Code {
	switch r.reason {
	case noMemory:
		return codes.Unavailable
	case tooLarge:
		return codes.ResourceExhausted
	}
	return codes.InvalidArgument
}
