package ownlogsreceiver

import (
	"fmt"
	"io"
	"net/url"
	"os"

	"go.uber.org/zap"

	"otel-rl.example/otelcol-rl/internal/addresses"
)

// scheme of the output paths that the logger writes to: service.telemetry.logs.output_paths: ["own-logs:stderr", "own-logs:"].
const scheme = "own-logs"

func init() {
	// The only error is a scheme that is registered twice, which Go's own initialisation order rules out.
	if err := zap.RegisterSink(scheme, open); err != nil {
		panic(err)
	}
}

// open returns the console for own-logs:stderr, and the buffer of the receiver for own-logs:.
func open(path *url.URL) (zap.Sink, error) {
	switch path.Opaque {
	case "":
		return output{processLines}, nil
	case "stderr":
		return output{os.Stderr}, nil
	}
	return nil, fmt.Errorf(`no output is named %s; there are "own-logs:" and "own-logs:stderr"`, path)
}

// output writes records without the secrets of the addresses in them, whatever component has quoted one. zap locks it.
type output struct{ io.Writer }

// Write takes one encoded record.
func (o output) Write(record []byte) (int, error) {
	if _, err := io.WriteString(o.Writer, addresses.WithoutSecrets(string(record))); err != nil {
		return 0, err
	}
	return len(record), nil
}

// Sync has nothing to do: neither output holds anything back.
func (output) Sync() error { return nil }

// Close keeps both: a logger that ends, as at a reload, is followed by another.
func (output) Close() error { return nil }
