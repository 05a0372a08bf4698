package secretredactionprocessor

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.uber.org/zap"
)

const (
	// saidEvery is how often the log says that something was dropped.
	saidEvery = time.Minute
	// quietMinutes without a drop end the report at /status; the Prometheus alert resolves then as well.
	quietMinutes = 15
)

var errDropping = errors.New("values that could not be scanned are dropped; the log says each minute how many and why." +
	" Fix: look for \"" + droppedStart + "\" in what was stored, and correct or shorten what writes there")

// alarm tells people what was dropped: in the log once a minute, and at /status until nothing was dropped for a while.
type alarm struct {
	logger *zap.Logger

	mutex  sync.Mutex
	host   component.Host
	unsaid map[string]int64
	quiet  int         // minutes since the last drop
	timer  *time.Timer // of the next minute; nil while there is nothing to tell
}

func newAlarm(logger *zap.Logger) *alarm {
	return &alarm{logger: logger, unsaid: map[string]int64{}}
}

// start notes whom to tell.
func (a *alarm) start(_ context.Context, host component.Host) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.host = host
	return nil
}

// stop ends the minutes.
func (a *alarm) stop() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.host = nil; a.timer != nil {
		a.timer.Stop()
		a.say()
	}
}

// raise notes what was dropped in a batch, by reason. The first drop is told at once, later ones at the end of a minute.
func (a *alarm) raise(dropped map[string]int64) {
	if len(dropped) == 0 {
		return
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for reason, number := range dropped {
		a.unsaid[reason] += number
	}
	if a.timer == nil && a.host != nil {
		a.say()
		a.timer = time.AfterFunc(saidEvery, a.minute)
		componentstatus.ReportStatus(a.host, componentstatus.NewRecoverableErrorEvent(errDropping))
	}
}

// minute tells what was dropped within it, or ends the report when all has been quiet.
func (a *alarm) minute() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.host == nil {
		return
	}
	a.quiet++
	a.say()
	if a.quiet < quietMinutes {
		a.timer.Reset(saidEvery)
		return
	}
	a.timer = nil
	componentstatus.ReportStatus(a.host, componentstatus.NewEvent(componentstatus.StatusOK))
}

// say writes what was not said yet.
func (a *alarm) say() {
	if len(a.unsaid) == 0 {
		return
	}
	a.logger.Warn("Redaction drops values that it cannot scan; a marker with the reason stands in their place."+
		" Fix: look for the marker in what was stored, and correct or shorten what writes there.",
		zap.String("marker", droppedStart+"REASON]"), zap.Any("dropped", maps.Clone(a.unsaid)))
	clear(a.unsaid)
	a.quiet = 0
}
