package requestguardextension

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// releaseProgramPages takes the read-only pages of the program out of this process's memory. They come back from the file,
// or from the system's cache of it, one by one as they are used. Where it fails nothing is lost but the saving.
func releaseProgramPages() {
	program, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if start, size := readOnlyRange(lines.Text(), program); size > 0 {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, uintptr(size), syscall.MADV_DONTNEED)
		}
	}
}

// readOnlyRange returns where a line of /proc/self/maps says that pages of this file lie which cannot be written. Pages
// that can be written may differ from the file: they must stay.
func readOnlyRange(line, file string) (start uintptr, size int) {
	var end uintptr
	var permissions string
	if !strings.HasSuffix(line, " "+file) {
		return 0, 0
	}
	if _, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &permissions); err != nil {
		return 0, 0
	}
	if permissions != "r--p" && permissions != "r-xp" {
		return 0, 0
	}
	return start, int(end - start)
}
