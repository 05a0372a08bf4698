package detect

import (
	"syscall"
	"time"
	"unsafe"
)

// threadClock is CLOCK_THREAD_CPUTIME_ID of clock_gettime(2).
const threadClock = 3

// processorTime is what this thread has used, however busy the machine is.
func processorTime() time.Duration {
	var used syscall.Timespec
	if _, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&used)), 0); failed != 0 {
		return 0
	}
	return time.Duration(used.Nano())
}
