package threadclock

import (
	"syscall"
	"time"
	"unsafe"
)

// threadClock is CLOCK_THREAD_CPUTIME_ID of clock_gettime(2).
const threadClock = 3

// Used returns the processor time of this thread: what else runs on a busy machine does not count.
func Used() time.Duration {
	var used syscall.Timespec
	if _, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&used)), 0); failed != 0 {
		return 0
	}
	return time.Duration(used.Nano())
}
