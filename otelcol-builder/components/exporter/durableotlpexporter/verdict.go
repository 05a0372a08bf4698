package durableotlpexporter

import (
	"context"
	"errors"
	"net/http"
	"regexp"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// verdict is what an answer of the endpoint means for the items of the request.
type verdict string

const (
	accepted verdict = "accepted"
	// unavailable: the same request will be taken later.
	unavailable verdict = "unavailable"
	// misconfigured: the endpoint or this exporter is set up wrongly, whatever the items are. They wait until that is fixed.
	misconfigured verdict = "configuration"
	// serverError: the endpoint failed. The items wait, unless others get through time and again.
	serverError verdict = "server_error"
	// refused: the endpoint does not want these items.
	refused verdict = "refused"
	// tooLarge: the endpoint does not want so much at once.
	tooLarge verdict = "too_large"
	// unreadableAnswer: the endpoint said yes, but what it said beyond that cannot be read.
	unreadableAnswer verdict = "unreadable_answer"
	// queueFull: there was no room for the items, and their sender could not send them again.
	queueFull verdict = "queue_full"
	// shutDown: the collector ended before the endpoint could be asked with success, and no queue on disk keeps the items.
	shutDown verdict = "shutdown"
)

// waits says whether the items stay in the queue.
func (v verdict) waits() bool { return v == unavailable || v == misconfigured || v == serverError }

// mayBeTooMuch says whether an answer may mean that the endpoint takes less at once, now or ever: limits of rate and of time.
func mayBeTooMuch(err error, answer int) bool {
	switch answer {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return true
	case 0:
		code := status.Code(err)
		return code == codes.ResourceExhausted || code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
	}
	return false
}

// sizeMessage finds the refusals of a message's size among the many meanings of ResourceExhausted: those of the gRPC libraries
// for Go, C and Java, on the sending and on the receiving side.
var sizeMessage = regexp.MustCompile(`(?i)message.*(larger than|exceeds) max|exceeds maximum size|message.*too large`)

// judge says what an error of the stock exporter means. answer is what the HTTP transport saw, 0 for gRPC and without an answer.
func judge(err error, answer int) verdict {
	switch {
	case err == nil:
		return accepted
	case answer == webPage || answer == redirected:
		return misconfigured
	case answer >= 200 && answer < 300:
		return unreadableAnswer
	case answer != 0:
		return httpVerdict(answer)
	}
	state, isStatus := status.FromError(err)
	switch {
	case !isStatus && consumererror.IsPermanent(err):
		return refused // it could not even be encoded
	case !isStatus:
		return unavailable
	case state.Code() == codes.ResourceExhausted && sizeMessage.MatchString(state.Message()):
		return tooLarge
	}
	return grpcVerdict(state.Code())
}

func grpcVerdict(code codes.Code) verdict {
	switch code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss, codes.ResourceExhausted:
		return unavailable
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.NotFound:
		return misconfigured
	case codes.InvalidArgument, codes.FailedPrecondition, codes.AlreadyExists:
		return refused
	default:
		return serverError
	}
}

func httpVerdict(answer int) verdict {
	switch answer {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return unavailable
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusProxyAuthRequired, http.StatusLengthRequired, http.StatusUnsupportedMediaType,
		http.StatusMisdirectedRequest, http.StatusUpgradeRequired, http.StatusNotImplemented:
		return misconfigured
	case http.StatusRequestEntityTooLarge:
		return tooLarge
	}
	switch {
	case answer >= 500:
		return serverError
	case answer >= 400:
		return refused
	default:
		return misconfigured
	}
}

// fixes holds what to do, by a pattern of the error's text; the first that matches counts.
var fixes = []struct {
	text *regexp.Regexp
	fix  string
}{
	{regexp.MustCompile(`(?i)x509|certificate|tls:`), "check tls: ca_file, server_name_override, the certificate's dates, and insecure for a server without TLS"},
	{regexp.MustCompile(`(?i)no such host|name resolver|produced zero addresses|no children to pick`), "check the host name in endpoint"},
	{regexp.MustCompile(`(?i)server preface|frame too large|malformed HTTP|HTTP/0\.9|HTTP response to HTTPS`), "check the port in endpoint: OTLP over gRPC and over HTTP have different ones (4317, 4318)"},
	{regexp.MustCompile(`(?i)refused connection|connection refused|connect:|no route`), "start the endpoint, or check host and port in endpoint"},
	{regexp.MustCompile(`(?i)Unauthenticated|PermissionDenied|Code (401|403|407)\b`), "check the token or certificate that this exporter sends (headers, auth, tls)"},
	{regexp.MustCompile(`(?i)encoding|compress|Code (406|415)\b`), "set compression and encoding to what the endpoint understands (compression: none always works)"},
	{regexp.MustCompile(`(?i)Unimplemented|NotFound|Code (404|405|501)\b|redirect|web page`), "check path and port in endpoint, and that it serves OTLP for this signal"},
}

// fixFor names what to do about an error.
func fixFor(kind verdict, text string) string {
	for _, each := range fixes {
		if each.text.MatchString(text) {
			return each.fix
		}
	}
	if kind == misconfigured {
		return "check the endpoint and what this exporter sends: it refuses even a request without items"
	}
	return "see the endpoint's own log"
}
