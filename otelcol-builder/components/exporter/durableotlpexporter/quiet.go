package durableotlpexporter

import (
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// onceAMinute returns a logger that says each message at most once a minute.
func onceAMinute(logger *zap.Logger) *zap.Logger {
	return logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Minute, 1, 0)
	}))
}

// innerCore is the log of the stock exporter inside and of the exporterhelper. What they say about failed requests is left
// out, since it is said here with the fix.
type innerCore struct{ zapcore.Core }

func (c innerCore) With(fields []zapcore.Field) zapcore.Core {
	return innerCore{c.Core.With(fields)}
}

func (c innerCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Core.Enabled(entry.Level) {
		return checked
	}
	return checked.AddCore(entry, c)
}

// The messages and fields of the stock parts; tests drive them, so an upgrade that changes them is noticed. The second message
// is exporterhelper's word for a request that a shutdown interrupts: it stays in the queue on disk, or becomes a dead letter.
const (
	rejectedMessage    = "Exporting failed. Rejecting data."
	interruptedMessage = "Exporting failed. Dropping data."
	interruptedError   = "interrupted due to shutdown"
	retryMessage       = "Exporting failed. Will retry"
)

func (c innerCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	// One line for each attempt, about what is said once a minute: for those who look for an error in detail.
	if strings.HasPrefix(entry.Message, retryMessage) && !c.Core.Enabled(zapcore.DebugLevel) {
		return nil
	}
	if strings.HasPrefix(entry.Message, rejectedMessage) ||
		strings.HasPrefix(entry.Message, interruptedMessage) && says(fields, interruptedError) {
		return nil
	}
	return c.Core.Write(entry, fields)
}

// says tells whether the error among the fields has this text.
func says(fields []zapcore.Field, text string) bool {
	for _, field := range fields {
		if err, isError := field.Interface.(error); isError && strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
