package durableotlpexporter_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	durable "otel-rl.example/otelcol-rl/exporter/durableotlpexporter"
)

var httpAnswers = map[string][]int{
	"unavailable":   {408, 425, 429, 502, 503, 504},
	"configuration": {300, 304, 401, 402, 403, 404, 405, 406, 407, 411, 415, 421, 426, 501},
	"server_error":  {500, 505, 507, 599},
	"refused":       {400, 409, 410, 412, 418, 422, 431, 451},
	"too_large":     {413},
}

var grpcAnswers = map[string][]codes.Code{
	"unavailable": {codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss,
		codes.ResourceExhausted},
	"configuration": {codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.NotFound},
	"server_error":  {codes.Internal, codes.Unknown},
	"refused":       {codes.InvalidArgument, codes.FailedPrecondition, codes.AlreadyExists},
}

func isRefusal(reason string) bool { return reason == "refused" || reason == "too_large" }

func TestHTTPAnswersThatPassWaitAndTheOthersCostOnlyTheRefusedItem(t *testing.T) {
	for reason, answers := range httpAnswers {
		for _, code := range answers {
			t.Run(strconv.Itoa(code), func(t *testing.T) {
				server := &backend{}
				server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
					if isRefusal(reason) && !slices.Contains(names, "bad") {
						return false
					}
					writer.WriteHeader(code)
					return true
				})
				under := overHTTP(t, server)
				checkAnswer(t, under, server, reason, func() { server.answerHTTP(nil) })
			})
		}
	}
}

func TestGRPCAnswersThatPassWaitAndTheOthersCostOnlyTheRefusedItem(t *testing.T) {
	for reason, answers := range grpcAnswers {
		for _, code := range answers {
			t.Run(code.String(), func(t *testing.T) {
				server := &backend{}
				server.answerGRPC(func(names []string) (ptraceotlp.ExportResponse, error) {
					if isRefusal(reason) && !slices.Contains(names, "bad") {
						return ptraceotlp.NewExportResponse(), nil
					}
					return ptraceotlp.NewExportResponse(), status.Error(code, "no")
				})
				under := overGRPC(t, server)
				checkAnswer(t, under, server, reason, func() { server.answerGRPC(nil) })
			})
		}
	}
}

func checkAnswer(t *testing.T, under *bench, server *backend, reason string, repair func()) {
	names := append(numbered(20), "bad")
	under.send(names...)
	if isRefusal(reason) {
		under.eventually(func() bool { return len(under.dead()) == 1 }, "the dead letter")
		under.eventually(func() bool { return len(server.names()) == 20 }, "the others are delivered")
		assert.Equal(t, numbered(20), server.names())
		assert.Equal(t, []string{"bad"}, deadNames(under.dead()))
		assert.Equal(t, reason, under.dead()[0].DeadLetter.Reason)
		under.eventually(func() bool { return under.counted("dead_letter_items", reason) == 1 }, "counted")
		return
	}
	under.eventually(func() bool { return under.counted("failed_requests", reason) > 2 }, "it is tried again and again")
	assert.Positive(t, under.gauge("oldest_undelivered_age"))
	repair()
	under.eventually(func() bool { return len(server.names()) > 0 }, "delivered after the repair")
	assert.ElementsMatch(t, names, server.names())
	assert.Empty(t, under.dead())
	under.eventually(func() bool { return under.gauge("oldest_undelivered_age") == 0 }, "nothing waits")
}

func TestAnEndpointThatRefusesEvenAnEmptyRequestMakesNoDeadLetters(t *testing.T) {
	server := &backend{}
	server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, _ []string) bool {
		http.Error(writer, "cannot read gzip", http.StatusBadRequest)
		return true
	})
	under := overHTTP(t, server)
	under.send(numbered(100)...)
	under.eventually(func() bool { return server.seen() > 50 }, "tried")
	assert.Empty(t, under.dead())
	said := under.logs.FilterMessageSnippet("refuses even a request without items")
	assert.Equal(t, 1, said.Len(), "once, not at every attempt")
	server.answerHTTP(nil)
	under.eventually(func() bool { return len(server.names()) == 100 }, "delivered after the repair")
}

