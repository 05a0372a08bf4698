package durableotlpexporter_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	durable "otel-rl.example/otelcol-rl/exporter/durableotlpexporter"
	"otel-rl.example/otelcol-rl/exporter/durableotlpexporter/durableotlpgrpc"
)

func stringField(key, value string) zapcore.Field { return zap.String(key, value) }

func unavailable(writer http.ResponseWriter, _ *http.Request, _ []string) bool {
	writer.WriteHeader(http.StatusServiceUnavailable)
	return true
}

func queueOf(size int64, whenFull, name string) tuning {
	return func(config *durable.Durability, queue *queueing) {
		config.WhenFull, queue.size, queue.name = whenFull, size, name
	}
}

func TestWhileOneQueueIsFullNoExporterTakesData(t *testing.T) {
	living, dead := &backend{}, &backend{}
	dead.answerHTTP(unavailable)
	first := overHTTP(t, living, queueOf(1000, durable.PushBack, "living"))
	second := overHTTP(t, dead, queueOf(2, durable.PushBack, "dead"))
	accepted := 0
	for range 500 {
		// A sender that repeats at once what was not taken, through a fan-out that asks one exporter after the other.
		errFirst := first.ConsumeTraces(context.Background(), spans("one"))
		errSecond := second.ConsumeTraces(context.Background(), spans("one"))
		if errFirst == nil && errSecond == nil {
			accepted++
		}
	}
	first.eventually(func() bool { return len(living.names()) > 0 && first.gauge("oldest_undelivered_age") == 0 }, "delivered")
	assert.LessOrEqual(t, len(living.names())-accepted, 1, "one duplicate for the request that found the queue full")
	assert.Positive(t, first.counted("pushed_back_items", ""))

	dead.answerHTTP(nil)
	first.eventually(func() bool {
		errFirst := first.ConsumeTraces(context.Background(), spans("after"))
		errSecond := second.ConsumeTraces(context.Background(), spans("after"))
		return errFirst == nil && errSecond == nil
	}, "open again when the full queue has drained")
}

func TestASideSinkDropsAndCounts(t *testing.T) {
	dead := &backend{}
	dead.answerHTTP(unavailable)
	under := overHTTP(t, dead, queueOf(2, durable.Drop, ""))
	for range 50 {
		under.send("one", "two")
	}
	assert.GreaterOrEqual(t, under.counted("overflow_dropped_items", ""), int64(90))
	assert.Equal(t, 1, under.logs.FilterMessageSnippet("items are dropped").Len())
}

func TestASenderThatCannotRepeatWaitsUntilThereIsRoom(t *testing.T) {
	server := &backend{}
	server.answerHTTP(unavailable)
	under := overHTTP(t, server, queueOf(2, durable.Wait, ""))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range 20 {
			assert.NoError(t, under.ConsumeTraces(context.Background(), spans("one")))
		}
	}()
	under.eventually(func() bool { return under.counted("failed_requests", "") > 3 }, "full")
	select {
	case <-sent:
		t.Fatal("the sender did not wait")
	default:
	}
	server.answerHTTP(nil)
	<-sent
	under.eventually(func() bool { return len(server.names()) == 20 }, "nothing is lost")
}

func TestWhatIsLargerThanTheWholeQueueIsTakenInParts(t *testing.T) {
	server := &backend{}
	under := overHTTP(t, server, queueOf(1000, durable.Wait, ""), func(_ *durable.Durability, queue *queueing) { queue.bytes = true })
	names := append(numbered(100), string(make([]byte, 2000)))
	under.send(names...)
	under.eventually(func() bool { return len(server.names()) == 100 && len(under.dead()) == 1 }, "in parts")
	assert.Equal(t, numbered(100), server.names())
	assert.Equal(t, "too_large", under.dead()[0].DeadLetter.Reason)
}

func TestWhatAQueueInMemoryCannotDeliverBeforeTheEndBecomesDeadLetters(t *testing.T) {
	server := &backend{}
	server.answerHTTP(unavailable)
	under := overHTTP(t, server, queueOf(1000, durable.PushBack, ""))
	for range 20 {
		under.send("one")
	}
	under.eventually(func() bool { return under.counted("failed_requests", "") > 1 }, "tried")
	require.NoError(t, under.Shutdown(context.Background()))
	assert.Len(t, deadNames(under.dead()), 20)
	assert.Equal(t, "shutdown", under.dead()[0].DeadLetter.Reason)
	assert.Empty(t, under.logs.FilterMessageSnippet("Dropping data").All())
}

