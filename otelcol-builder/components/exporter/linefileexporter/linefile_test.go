package linefileexporter

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"otel-rl.example/otelcol-rl/exporter/linefileexporter/internal/metadata"
)

// started returns a started file of at most 1 MiB with two predecessors.
func started(t *testing.T, path string) *lineFile {
	t.Helper()
	file := fileOf(&Config{Path: path, Rotation: Rotation{MaxMegabytes: 1, MaxBackups: 2}}, zap.NewNop())
	require.NoError(t, file.start(t.Context(), nil))
	t.Cleanup(func() { assert.NoError(t, file.shutdown(t.Context())) })
	return file
}

// numbered returns a line of this length that begins with a number.
func numbered(number, length int) []byte {
	line := bytes.Repeat([]byte{'x'}, length)
	copy(line, fmt.Sprintf("%06d ", number))
	line[length-1] = '\n'
	return line
}

func content(t *testing.T, path string) string {
	t.Helper()
	read, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(read)
}

// smallDisk returns a folder on a disk of 256 KiB and a function that makes it larger.
func smallDisk(t *testing.T) (folder string, enlarge func()) {
	t.Helper()
	folder = t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(folder, 0)) })
	return folder, func() {
		require.NoError(t, syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT, "size=1m"))
	}
}

func TestOnAFullDiskWhatWasTakenIsWholeAndNothingElseIsThere(t *testing.T) {
	folder, enlarge := smallDisk(t)
	file := fileOf(&Config{Path: filepath.Join(folder, "data", "traces.jsonl"), Rotation: Rotation{MaxMegabytes: 8, MaxBackups: 1}}, zap.NewNop())
	require.NoError(t, file.start(t.Context(), nil))
	defer func() { assert.NoError(t, file.shutdown(t.Context())) }()
	var taken []byte
	refused := 0
	send := func(first int) {
		for number := range 20 {
			line := numbered(first+number, 30_001)
			if err := file.write(line); err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				refused++
				continue
			}
			taken = append(taken, line...)
		}
	}
	send(0)
	require.Positive(t, refused)
	require.Equal(t, string(taken), content(t, file.config.Path))
	enlarge()
	refused = 0
	send(100)
	require.Zero(t, refused)
	require.Equal(t, string(taken), content(t, file.config.Path))
}

func TestHalfALineOfAKilledProcessIsCutOff(t *testing.T) {
	for _, half := range []string{`{`, `{"resourceSp`, `{"resourceLogs` + strings.Repeat("y", 3*readBackwards)} {
		for _, whole := range []string{"", "{}\n", strings.Repeat("z", 2*readBackwards) + "\n"} {
			path := filepath.Join(t.TempDir(), "traces.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(whole+half), 0o600))
			require.NoError(t, started(t, path).write([]byte("next\n")))
			require.Equal(t, whole+"next\n", content(t, path))
		}
	}
}

// A trainer's file may have the name of one of ours, and its last record no line end.
func TestALastLineOfAnotherProgramIsEndedAndStays(t *testing.T) {
	for _, last := range []string{`{"reward": 1}`, `{"r": 1}`, "12", strings.Repeat("y", 3*readBackwards)} {
		for _, whole := range []string{"", "{}\n"} {
			path := filepath.Join(t.TempDir(), "metrics.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(whole+last), 0o600))
			file := started(t, path)
			require.NoError(t, file.write([]byte("next\n")))
			require.NoError(t, file.write([]byte("after\n")))
			require.Equal(t, whole+last+"\nnext\nafter\n", content(t, path))
		}
	}
}

// The rest of a failed write that could not be cut off at once goes before the next line.
func TestNoLineIsWrittenBehindHalfOfAnother(t *testing.T) {
	file := started(t, filepath.Join(t.TempDir(), "traces.jsonl"))
	require.NoError(t, file.write([]byte("first\n")))
	_, err := file.file.WriteString(`{"resourceSpans":`)
	require.NoError(t, err)
	file.torn = true
	require.NoError(t, file.write([]byte("second\n")))
	require.Equal(t, "first\nsecond\n", content(t, file.config.Path))
}

func TestASecondWriterIsRefusedAndToldByWhomAndWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	first := fileOf(&Config{Path: path}, zap.NewNop())
	second := fileOf(&Config{Path: path}, zap.NewNop())
	require.NoError(t, first.start(t.Context(), nil))
	err := second.start(t.Context(), nil)
	require.ErrorContains(t, err, fmt.Sprintf("traces.jsonl is in use by process %d on ", os.Getpid()))
	require.ErrorContains(t, err, "give each collector a folder of its own (OTEL_RL_COLLECTOR_DATA_DIR)")
	require.NoError(t, first.shutdown(t.Context()))
	require.NoError(t, second.start(t.Context(), nil))
	require.NoError(t, second.shutdown(t.Context()))
}

// The lock is that of the file, by whatever way it is reached.
func TestAFolderIsTheSameBehindALink(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(folder, link))
	started(t, filepath.Join(folder, "logs.jsonl"))
	second := fileOf(&Config{Path: filepath.Join(link, "logs.jsonl")}, zap.NewNop())
	require.ErrorContains(t, second.start(t.Context(), nil), "is in use by process")
	started(t, filepath.Join(link, "traces.jsonl"))
}

