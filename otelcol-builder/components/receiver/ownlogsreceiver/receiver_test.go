package ownlogsreceiver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger writes with the collector's own encoder into a buffer.
func logger(into *lines) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.AddSync(into), zapcore.DebugLevel)
	return zap.New(core, zap.AddCaller(), zap.AddStacktrace(zapcore.ErrorLevel))
}

func records(buffer *lines) []plog.LogRecord {
	taken, _ := buffer.take()
	var found []plog.LogRecord
	groups := build(taken, time.Now()).ResourceLogs()
	for i := range groups.Len() {
		written := groups.At(i).ScopeLogs().At(0).LogRecords()
		for j := range written.Len() {
			found = append(found, written.At(j))
		}
	}
	return found
}

func TestARecordKeepsTimeSeverityMessageFieldsAndPlace(t *testing.T) {
	buffer := &lines{}
	before := time.Now().Add(-time.Second)
	logger(buffer).Warn("a\tmessage {with} tabs", zap.String("text", "x\ny"), zap.Int("number", 3), zap.Float64("share", 0.5),
		zap.Bool("yes", true), zap.Strings("list", []string{"a"}), zap.Error(errors.New("refused")))
	record := records(buffer)[0]
	if record.Body().Str() != "a\tmessage {with} tabs" || record.SeverityNumber() != plog.SeverityNumberWarn {
		t.Errorf("%s %s", record.Body().Str(), record.SeverityNumber())
	}
	if record.Timestamp().AsTime().Before(before) {
		t.Error(record.Timestamp().AsTime())
	}
	attributes := record.Attributes().AsRaw()
	want := map[string]any{"text": "x\ny", "number": int64(3), "share": 0.5, "yes": true, "list": `["a"]`, "error": "refused"}
	for key, value := range want {
		if attributes[key] != value {
			t.Errorf("%s: want %v, got %v", key, value, attributes[key])
		}
	}
	if file, _ := attributes["code.file.path"].(string); !strings.HasSuffix(file, "receiver_test.go") {
		t.Error(file)
	}
}

func TestAStackTraceIsAnAttributeOfItsOwn(t *testing.T) {
	buffer := &lines{}
	logger(buffer).Error("broken", zap.String("why", "x"))
	record := records(buffer)[0]
	trace, _ := record.Attributes().Get("code.stacktrace")
	if record.Body().Str() != "broken" || !strings.Contains(trace.Str(), "TestAStackTrace") {
		t.Errorf("%q %q", record.Body().Str(), trace.Str())
	}
}

func TestDebugRecordsStayOnTheConsole(t *testing.T) {
	buffer := &lines{}
	logger(buffer).Debug("one for each batch")
	if found := records(buffer); len(found) != 0 {
		t.Error(found)
	}
}

func TestWhatIsNotInTheEncodersFormIsKeptAsItStands(t *testing.T) {
	buffer := &lines{}
	fmt.Fprintln(buffer, `{"level":"info"}`)
	if body := records(buffer)[0].Body().Str(); body != `{"level":"info"}` {
		t.Error(body)
	}
}

func TestTheBufferIsBoundedAndTheNewestStay(t *testing.T) {
	buffer := &lines{}
	for number := range capacity + 7 {
		fmt.Fprintf(buffer, "%d", number)
	}
	if _, err := buffer.Write(make([]byte, 10*maximumBytes)); err != nil {
		t.Fatal(err)
	}
	taken, dropped := buffer.take()
	if len(taken) != capacity || dropped != 8 || taken[0] != "8" || len(taken[capacity-1]) != maximumBytes {
		t.Errorf("%d lines, %d dropped, first %q", len(taken), dropped, taken[0])
	}
}

func TestTheLoggerOfTheServiceReachesTheBufferThroughItsOutputPath(t *testing.T) {
	processLines.take()
	configured := zap.NewProductionConfig()
	configured.Encoding, configured.OutputPaths = "console", []string{scheme + ":"}
	created, err := configured.Build()
	if err != nil {
		t.Fatal(err)
	}
	created.Info("hello")
	if taken, _ := processLines.take(); len(taken) != 1 || !strings.Contains(taken[0], "hello") {
		t.Error(taken)
	}
}

func TestShutdownDeliversWhatIsLeft(t *testing.T) {
	buffer, sink := &lines{}, new(consumertest.LogsSink)
	receiver, err := newReceiver(componenttest.NewNopTelemetrySettings(), sink, buffer)
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	logger(buffer).Info("the last words")
	if err := receiver.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if sink.LogRecordCount() != 1 {
		t.Error(sink.LogRecordCount())
	}
}

func TestADeliveryThatLogsItsOwnFailureMakesOneRecordADelivery(t *testing.T) {
	buffer := &lines{}
	console := logger(buffer)
	carried := 0
	failing, err := consumer.NewLogs(func(_ context.Context, logs plog.Logs) error {
		carried = logs.LogRecordCount()
		console.Error("cannot deliver")
		return errors.New("refused")
	})
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := newReceiver(componenttest.NewNopTelemetrySettings(), failing, buffer)
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		console.Info("at the start")
	}
	for range 100 {
		receiver.deliver(context.Background())
	}
	if carried != 1 || len(buffer.held) != 1 {
		t.Errorf("the last of 100 failing deliveries carried %d records and left %d", carried, len(buffer.held))
	}
}

func TestWhatIsCutOrWasNeverUTF8IsTextAllTheSame(t *testing.T) {
	buffer := &lines{}
	for _, record := range []string{strings.Repeat("é", maximumBytes), "bad \xff byte"} {
		if _, err := buffer.Write([]byte("x" + record)); err != nil {
			t.Fatal(err)
		}
	}
	for _, record := range records(buffer) {
		if !utf8.ValidString(record.Body().Str()) {
			t.Error("not UTF-8")
		}
	}
}