func TestAnEndpointThatIsAwayHoldsSendersForAMomentOnlyAndTheirDataBecomesDeadLetters(t *testing.T) {
	server := &backend{}
	server.answerHTTP(unavailable)
	under := overHTTP(t, server, queueOf(2, durable.Wait, ""))
	for range 200 { // each of them for seconds would take longer than the test may
		under.send("one")
	}
	assert.GreaterOrEqual(t, len(deadNames(under.dead())), 190)
	assert.Equal(t, "queue_full", under.dead()[0].DeadLetter.Reason)
	server.answerHTTP(nil)
	under.eventually(func() bool { return under.gauge("oldest_undelivered_age") == 0 }, "the queue drains")
	under.send("after")
	under.eventually(func() bool { return slices.Contains(server.names(), "after") }, "the queue takes data again")
	assert.Equal(t, 201, len(server.names())+len(deadNames(under.dead())), "nothing is lost or comes twice")
}

func TestNoSignalChangesWhatASenderDoes(t *testing.T) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // as the collector does, which then starts its exporters anew
	t.Cleanup(func() { signal.Stop(hangup) })
	first := overHTTP(t, &backend{}, queueOf(2, durable.Wait, "first"))
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	<-hangup
	require.NoError(t, first.Shutdown(context.Background()))
	server := &backend{}
	server.answerHTTP(unavailable)
	second := overHTTP(t, server, queueOf(2, durable.Wait, "second"))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range 20 {
			assert.NoError(t, second.ConsumeTraces(context.Background(), spans("one")))
		}
	}()
	second.eventually(func() bool { return second.counted("failed_requests", "") > 3 }, "full")
	assert.Empty(t, second.dead(), "the sender waits")
	server.answerHTTP(nil)
	<-sent
	second.eventually(func() bool { return len(server.names()) == 20 }, "nothing is lost")
	assert.Empty(t, second.dead())
}

func TestDataThatComesAfterTheEndBecomesADeadLetter(t *testing.T) {
	under := overHTTP(t, &backend{}, queueOf(2, durable.Wait, ""))
	require.NoError(t, under.Shutdown(context.Background()))
	under.send("late")
	assert.Equal(t, []string{"late"}, deadNames(under.dead()))
}

func TestWhatNeitherQueueNorDeadLetterTakesIsCountedAsLost(t *testing.T) {
	server := &backend{}
	server.answerHTTP(unavailable)
	under := overHTTP(t, server, queueOf(2, durable.Wait, ""))
	require.NoError(t, os.RemoveAll(under.letters))
	refusals := 0
	for refusals < 3 {
		if under.ConsumeTraces(context.Background(), spans("one", "two")) != nil {
			refusals++
		}
	}
	assert.EqualValues(t, 6, under.counted("overflow_dropped_items", ""))
	assert.Len(t, under.logs.FilterMessageSnippet("are lost").All(), 1, "once a minute")
	require.NoError(t, os.Mkdir(under.letters, 0o700))
}

func TestTheEndDoesNotWaitForADeadEndpoint(t *testing.T) {
	server := &backend{}
	server.answerHTTP(unavailable)
	for _, whenFull := range []string{durable.Wait, durable.PushBack, durable.Drop} {
		under := overHTTP(t, server, queueOf(2, whenFull, ""))
		senders := make(chan struct{})
		go func() {
			defer close(senders)
			for range 10 {
				_ = under.ConsumeTraces(context.Background(), spans("one"))
			}
		}()
		under.eventually(func() bool { return under.counted("failed_requests", "") > 1 }, "tried")
		ended := make(chan error, 1)
		go func() { ended <- under.Shutdown(context.Background()) }()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(patience):
			t.Fatal("the end waits for the endpoint")
		}
		<-senders
	}
}

