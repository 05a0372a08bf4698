package durableotlpexporter

import (
	"errors"
	"time"

	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

// What happens to new data when the queue cannot take it.
const (
	// PushBack answers the sender with an error, before any other exporter of the same signal has taken the data.
	PushBack = "push_back"
	// Wait holds the sender for up to two seconds until there is room, and then writes dead letters until there was some: for senders
	// that cannot send again, as those behind tail sampling. An endpoint that is away must not hold back what others wait for.
	Wait = "wait"
	// Drop counts the data and lets it go: a full queue of a side sink must not hold the others back.
	Drop = "drop"
)

// DeadLetter says where refused items are written and how much room they may take.
type DeadLetter struct {
	// Directory is made with mode 0700 at the start. Several exporters may share it; the bounds hold for the directory.
	Directory string `mapstructure:"directory"`
	// MaxMegabytes bounds all dead-letter files of the directory together.
	MaxMegabytes int64 `mapstructure:"max_megabytes"`
	// MaxFiles bounds their number, but not below one for each exporter; a file is closed at MaxMegabytes / MaxFiles.
	MaxFiles int `mapstructure:"max_files"`
}

// Durability holds the keys that the durable exporters add to those of the stock exporter.
type Durability struct {
	DeadLetter DeadLetter `mapstructure:"dead_letter"`
	// UnhealthyAfter is how long nothing may get through before the component reports a recoverable error.
	UnhealthyAfter time.Duration `mapstructure:"unhealthy_after"`
	// UnhealthyLag is how old what is delivered may be before the component reports a recoverable error; 0 is no limit.
	UnhealthyLag time.Duration `mapstructure:"unhealthy_lag"`
	// WhenFull is push_back, wait or drop.
	WhenFull string `mapstructure:"when_full"`
}

// NewDurability returns the default values.
func NewDurability() Durability {
	return Durability{
		DeadLetter:     DeadLetter{MaxMegabytes: 256, MaxFiles: 16},
		UnhealthyAfter: time.Minute,
		UnhealthyLag:   10 * time.Minute,
		WhenFull:       PushBack,
	}
}

// NewRetry returns the default retries: without an end, and at least every ten seconds so that a backlog starts to drain soon
// after the endpoint is back.
func NewRetry() configretry.BackOffConfig {
	retry := configretry.NewDefaultBackOffConfig()
	retry.InitialInterval = time.Second
	retry.MaxInterval = 10 * time.Second
	retry.MaxElapsedTime = 0
	return retry
}

// Validate refuses what would lose data or could not work.
func (d *Durability) Validate() error {
	switch {
	case d.DeadLetter.Directory == "":
		return errors.New("dead_letter.directory must name the folder for what the endpoint refuses for good")
	case d.DeadLetter.MaxMegabytes < 1 || d.DeadLetter.MaxFiles < 1:
		return errors.New("dead_letter.max_megabytes and dead_letter.max_files must be at least 1")
	case d.UnhealthyAfter <= 0 || d.UnhealthyLag < 0:
		return errors.New("unhealthy_after must be more than 0s, and unhealthy_lag at least 0s")
	case d.WhenFull != PushBack && d.WhenFull != Wait && d.WhenFull != Drop:
		return errors.New(`when_full must be "push_back", "wait" or "drop"`)
	}
	return nil
}

// batchSizer returns what the size of a batch is counted in: where it does not say, in what the queue's is.
func batchSizer(queue *exporterhelper.QueueBatchConfig) exporterhelper.RequestSizerType {
	if sizer := queue.Batch.Get().Sizer; sizer != (exporterhelper.RequestSizerType{}) {
		return sizer
	}
	return queue.Sizer
}

// ValidateDelivery refuses queue and retry settings that would drop data in an outage.
func ValidateDelivery(
	queue *configoptional.Optional[exporterhelper.QueueBatchConfig], retry configretry.BackOffConfig,
) error {
	switch {
	case !queue.HasValue():
		return errors.New("sending_queue must be enabled: without it nothing waits for an endpoint that is away")
	case !retry.Enabled || retry.MaxElapsedTime != 0:
		return errors.New("retry_on_failure must be enabled with max_elapsed_time: 0, else data is dropped when it has passed")
	case queue.Get().WaitForResult:
		return errors.New("set no sending_queue.wait_for_result: a sender would wait as long as the endpoint is away")
	case queue.Get().Batch.HasValue() && queue.Get().Batch.Get().MaxSize != 0 && batchSizer(queue.Get()) != exporterhelper.RequestSizerTypeItems:
		return errors.New("set sending_queue.batch.sizer: items with sending_queue.batch.max_size: in bytes, an item that is larger would be" +
			" dropped with the rest of its request; what is too large for the endpoint is split without it")
	case queue.Get().BlockOnOverflow:
		return errors.New("set when_full: wait instead of sending_queue.block_on_overflow")
	}
	return nil
}
