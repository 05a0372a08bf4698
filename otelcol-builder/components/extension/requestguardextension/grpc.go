package requestguardextension

import (
	"context"
	"errors"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// guardedCodec decodes with the codec that is registered for protobuf, which with the OTLP receiver is the collector's.
type guardedCodec struct {
	encoding.CodecV2
	guard *guard
}

func newGuardedCodec(g *guard) (*guardedCodec, error) {
	registered := encoding.GetCodecV2(proto.Name)
	if registered == nil {
		return nil, errors.New("request_guard: gRPC has no codec for protobuf")
	}
	return &guardedCodec{registered, g}, nil
}

// Unmarshal refuses what the decoder must not see; the server answers with the error's text.
func (c *guardedCodec) Unmarshal(data mem.BufferSlice, into any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if refused := c.guard.checkProtobuf(whole.ReadOnlyData()); refused != nil {
		c.guard.count(context.Background(), refused.reason)
		return refused
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, into)
}