func TestTwoCollectorsCannotShareAFolderOfDeadLetters(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "letters")
	require.NoError(t, os.Mkdir(directory, 0o700))
	other, err := os.Create(filepath.Join(directory, ".in-use"))
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	config := durableotlpgrpc.NewFactory().CreateDefaultConfig().(*durableotlpgrpc.Config)
	config.Exporter.ClientConfig.Endpoint = "127.0.0.1:1"
	config.Durability.DeadLetter.Directory = directory
	settings := exporter.Settings{ID: component.NewID(durableotlpgrpc.NewFactory().Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	made, err := durableotlpgrpc.NewFactory().CreateTraces(t.Context(), settings, config)
	require.NoError(t, err)
	require.ErrorContains(t, made.Start(context.Background(), &host{}), "OTEL_RL_COLLECTOR_DEAD_LETTER_DIR")
	require.NoError(t, other.Close())
	require.NoError(t, made.Start(context.Background(), &host{}))
	require.NoError(t, made.Shutdown(context.Background()))
}

func TestWhatElseLiesInTheFolderOfDeadLettersIsLeftAlone(t *testing.T) {
	server := &backend{}
	server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
		if len(names) > 0 {
			writer.WriteHeader(http.StatusBadRequest)
		}
		return len(names) > 0
	})
	under := overHTTP(t, server, func(config *durable.Durability, _ *queueing) {
		config.DeadLetter.MaxMegabytes, config.DeadLetter.MaxFiles = 1, 2
	})
	foreign := filepath.Join(under.letters, "rollouts.jsonl")
	require.NoError(t, os.WriteFile(foreign, []byte(strings.Repeat("x", 2_000_000)), 0o600))
	under.send("one")
	under.eventually(func() bool { return under.counted("dead_letter_items", "") == 1 }, "written")
	assert.FileExists(t, foreign)
	require.NoError(t, os.Remove(foreign))
	assert.Equal(t, []string{"one"}, deadNames(under.dead()))
}

func TestALossAtTheEndIsSaid(t *testing.T) {
	server := &backend{}
	server.answerHTTP(unavailable)
	under := overHTTP(t, server, queueOf(1000, durable.PushBack, ""))
	for range 20 {
		under.send("one")
	}
	under.eventually(func() bool { return under.counted("failed_requests", "") > 1 }, "tried")
	require.NoError(t, os.RemoveAll(under.letters))
	require.Error(t, under.Shutdown(context.Background()))
	said := under.logs.FilterMessageSnippet("is lost").All()
	require.Len(t, said, 1)
	assert.EqualValues(t, 20, said[0].ContextMap()["lost_items"])
	under.Traces = once{Traces: under.Traces, end: func() error { return nil }}
}

// The log of the parts of the collector inside is filtered by their words. A release that changes them fails here.
func TestOfAnOutageOnlyOurWordsAreLoggedWithTheirFix(t *testing.T) {
	logLevel = zapcore.InfoLevel
	t.Cleanup(func() { logLevel = zapcore.DebugLevel })
	server := &backend{}
	server.answerHTTP(unavailable)
	under := overHTTP(t, server, queueOf(1000, durable.PushBack, ""))
	for range 20 {
		under.send("one")
	}
	under.eventually(func() bool { return under.counted("failed_requests", "") > 2 }, "tried again")
	require.NoError(t, under.Shutdown(context.Background()))
	assert.Len(t, under.logs.FilterMessageSnippet("waits in the queue").All(), 1)
	for _, entry := range under.logs.All() {
		assert.Contains(t, entry.Message, "Fix: ")
	}
}

