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
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var start uintptr
	var size int
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, "-") {
			start, size = readOnlyRange(line, program)
		}
		// Pages that were changed while they could be written, as a loader does with addresses, are the process's own: anonymous.
		if size > 0 && isUnchanged(line) {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, uintptr(size), syscall.MADV_DONTNEED)
		}
	}
}

// isUnchanged tells whether this line about a range says that none of its pages differs from the file.
func isUnchanged(line string) bool {
	fields := strings.Fields(line)
	return len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0"
}

// readOnlyRange returns where a line of /proc/self/smaps says that pages of this file lie which cannot be written. Pages
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
