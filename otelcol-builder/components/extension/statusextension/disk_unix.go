//go:build unix

package statusextension

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freeSpace returns the bytes that the collector may still write to the disk of a folder.
func freeSpace(folder string) (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(folder, &disk); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", folder, err)
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil //nolint:gosec,unconvert // the types differ between systems
}