func TestNeitherLogNorStatusNorDeadLetterShowsThePasswordOfTheEndpoint(t *testing.T) {
	logLevel = zapcore.InfoLevel
	t.Cleanup(func() { logLevel = zapcore.DebugLevel })
	for name, answer := range map[string]int{"waits": http.StatusServiceUnavailable, "refused": http.StatusBadRequest} {
		t.Run(name, func(t *testing.T) {
			server := &backend{}
			server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
				if answer == http.StatusBadRequest && !slices.Contains(names, "bad") {
					return false
				}
				writer.WriteHeader(answer)
				return true
			})
			under := overHTTP(t, server, func(config *durable.Durability, queue *queueing) {
				config.UnhealthyAfter = time.Nanosecond
				queue.endpoint = strings.Replace(queue.endpoint, "//", "//team:S3cr3t@", 1) + "/p?token=S3cr3t#"
			})
			under.send("good", "bad")
			if answer == http.StatusBadRequest {
				under.eventually(func() bool { return len(under.dead()) == 1 }, "buried")
				assert.Contains(t, under.dead()[0].DeadLetter.Error, "request to http://127.0.0.1:")
				assert.NotContains(t, under.dead()[0].DeadLetter.Error, "S3cr3t")
			}
			under.eventually(func() bool { return len(under.logs.All()) > 0 }, "said")
			require.NoError(t, under.Shutdown(context.Background()))
			for _, entry := range under.logs.All() {
				assert.NotContains(t, fmt.Sprint(entry.Message, entry.ContextMap()), "S3cr3t")
			}
			for _, event := range under.host.events {
				assert.NotContains(t, fmt.Sprint(event.Err()), "S3cr3t")
			}
		})
	}
}

func TestADeadLetterThatIsLargerThanTheFolderMayBeIsKeptAlone(t *testing.T) {
	server := &backend{}
	server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
		if len(names) > 0 {
			http.Error(writer, "no", http.StatusBadRequest)
		}
		return len(names) > 0
	})
	under := overHTTP(t, server, func(config *durable.Durability, _ *queueing) {
		config.DeadLetter.MaxMegabytes, config.DeadLetter.MaxFiles = 1, 2
	})
	huge := strings.Repeat("x", 1_500_000)
	for number, name := range []string{"small", huge, "small"} {
		under.send(name)
		under.eventually(func() bool { return under.counted("dead_letter_items", "") == int64(number+1) }, "written")
		assert.Equal(t, []string{name}, deadNames(under.dead()), "what was there before had to go")
	}
	assert.EqualValues(t, 2, under.counted("dead_letter_removed_items", ""))
}

func TestLateDeliveryThatEndsAltogetherChangesTheReason(t *testing.T) {
	server := &backend{}
	under := overHTTP(t, server, func(config *durable.Durability, _ *queueing) {
		config.UnhealthyAfter, config.UnhealthyLag = time.Millisecond, time.Nanosecond
	})
	under.send("one")
	under.eventually(func() bool { return len(under.host.statuses()) == 1 }, "late")
	server.answerHTTP(unavailable)
	under.send("two")
	under.eventually(func() bool { return len(under.host.statuses()) == 3 }, "green for a moment, then red for another reason")
	assert.Contains(t, under.host.events[2].Err().Error(), "nothing could be delivered")
}

func TestStatusTurnsRedAndGreenAgain(t *testing.T) {
	server := &backend{}
	server.answerHTTP(unavailable)
	soon := func(config *durable.Durability, _ *queueing) { config.UnhealthyAfter = 20 * time.Millisecond }
	under := overHTTP(t, server, soon)
	other := overHTTP(t, &backend{}, soon)
	other.send("one")
	under.send("one")
	under.eventually(func() bool { return len(under.host.statuses()) == 1 }, "red")
	assert.Equal(t, componentstatus.StatusRecoverableError, under.host.statuses()[0])
	assert.InDelta(t, 1, under.gauge("unhealthy"), 0)
	assert.Positive(t, under.gauge("time_since_success"))
	server.answerHTTP(nil)
	under.eventually(func() bool { return len(under.host.statuses()) == 2 }, "green")
	assert.Equal(t, componentstatus.StatusOK, under.host.statuses()[1])
	assert.Empty(t, other.host.statuses(), "another exporter is not concerned")
}

func TestLateDeliveryTurnsTheStatusRed(t *testing.T) {
	under := overHTTP(t, &backend{}, func(config *durable.Durability, _ *queueing) { config.UnhealthyLag = time.Nanosecond })
	under.send("one")
	under.eventually(func() bool { return len(under.host.statuses()) == 1 }, "red")
	assert.Contains(t, under.host.events[0].Err().Error(), "old")
}

