package durableotlpexporter

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

func TestCuttingKeepsEveryDataPointOnceWithItsMetric(t *testing.T) {
	data := pmetric.NewMetrics()
	for range 2 {
		list := data.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
		gauge := list.AppendEmpty()
		gauge.SetName("gauge")
		gauge.SetEmptyGauge().DataPoints().AppendEmpty()
		list.AppendEmpty().SetEmptySum().DataPoints().AppendEmpty()
		histogram := list.AppendEmpty().SetEmptyHistogram()
		histogram.DataPoints().AppendEmpty()
		histogram.DataPoints().AppendEmpty()
		list.AppendEmpty().SetEmptyExponentialHistogram().DataPoints().AppendEmpty()
		list.AppendEmpty().SetEmptySummary().DataPoints().AppendEmpty()
	}
	for cut := range data.DataPointCount() + 1 {
		first, second := metrics.cut(data, 0, cut), metrics.cut(data, cut, 12)
		assert.Equal(t, cut, first.DataPointCount())
		assert.Equal(t, 12-cut, second.DataPointCount())
	}
	assert.Equal(t, 12, data.DataPointCount(), "the batch itself is left alone")
	assert.Equal(t, "gauge", metrics.cut(data, 0, 1).ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Name())
}

func TestADeadLetterOfLogsIsOrdinaryOTLPJSON(t *testing.T) {
	data := plog.NewLogs()
	data.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("{}\n\"")
	request, err := logs.json(logs.cut(data, 0, 1))
	require.NoError(t, err)
	line, err := letterLine(request, letterNote{Reason: "refused", Error: "bad \xff bytes", Items: 1})
	require.NoError(t, err)
	assert.Equal(t, byte('\n'), line[len(line)-1])
	read, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
	require.NoError(t, err)
	assert.Equal(t, 1, read.LogRecordCount())
	assert.Equal(t, "{}\n\"", read.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Body().Str())
}
