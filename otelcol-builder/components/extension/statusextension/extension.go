package statusextension

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.uber.org/zap"

	"otel-rl.example/otelcol-rl/extension/statusextension/internal/metadata"
)

const (
	readTimeout  = 10 * time.Second
	writeTimeout = 10 * time.Second
)

type statusExtension struct {
	config     *Config
	logger     *zap.Logger
	components *components
	// running: the pipelines are started and not yet being stopped.
	running   atomic.Bool
	server    *http.Server
	served    chan struct{}
	telemetry *metadata.TelemetryBuilder
}

var (
	_ componentstatus.Watcher               = (*statusExtension)(nil)
	_ extensioncapabilities.PipelineWatcher = (*statusExtension)(nil)
)

func newStatusExtension(config *Config, settings component.TelemetrySettings) (*statusExtension, error) {
	created := &statusExtension{config: config, logger: settings.Logger, components: newComponents()}
	telemetry, err := observe(settings, config.Folders)
	if err != nil {
		return nil, fmt.Errorf("own metrics: %w", err)
	}
	created.telemetry = telemetry
	return created, nil
}

// Start listens and serves.
func (e *statusExtension) Start(ctx context.Context, _ component.Host) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.config.Endpoint)
	if err != nil {
		return fmt.Errorf("health_status cannot listen; set OTEL_RL_COLLECTOR_HEALTH_ENDPOINT to a free address: %w", err)
	}
	e.served = make(chan struct{})
	e.server = &http.Server{Handler: e.handler(), ReadTimeout: readTimeout, WriteTimeout: writeTimeout}
	go func() {
		defer close(e.served)
		if err := e.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			e.logger.Error("the health server ended", zap.Error(err))
		}
	}()
	return nil
}

// Shutdown ends the server; probes that wait for an answer still get it.
func (e *statusExtension) Shutdown(ctx context.Context) error {
	e.telemetry.Shutdown()
	if e.server == nil {
		return nil
	}
	err := e.server.Shutdown(ctx)
	<-e.served
	return err
}

// ComponentStatusChanged implements componentstatus.Watcher.
func (e *statusExtension) ComponentStatusChanged(source *componentstatus.InstanceID, event *componentstatus.Event) {
	e.components.record(source, event)
}

// Ready implements extensioncapabilities.PipelineWatcher.
func (e *statusExtension) Ready() error {
	e.running.Store(true)
	return nil
}

// NotReady implements extensioncapabilities.PipelineWatcher.
func (e *statusExtension) NotReady() error {
	e.running.Store(false)
	return nil
}