// Loki answers a request without streams with 422.
func refusesNothingAnd(bad string) func(http.ResponseWriter, *http.Request, []string) bool {
	return func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
		refuse := len(names) == 0 || slices.Contains(names, bad)
		if refuse {
			http.Error(writer, "no", http.StatusUnprocessableEntity)
		}
		return refuse
	}
}

func TestAnEndpointThatRefusesEmptyRequestsByRuleBlocksNoBatch(t *testing.T) {
	server := &backend{}
	server.answerHTTP(refusesNothingAnd("bad"))
	under := overHTTP(t, server)
	under.send(append(numbered(100), "bad")...)
	under.eventually(func() bool { return len(server.names()) == 100 && len(under.dead()) == 1 }, "found by the parts that are taken")
	assert.Equal(t, []string{"bad"}, deadNames(under.dead()))
}

func TestALoneRefusedItemWaitsUntilOthersShowThatTheEndpointWorks(t *testing.T) {
	server := &backend{}
	server.answerHTTP(refusesNothingAnd("bad"))
	under := overHTTP(t, server)
	under.send("bad")
	under.eventually(func() bool { return server.seen() > 10 }, "it waits")
	assert.Empty(t, under.dead())
	for range 3 {
		under.send("other")
	}
	under.eventually(func() bool { return len(under.dead()) == 1 }, "others get through, so it is the item")
}

func TestARefusedBatchIsSearchedWithBoundedEffort(t *testing.T) {
	server := &backend{}
	server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
		if len(names) > 0 {
			writer.WriteHeader(http.StatusUnprocessableEntity)
		}
		return len(names) > 0
	})
	under := overHTTP(t, server)
	names := numbered(8000)
	under.send(names...)
	under.eventually(func() bool { return under.counted("dead_letter_items", "refused") == 8000 }, "all are dead letters")
	assert.Equal(t, names, deadNames(under.dead()))
	assert.LessOrEqual(t, server.seen(), 64)
}

func TestOneBadSpanOfEightThousandIsFound(t *testing.T) {
	server := &backend{}
	server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
		bad := slices.Contains(names, "span-04711")
		if bad {
			writer.WriteHeader(http.StatusBadRequest)
		}
		return bad
	})
	under := overHTTP(t, server)
	under.send(numbered(8000)...)
	under.eventually(func() bool { return len(server.names()) == 7999 && len(under.dead()) == 1 }, "found")
	assert.Equal(t, []string{"span-04711"}, deadNames(under.dead()))
	assert.LessOrEqual(t, server.seen(), 40)
}

func TestAMessageThatIsTooLargeForGRPCIsSplit(t *testing.T) {
	server := &backend{}
	under := overGRPC(t, server, grpc.MaxRecvMsgSize(2000))
	names := append(numbered(200), strings.Repeat("x", 3000))
	under.send(names...)
	under.eventually(func() bool { return len(server.names()) == 200 && len(under.dead()) == 1 }, "split")
	assert.Equal(t, names[200:], deadNames(under.dead()))
	assert.Equal(t, "too_large", under.dead()[0].DeadLetter.Reason)
}

func TestAnswersThatOnlyLookLikeASuccessAreNone(t *testing.T) {
	for what, answer := range map[string]http.HandlerFunc{
		"redirect": func(writer http.ResponseWriter, request *http.Request) {
			http.Redirect(writer, request, "/login", http.StatusFound)
		},
		"web page": func(writer http.ResponseWriter, _ *http.Request) {
			writer.Header().Set("Content-Type", "text/html; charset=utf-8")
		},
	} {
		t.Run(what, func(t *testing.T) {
			server := &backend{}
			server.answerHTTP(func(writer http.ResponseWriter, request *http.Request, _ []string) bool {
				answer(writer, request)
				return true
			})
			under := overHTTP(t, server)
			under.send("one")
			under.eventually(func() bool { return under.counted("failed_requests", "configuration") > 1 }, "waits")
			server.answerHTTP(nil)
			under.eventually(func() bool { return len(server.names()) == 1 }, "delivered after the repair")
		})
	}
}

func TestAYesThatCannotBeReadIsKeptAsADeadLetter(t *testing.T) {
	server := &backend{}
	server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, _ []string) bool {
		writer.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = writer.Write([]byte("no protobuf at all"))
		return true
	})
	under := overHTTP(t, server)
	under.send("one", "two")
	under.eventually(func() bool { return under.counted("dead_letter_items", "unreadable_answer") == 2 }, "kept")
	assert.Equal(t, 1, server.seen())
}

