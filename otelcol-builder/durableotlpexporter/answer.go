package durableotlpexporter

import (
	"context"
	"errors"
	"maps"
	"mime"
	"net/http"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
)

// Answers that are no HTTP status codes.
const (
	webPage    = -1
	redirected = -2
)

// watcherID names the client middleware that watches the answers. It is no extension of the collector: only the stock exporter
// inside sees it.
var watcherID = component.MustNewIDWithName("durable_otlp", "answers")

// WatchAnswers is the middleware entry that the stock HTTP exporter needs, so that its answers can be told apart.
func WatchAnswers() configmiddleware.Config { return configmiddleware.Config{ID: watcherID} }

type answerKey struct{}

// withAnswer returns a context under which a request leaves its answer in the integer.
func withAnswer(ctx context.Context) (context.Context, *int) {
	answer := new(int)
	return context.WithValue(ctx, answerKey{}, answer), answer
}

// watchedHost is the collector as the stock exporter inside sees it: with one more extension.
type watchedHost struct{ component.Host }

func (h watchedHost) GetExtensions() map[component.ID]component.Component {
	extensions := maps.Clone(h.Host.GetExtensions())
	if extensions == nil {
		extensions = map[component.ID]component.Component{}
	}
	extensions[watcherID] = answerWatcher{}
	return extensions
}

type answerWatcher struct {
	component.StartFunc
	component.ShutdownFunc
}

var _ extensionmiddleware.HTTPClient = answerWatcher{}

// GetHTTPRoundTripper returns the watcher of one client.
func (answerWatcher) GetHTTPRoundTripper(context.Context) (extensionmiddleware.WrapHTTPRoundTripperFunc, error) {
	return func(_ context.Context, next http.RoundTripper) (http.RoundTripper, error) {
		return answerRecorder{next}, nil
	}, nil
}

type answerRecorder struct{ next http.RoundTripper }

// RoundTrip records the answer, and refuses two that look like a success but are none: a redirect that turned the request
// into one without a body, and a web page (of a log-in proxy, say) where OTLP was to be answered.
func (r answerRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, _ := request.Context().Value(answerKey{}).(*int)
	if answer == nil {
		answer = new(int)
	}
	if request.Method != http.MethodPost {
		*answer = redirected
		return nil, errors.New("the endpoint redirects to " + request.URL.Redacted() + ", where data cannot be sent to")
	}
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	*answer = response.StatusCode
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode < 300 && kind == "text/html" {
		*answer = webPage
		_ = response.Body.Close()
		return nil, errors.New("the endpoint answers with a web page")
	}
	return response, nil
}
