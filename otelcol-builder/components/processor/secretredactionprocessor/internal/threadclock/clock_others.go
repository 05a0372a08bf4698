//go:build !linux

package threadclock

import "time"

var processStart = time.Now()

// Used returns the time that has passed: the processor time of a thread is not available here.
func Used() time.Duration { return time.Since(processStart) }
