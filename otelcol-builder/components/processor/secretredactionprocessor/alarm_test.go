package secretredactionprocessor

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// reportedTo is a host that keeps what was reported.
type reportedTo struct {
	component.Host
	mutex sync.Mutex
	all   []componentstatus.Status
}

func (r *reportedTo) Report(event *componentstatus.Event) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.all = append(r.all, event.Status())
}

func (r *reportedTo) statuses() []componentstatus.Status {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.all)
}

func startedAlarm(t *testing.T) (*alarm, *reportedTo, *observer.ObservedLogs) {
	t.Helper()
	core, lines := observer.New(zap.WarnLevel)
	host := &reportedTo{Host: componenttest.NewNopHost()}
	made := newAlarm(zap.New(core))
	failOn(t, made.start(t.Context(), host))
	return made, host, lines
}

// saidIn returns what each line of the log says was dropped.
func saidIn(lines *observer.ObservedLogs) []map[string]int64 {
	var said []map[string]int64
	for _, line := range lines.TakeAll() {
		said = append(said, line.ContextMap()["dropped"].(map[string]int64))
	}
	return said
}

func TestWhatIsDroppedIsSaidAtOnceAndThenOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, _, lines := startedAlarm(t)
		defer one.stop()
		one.raise(nil)
		equal(t, "nothing dropped", len(saidIn(lines)), 0)
		for range 5 {
			one.raise(map[string]int64{reasonCost: 2})
		}
		said := saidIn(lines)
		equal(t, "lines at once", len(said), 1)
		equal(t, "of the first", said[0][reasonCost], 2)
		time.Sleep(saidEvery)
		synctest.Wait()
		said = saidIn(lines)
		equal(t, "lines after a minute", len(said), 1)
		equal(t, "of the others", said[0][reasonCost], 8)
		time.Sleep(saidEvery)
		synctest.Wait()
		equal(t, "lines of a quiet minute", len(saidIn(lines)), 0)
	})
}

func TestTheStatusIsAnErrorUntilNothingWasDroppedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, host, _ := startedAlarm(t)
		defer one.stop()
		last := func() componentstatus.Status { synctest.Wait(); all := host.statuses(); return all[len(all)-1] }
		one.raise(map[string]int64{reasonSize: 1})
		time.Sleep((quietMinutes - 1) * saidEvery)
		one.raise(map[string]int64{reasonSize: 1})
		time.Sleep((quietMinutes - 1) * saidEvery)
		equal(t, "while it goes on", last(), componentstatus.StatusRecoverableError)
		time.Sleep(2 * saidEvery)
		equal(t, "afterwards", last(), componentstatus.StatusOK)
		one.raise(map[string]int64{reasonSize: 1})
		equal(t, "again", last(), componentstatus.StatusRecoverableError)
		equal(t, "reports", len(host.statuses()), 3)
	})
}

func TestWhatWasNotSaidYetIsSaidWhenTheCollectorStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, _, lines := startedAlarm(t)
		one.raise(map[string]int64{reasonCost: 1})
		one.raise(map[string]int64{reasonCost: 1})
		one.stop()
		equal(t, "lines", len(saidIn(lines)), 2)
	})
}

func TestADropReachesTheStatusOfTheProcessor(t *testing.T) {
	set := processortest.NewNopSettings(NewFactory().Type())
	host := &reportedTo{Host: componenttest.NewNopHost()}
	logs, err := NewFactory().CreateLogs(t.Context(), set, defaultConfig(), consumertest.NewNop())
	failOn(t, err)
	failOn(t, logs.Start(t.Context(), host))
	failOn(t, logs.ConsumeLogs(t.Context(), bodies(sentence)))
	equal(t, "reports of a batch without a drop", len(host.statuses()), 0)
	failOn(t, logs.ConsumeLogs(t.Context(), bodies(strings.Repeat("long ", maximumTextBytes))))
	equal(t, "reports of one with a drop", len(host.statuses()), 1)
	failOn(t, logs.Shutdown(t.Context()))
}
