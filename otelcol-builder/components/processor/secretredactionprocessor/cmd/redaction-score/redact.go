package main

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor"
)

const unlimited = 1 << 30

// redactor sends a text through the processor, as the body of a log record or as an attribute of a span.
type redactor struct {
	logs      consumer.Logs
	traces    consumer.Traces
	logSink   *consumertest.LogsSink
	traceSink *consumertest.TracesSink
}

func newRedactor(chosen options) (*redactor, error) {
	factory := secretredactionprocessor.NewFactory()
	config := factory.CreateDefaultConfig().(*secretredactionprocessor.Config)
	config.Content = secretredactionprocessor.ContentConfig{Action: "redact", MaxBytes: unlimited}
	config.RulesFile, config.PersonalData = chosen.rulesFile, chosen.personalData
	if err := config.Validate(); err != nil {
		return nil, err
	}
	made := &redactor{logSink: &consumertest.LogsSink{}, traceSink: &consumertest.TracesSink{}}
	settings := processortest.NewNopSettings(factory.Type())
	logs, err := factory.CreateLogs(context.Background(), settings, config, made.logSink)
	if err != nil {
		return nil, err
	}
	traces, err := factory.CreateTraces(context.Background(), settings, config, made.traceSink)
	if err != nil {
		return nil, err
	}
	made.logs, made.traces = logs, traces
	host := componenttest.NewNopHost()
	if err := logs.Start(context.Background(), host); err != nil {
		return nil, err
	}
	return made, traces.Start(context.Background(), host)
}

// redact returns what the processor makes of a text under an attribute; without a key, in a body.
func (r *redactor) redact(key, text string) (string, error) {
	if key == "" {
		return r.body(text)
	}
	return r.attribute(key, text)
}

func (r *redactor) body(text string) (string, error) {
	r.logSink.Reset()
	logs := plog.NewLogs()
	logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr(text)
	if err := r.logs.ConsumeLogs(context.Background(), logs); err != nil {
		return "", err
	}
	if r.logSink.LogRecordCount() != 1 {
		return "", fmt.Errorf("the processor returned %d log records for one", r.logSink.LogRecordCount())
	}
	return r.logSink.AllLogs()[0].ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Body().AsString(), nil
}

// attribute returns the value, or an empty text when the processor removed it.
func (r *redactor) attribute(key, text string) (string, error) {
	r.traceSink.Reset()
	traces := ptrace.NewTraces()
	traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().Attributes().PutStr(key, text)
	if err := r.traces.ConsumeTraces(context.Background(), traces); err != nil {
		return "", err
	}
	if r.traceSink.SpanCount() != 1 {
		return "", fmt.Errorf("the processor returned %d spans for one", r.traceSink.SpanCount())
	}
	value, _ := r.traceSink.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().Get(key)
	return value.AsString(), nil
}
