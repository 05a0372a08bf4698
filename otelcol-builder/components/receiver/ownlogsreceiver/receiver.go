package ownlogsreceiver

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"otel-rl.example/otelcol-rl/receiver/ownlogsreceiver/internal/metadata"
)

// interval between two deliveries. A batch, never a record, goes down the pipeline: a failing delivery makes a few
// records of its own, whatever the number of those it carried.
const interval = time.Second

var dropReasons = struct{ full, refused metric.MeasurementOption }{
	full:    metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", "buffer_full"))),
	refused: metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", "refused"))),
}

type ownLogs struct {
	lines   *lines
	next    consumer.Logs
	dropped metric.Int64Counter
	stop    chan struct{}
	stopped chan struct{}
}

func newReceiver(settings component.TelemetrySettings, next consumer.Logs, source *lines) (*ownLogs, error) {
	telemetry, err := metadata.NewTelemetryBuilder(settings)
	if err != nil {
		return nil, err
	}
	dropped := telemetry.OwnLogsDropped
	dropped.Add(context.Background(), 0, dropReasons.full)
	dropped.Add(context.Background(), 0, dropReasons.refused)
	return &ownLogs{lines: source, next: next, dropped: dropped}, nil
}

// Start delivers once an interval until Shutdown.
func (r *ownLogs) Start(context.Context, component.Host) error {
	r.stop, r.stopped = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(r.stopped)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.deliver(context.Background())
			case <-r.stop:
				return
			}
		}
	}()
	return nil
}

// Shutdown delivers what is left: the exporters still run.
func (r *ownLogs) Shutdown(ctx context.Context) error {
	if r.stop == nil {
		return nil
	}
	close(r.stop)
	<-r.stopped
	r.deliver(ctx)
	return nil
}

// deliver sends what was logged. A refusal is counted and not logged, since that record would be refused next.
func (r *ownLogs) deliver(ctx context.Context) {
	taken, pushedOut := r.lines.take()
	if pushedOut > 0 {
		r.dropped.Add(ctx, pushedOut, dropReasons.full)
	}
	logs := build(taken, time.Now())
	count := logs.LogRecordCount()
	if count == 0 {
		return
	}
	if err := r.next.ConsumeLogs(ctx, logs); err != nil {
		r.dropped.Add(ctx, int64(count), dropReasons.refused)
	}
}

// build makes log records of encoded lines. Debug records stay on stderr: some components log one for each batch that
// passes, which would be one more for each delivery.
func build(taken []string, now time.Time) plog.Logs {
	logs := plog.NewLogs()
	group := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty()
	group.Scope().SetName(metadata.ScopeName)
	for _, line := range taken {
		if parsed := parse(line); parsed.level != "debug" {
			parsed.fill(group.LogRecords().AppendEmpty(), now)
		}
	}
	return logs
}
