package statusextension

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestConfigNeedsAnAddressAndNamedFolders(t *testing.T) {
	good := Config{Endpoint: "127.0.0.1:1", Folders: map[string]string{"queue": "/q"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Config{{Endpoint: "127.0.0.1"}, {Endpoint: "a:1", Folders: map[string]string{"queue": ""}}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestAnOccupiedAddressIsNamedWithItsVariable(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	extension, err := newStatusExtension(&Config{Endpoint: taken.Addr().String()}, componenttest.NewNopTelemetrySettings())
	if err != nil {
		t.Fatal(err)
	}
	err = extension.Start(context.Background(), componenttest.NewNopHost())
	if err == nil || !strings.Contains(err.Error(), "OTEL_RL_COLLECTOR_HEALTH_ENDPOINT") {
		t.Error(err)
	}
	if err := extension.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestItStartsAndStopsAndStopsWithoutAStart(t *testing.T) {
	extension := extensionForTest(t)
	if err := extension.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	if err := extension.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := extensionForTest(t).Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// gauges collects once and returns the values by metric and folder.
func gauges(t *testing.T, folders map[string]string) map[string]int64 {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	settings := componenttest.NewNopTelemetrySettings()
	settings.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	if _, err := observe(settings, folders); err != nil {
		t.Fatal(err)
	}
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &collected); err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, scoped := range collected.ScopeMetrics {
		for _, metric := range scoped.Metrics {
			for _, point := range metric.Data.(metricdata.Gauge[int64]).DataPoints {
				folder, _ := point.Attributes.Value("folder")
				found[metric.Name+" "+folder.AsString()] = point.Value
			}
		}
	}
	return found
}

func TestSizeOfAFolderCountsTheFilesBelowIt(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"a": 10, "below/b": 5} {
		if err := os.WriteFile(filepath.Join(folder, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := gauges(t, map[string]string{"queue": folder, "not there": filepath.Join(folder, "no")})
	if found["otelcol_folder_size queue"] != 15 || found["otelcol_folder_free queue"] <= 0 || len(found) != 2 {
		t.Error(found)
	}
}
