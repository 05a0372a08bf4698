package durableotlpexporter

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The race detector watches this test.
func TestExportersStartAndEndWhileAnotherWritesIntoTheSameFolder(t *testing.T) {
	config := DeadLetter{Directory: t.TempDir(), MaxMegabytes: 1, MaxFiles: 2}
	open := func() *deadLetters {
		folder, err := openDeadLetters(config, func(string, int) {})
		require.NoError(t, err)
		return folder
	}
	first := open()
	var group sync.WaitGroup
	group.Go(func() {
		for range 50 {
			assert.NoError(t, first.write("exporter-traces", []byte("{}\n")))
		}
	})
	for range 50 {
		assert.NoError(t, open().close())
	}
	group.Wait()
	require.NoError(t, first.close())
	again := open() // the folder is free
	require.NoError(t, again.close())
}