func TestPartlyTakenRequestsAreCountedWhateverIsLogged(t *testing.T) {
	for _, level := range []zapcore.Level{zapcore.DebugLevel, zapcore.ErrorLevel} {
		logLevel = level
		t.Cleanup(func() { logLevel = zapcore.DebugLevel })
		t.Run(level.String(), checkPartlyTaken)
	}
}

func checkPartlyTaken(t *testing.T) {
	partial := ptraceotlp.NewExportResponse()
	partial.PartialSuccess().SetRejectedSpans(3)
	partial.PartialSuccess().SetErrorMessage("too old")
	t.Run("grpc", func(t *testing.T) {
		server := &backend{}
		server.answerGRPC(func([]string) (ptraceotlp.ExportResponse, error) { return partial, nil })
		under := overGRPC(t, server)
		under.send(numbered(10)...)
		under.eventually(func() bool { return under.counted("partial_success_rejected_items", "") == 3 }, "counted")
	})
	t.Run("http", func(t *testing.T) {
		server := &backend{}
		server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, _ []string) bool {
			content, err := partial.MarshalProto()
			require.NoError(t, err)
			writer.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = writer.Write(content)
			return true
		})
		under := overHTTP(t, server)
		under.send(numbered(10)...)
		under.eventually(func() bool { return under.counted("partial_success_rejected_items", "") == 3 }, "counted")
		assert.Empty(t, under.dead())
	})
}

func TestALimitThatARequestExceedsForEverHoldsNobodyBack(t *testing.T) {
	for name, answer := range map[string]int{"rate": http.StatusTooManyRequests, "time": http.StatusGatewayTimeout} {
		t.Run(name, func(t *testing.T) {
			server := &backend{}
			server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
				if len(names) > 100 {
					writer.WriteHeader(answer)
				}
				return len(names) > 100
			})
			under := overHTTP(t, server, queueOf(1000, durable.PushBack, "")) // one consumer
			large := numbered(950)
			under.send(large...)
			for range 50 {
				under.send("small")
			}
			under.eventually(func() bool { return len(server.names()) == 1000 }, "in pieces, and the small ones behind it")
			assert.Equal(t, large, slices.DeleteFunc(server.names(), func(name string) bool { return name == "small" }), "each once")
			assert.Empty(t, under.dead())
			assert.Less(t, server.seen(), 200)
		})
	}
}

func TestAnItemForWhichThereIsNoTimeEverIsBuriedWithTheAnswerWhileOthersGetThrough(t *testing.T) {
	server := &backend{}
	server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
		bad := slices.Contains(names, "bad")
		if bad {
			http.Error(writer, "rate limit of this stream", http.StatusTooManyRequests)
		}
		return bad
	})
	under := overHTTP(t, server)
	under.send("bad")
	for number := range 60 {
		under.send("other")
		under.eventually(func() bool { return len(server.names()) > number }, "the others are not blocked")
	}
	under.eventually(func() bool { return len(under.dead()) == 1 }, "buried")
	assert.Equal(t, []string{"bad"}, deadNames(under.dead()))
	assert.Contains(t, under.dead()[0].DeadLetter.Error, "429")
}

func TestTheEndpointsOwnDelayIsKept(t *testing.T) {
	server := &backend{}
	server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, _ []string) bool {
		writer.Header().Set("Retry-After", "3600")
		writer.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	under := overHTTP(t, server)
	under.send("one")
	under.eventually(func() bool { return under.logs.FilterField(stringField("interval", "1h0m0s")).Len() == 1 }, "an hour")
}

func TestABatchThatFailsWhileOthersGetThroughIsSearched(t *testing.T) {
	for _, code := range []int{http.StatusInternalServerError, http.StatusForbidden} {
		server := &backend{}
		server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
			bad := slices.Contains(names, "bad")
			if bad {
				writer.WriteHeader(code)
			}
			return bad
		})
		under := overHTTP(t, server)
		under.send("good", "bad")
		for index := range 50 {
			under.eventually(func() bool { return len(server.names()) >= index }, "the rest is not blocked")
			under.send("other")
		}
		under.eventually(func() bool { return len(under.dead()) == 1 && len(server.names()) == 51 }, "found")
		assert.Equal(t, []string{"bad"}, deadNames(under.dead()))
	}
}
