package statusextension

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pipeline"
)

var tempo = componentstatus.NewInstanceID(
	component.MustNewIDWithName("otlp_http", "tempo"), component.KindExporter, pipeline.NewIDWithName(pipeline.SignalTraces, "tempo"),
)

func extensionForTest(t *testing.T) *statusExtension {
	t.Helper()
	created, err := newStatusExtension(&Config{Endpoint: "127.0.0.1:0"}, componenttest.NewNopTelemetrySettings())
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func ask(t *testing.T, extension *statusExtension, path string) (int, answer) {
	t.Helper()
	recorder := httptest.NewRecorder()
	extension.handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	var body answer
	if err := json.Unmarshal(recorder.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s: %v in %q", path, err, recorder.Body)
	}
	return recorder.Code, body
}

func wantCodes(t *testing.T, extension *statusExtension, live, ready, status int) {
	t.Helper()
	for path, want := range map[string]int{"/live": live, "/ready": ready, "/": ready, "/status": status} {
		if code, body := ask(t, extension, path); code != want {
			t.Errorf("%s: want %d, got %d %+v", path, want, code, body)
		}
	}
}

func TestOnlyLivenessIsGreenBeforeThePipelinesRunAndWhileTheyStop(t *testing.T) {
	extension := extensionForTest(t)
	wantCodes(t, extension, 200, 503, 503)
	_ = extension.Ready()
	wantCodes(t, extension, 200, 200, 200)
	_ = extension.NotReady()
	wantCodes(t, extension, 200, 503, 503)
}

func TestRecoverableErrorTurnsOnlyStatusRedAndOkTurnsItGreen(t *testing.T) {
	extension := extensionForTest(t)
	_ = extension.Ready()
	extension.ComponentStatusChanged(tempo, componentstatus.NewRecoverableErrorEvent(errors.New("connection refused")))
	wantCodes(t, extension, 200, 200, 503)
	_, body := ask(t, extension, "/status")
	if body.Status != statusDegraded || len(body.Components) != 1 {
		t.Fatalf("%+v", body)
	}
	found := body.Components[0]
	if found.Component != "exporter:otlp_http/tempo" || found.Reason != "connection refused" || found.Pipelines[0] != "traces/tempo" {
		t.Errorf("%+v", found)
	}
	extension.ComponentStatusChanged(tempo, componentstatus.NewEvent(componentstatus.StatusOK))
	wantCodes(t, extension, 200, 200, 200)
}

func TestPermanentErrorIsNoLongerReady(t *testing.T) {
	extension := extensionForTest(t)
	_ = extension.Ready()
	extension.ComponentStatusChanged(tempo, componentstatus.NewPermanentErrorEvent(errors.New("no such file")))
	wantCodes(t, extension, 200, 503, 503)
	if _, body := ask(t, extension, "/ready"); body.Status != statusBroken {
		t.Errorf("%+v", body)
	}
}

func TestSinceIsWhenTheStatusBegan(t *testing.T) {
	states := newComponents()
	first := componentstatus.NewRecoverableErrorEvent(errors.New("one"))
	states.record(tempo, first)
	states.record(tempo, componentstatus.NewRecoverableErrorEvent(errors.New("two")))
	found := states.list((*componentState).unhealthy)
	if !found[0].Since.Equal(first.Timestamp()) || found[0].Reason != "two" {
		t.Errorf("%+v, want since %s", found[0], first.Timestamp())
	}
}

func TestReasonNamesNoPasswordAndNoToken(t *testing.T) {
	for _, text := range []string{"Post http://user:pass@host:1/v1: refused", "Post \"http://host:1/p?token=pass\": refused", "lookup user:pass@host:1"} {
		states := newComponents()
		states.record(tempo, componentstatus.NewRecoverableErrorEvent(errors.New(text)))
		if reason := states.list((*componentState).unhealthy)[0].Reason; strings.Contains(reason, "pass") || !strings.Contains(reason, "host:1") {
			t.Error(reason)
		}
	}
}

func TestAllListsEveryComponentInAStableOrder(t *testing.T) {
	extension := extensionForTest(t)
	_ = extension.Ready()
	for _, name := range []string{"c", "a", "b"} {
		id := componentstatus.NewInstanceID(component.MustNewIDWithName("otlp", name), component.KindReceiver)
		extension.ComponentStatusChanged(id, componentstatus.NewEvent(componentstatus.StatusOK))
	}
	_, body := ask(t, extension, "/status?all")
	names := ""
	for _, each := range body.Components {
		names += each.Component + " "
	}
	if names != "receiver:otlp/a receiver:otlp/b receiver:otlp/c " {
		t.Error(names)
	}
}