func TestAFolderThatCannotBeWrittenIsRefusedWithTheFix(t *testing.T) {
	file := fileOf(&Config{Path: "/dev/null/folder/traces.jsonl"}, zap.NewNop())
	require.ErrorContains(t, file.start(t.Context(), nil), "set OTEL_RL_COLLECTOR_DATA_DIR to a folder that can be written")
}

func TestAFullFileIsMovedAsideAndTheOldestGoes(t *testing.T) {
	folder := t.TempDir()
	file := started(t, filepath.Join(folder, "traces.jsonl"))
	for _, name := range []string{"traces-2020-01-02T03-04-05.678-size.jsonl", "traces-mine.jsonl", "traces-2020.jsonl", "logs-2020-01-02T03-04-05.678.jsonl"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	for number := range 35 { // ten in a file
		require.NoError(t, file.write(numbered(number, 100_000)))
	}
	closed, err := file.closed()
	require.NoError(t, err)
	require.Len(t, closed, 2)
	found := ""
	for _, path := range append(closed, file.config.Path) {
		for line := range strings.Lines(content(t, path)) {
			found += line[:7]
		}
	}
	wanted := ""
	for number := range 25 {
		wanted += fmt.Sprintf("%06d ", 10+number)
	}
	require.Equal(t, wanted, found)
	require.FileExists(t, filepath.Join(folder, "traces-mine.jsonl"))
	require.FileExists(t, filepath.Join(folder, "traces-2020.jsonl"))
	require.FileExists(t, filepath.Join(folder, "logs-2020-01-02T03-04-05.678.jsonl"))
}

func TestALineThatIsLongerThanAFileIsWrittenAlone(t *testing.T) {
	file := started(t, filepath.Join(t.TempDir(), "traces.jsonl"))
	for number := range 3 {
		require.NoError(t, file.write(numbered(number, 2*mebibyte)))
	}
	closed, err := file.closed()
	require.NoError(t, err)
	require.Len(t, closed, 2)
	require.Len(t, content(t, file.config.Path), 2*mebibyte)
}

func TestWhatIsRemovedIsBegunAnew(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	file := started(t, filepath.Join(folder, "traces.jsonl"))
	require.NoError(t, os.RemoveAll(folder)) // before the first line
	require.NoError(t, file.write([]byte("first\n")))
	require.NoError(t, os.Remove(file.config.Path))
	require.NoError(t, file.write([]byte("second\n")))
	require.Equal(t, "second\n", content(t, file.config.Path))
	second := fileOf(&Config{Path: file.config.Path}, zap.NewNop())
	require.ErrorContains(t, second.start(t.Context(), nil), "is in use")
}

func TestWhatAnotherProgramAppendsStays(t *testing.T) {
	file := started(t, filepath.Join(t.TempDir(), "traces.jsonl"))
	require.NoError(t, file.write([]byte("first\n")))
	other, err := os.OpenFile(file.config.Path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = other.WriteString("other\n")
	require.NoError(t, err)
	require.NoError(t, other.Close())
	require.NoError(t, file.write([]byte("second\n")))
	require.Equal(t, "first\nother\nsecond\n", content(t, file.config.Path))
}

func TestADeviceIsWrittenAndNeverCut(t *testing.T) {
	folder := t.TempDir()
	for device, wanted := range map[string]error{"/dev/full": syscall.ENOSPC, "/dev/null": nil} {
		path := filepath.Join(folder, filepath.Base(device)+".jsonl")
		require.NoError(t, os.Symlink(device, path))
		file := started(t, path)
		for range 2 {
			err := file.write([]byte("line\n"))
			require.ErrorIs(t, err, wanted)
			require.NotErrorIs(t, err, syscall.EINVAL)
		}
	}
}

// The race detector watches this test.
func TestManySendersAtOnceGetWholeLines(t *testing.T) {
	file := started(t, filepath.Join(t.TempDir(), "traces.jsonl"))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for number := range 100 {
				assert.NoError(t, file.write(numbered(number, 1000)))
			}
		})
	}
	group.Wait()
	lines := strings.Split(strings.TrimSuffix(content(t, file.config.Path), "\n"), "\n")
	require.Len(t, lines, 800)
	for _, line := range lines {
		require.Len(t, line, 999)
	}
}