func TestAFirstSuccessThatIsLateReplacesTheReasonOfTheStatus(t *testing.T) {
	server := &backend{}
	server.answerHTTP(unavailable)
	under := overHTTP(t, server, func(config *durable.Durability, _ *queueing) {
		config.UnhealthyAfter, config.UnhealthyLag = time.Millisecond, time.Nanosecond
	})
	under.send("one")
	under.eventually(func() bool { return len(under.host.statuses()) == 1 }, "red")
	server.answerHTTP(nil)
	under.eventually(func() bool { return len(under.host.statuses()) == 3 }, "green for a moment, then red for another reason")
	assert.Contains(t, under.host.events[2].Err().Error(), "late")
}

func TestDeadLettersAreReadableByTheirOwnerOnlyAndBounded(t *testing.T) {
	server := &backend{}
	server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
		if len(names) > 0 {
			http.Error(writer, "no", http.StatusBadRequest)
		}
		return len(names) > 0
	})
	under := overHTTP(t, server, func(config *durable.Durability, _ *queueing) {
		config.DeadLetter.MaxMegabytes, config.DeadLetter.MaxFiles = 1, 2
	})
	long := string(make([]byte, 30_000))
	for number := range 60 {
		under.send(long)
		under.eventually(func() bool { return under.counted("dead_letter_items", "") == int64(number+1) }, "written")
	}
	kept := len(under.dead())
	assert.Positive(t, kept)
	assert.EqualValues(t, 60-kept, under.counted("dead_letter_removed_items", ""), "what went is counted item by item")
	assert.LessOrEqual(t, under.gauge("dead_letter_size"), 1e6)
	assert.LessOrEqual(t, under.gauge("dead_letter_files"), 2.0)
	assert.NotEmpty(t, under.logs.FilterMessageSnippet("oldest file is removed").All())
	directory, err := os.Stat(under.letters)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), directory.Mode().Perm())
	files, _ := filepath.Glob(filepath.Join(under.letters, "*"))
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}

func TestRefusedItemsWaitWhileNoDeadLetterCanBeWritten(t *testing.T) {
	server := &backend{}
	server.answerHTTP(func(writer http.ResponseWriter, _ *http.Request, names []string) bool {
		if len(names) > 0 {
			writer.WriteHeader(http.StatusBadRequest)
		}
		return len(names) > 0
	})
	under := overHTTP(t, server)
	require.NoError(t, os.RemoveAll(under.letters))
	under.send("one")
	under.eventually(func() bool { return under.counted("dead_letter_failures", "") > 1 }, "tried again")
	require.NoError(t, os.Mkdir(under.letters, 0o700))
	under.eventually(func() bool { return len(under.dead()) == 1 }, "written when the folder is back")
}

func TestSettingsThatWouldLoseDataAreRefused(t *testing.T) {
	valid := func() *durableotlpgrpc.Config {
		config := durableotlpgrpc.NewFactory().CreateDefaultConfig().(*durableotlpgrpc.Config)
		config.Durability.DeadLetter.Directory = "letters"
		return config
	}
	require.NoError(t, valid().Validate())
	require.NoError(t, valid().Durability.Validate())
	config := valid()
	config.Exporter.RetryConfig.MaxElapsedTime = time.Minute
	require.ErrorContains(t, config.Validate(), "max_elapsed_time: 0")
	config = valid()
	config.Exporter.QueueConfig.Get().Batch = configoptional.Some(exporterhelper.BatchConfig{MaxSize: 1, Sizer: exporterhelper.RequestSizerTypeBytes})
	require.ErrorContains(t, config.Validate(), "batch.sizer: items")
	config.Exporter.QueueConfig.Get().Batch.Get().Sizer = exporterhelper.RequestSizerTypeItems
	require.NoError(t, config.Validate())
	config = valid()
	config.Exporter.QueueConfig.Get().WaitForResult = true
	require.ErrorContains(t, config.Validate(), "wait_for_result")
	config = valid()
	config.Exporter.QueueConfig.Get().BlockOnOverflow = true
	require.ErrorContains(t, config.Validate(), "when_full: wait")
	config = valid()
	config.Durability.DeadLetter.Directory = ""
	require.ErrorContains(t, config.Durability.Validate(), "dead_letter.directory")
	config = valid()
	config.Durability.WhenFull = "perhaps"
	require.ErrorContains(t, config.Durability.Validate(), "when_full")
}
