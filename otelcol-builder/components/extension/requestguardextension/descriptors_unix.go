//go:build unix

package requestguardextension

import (
	"syscall"

	"go.uber.org/zap"
)

// fewDescriptors is the limit below which a start warns. Each connection takes a descriptor, and so does each open file.
const fewDescriptors = 4096

// warnOfFewDescriptors says so where the process may not open many connections. Go has raised the soft limit to the hard
// one at the start (package os), so what is left is the hard one.
func warnOfFewDescriptors(logger *zap.Logger) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur >= fewDescriptors {
		return
	}
	logger.Warn("this process may open few files and connections: senders beyond that wait until idle connections are closed; "+
		"raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd, --ulimit nofile= of a container)",
		zap.Uint64("limit", uint64(limit.Cur)), zap.Int("wanted", fewDescriptors))
}