func TestEachSignalIsALineOfOTLPJSON(t *testing.T) {
	folder, factory, settings := t.TempDir(), NewFactory(), exportertest.NewNopSettings(metadata.Type)
	config := func(name string) *Config {
		made := factory.CreateDefaultConfig().(*Config)
		made.Path = filepath.Join(folder, name)
		require.NoError(t, made.Validate())
		return made
	}
	traces, err := factory.CreateTraces(t.Context(), settings, config("traces.jsonl"))
	require.NoError(t, err)
	metrics, err := factory.CreateMetrics(t.Context(), settings, config("metrics.jsonl"))
	require.NoError(t, err)
	logs, err := factory.CreateLogs(t.Context(), settings, config("logs.jsonl"))
	require.NoError(t, err)
	host := componenttest.NewNopHost()
	require.NoError(t, traces.Start(t.Context(), host))
	require.NoError(t, metrics.Start(t.Context(), host))
	require.NoError(t, logs.Start(t.Context(), host))
	spans, points, records := ptrace.NewTraces(), pmetric.NewMetrics(), plog.NewLogs()
	spans.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("a span\nof two lines")
	points.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetName("a metric")
	records.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("a record")
	require.NoError(t, traces.ConsumeTraces(t.Context(), spans))
	require.NoError(t, metrics.ConsumeMetrics(t.Context(), points))
	require.NoError(t, logs.ConsumeLogs(t.Context(), records))
	require.NoError(t, traces.Shutdown(t.Context()))
	require.NoError(t, metrics.Shutdown(t.Context()))
	require.NoError(t, logs.Shutdown(t.Context()))
	for name, wanted := range map[string]string{"traces": `two lines"`, "metrics": `"a metric"`, "logs": `"a record"`} {
		written := content(t, filepath.Join(folder, name+".jsonl"))
		require.Equal(t, 1, strings.Count(written, "\n"))
		require.True(t, strings.HasPrefix(written, string(ourLines)))
		require.Contains(t, written, wanted)
	}
}

func TestOneExporterInThePipelinesOfSeveralSignalsWritesOneFile(t *testing.T) {
	factory, settings, host := NewFactory(), exportertest.NewNopSettings(metadata.Type), componenttest.NewNopHost()
	config := factory.CreateDefaultConfig().(*Config)
	config.Path = filepath.Join(t.TempDir(), "all.jsonl")
	traces, err := factory.CreateTraces(t.Context(), settings, config)
	require.NoError(t, err)
	logs, err := factory.CreateLogs(t.Context(), settings, config)
	require.NoError(t, err)
	require.NoError(t, traces.Start(t.Context(), host))
	require.NoError(t, logs.Start(t.Context(), host))
	require.NoError(t, traces.ConsumeTraces(t.Context(), ptrace.NewTraces()))
	require.NoError(t, traces.Shutdown(t.Context()))
	require.NoError(t, logs.ConsumeLogs(t.Context(), plog.NewLogs()))
	require.NoError(t, logs.Shutdown(t.Context()))
	require.Equal(t, "{}\n{}\n", content(t, config.Path))
	started(t, config.Path)
}

func TestSettingsThatCannotBeMeantAreRefused(t *testing.T) {
	for _, config := range []Config{
		{Rotation: Rotation{MaxMegabytes: 1, MaxBackups: 1}},
		{Path: "file", Rotation: Rotation{MaxBackups: 1}},
		{Path: "file", Rotation: Rotation{MaxMegabytes: 1}},
	} {
		require.Error(t, config.Validate())
	}
}
