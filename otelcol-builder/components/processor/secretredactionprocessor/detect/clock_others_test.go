//go:build !linux

package detect

import "time"

var processStart = time.Now()

// processorTime is the time that has passed: a thread's own cannot be had here.
func processorTime() time.Duration { return time.Since(processStart) }
