//go:build linux && !race

package requestguardextension

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	limitMiB = 512
	// peakChild names the size of the requests to the process whose memory is looked at.
	peakChild = "REQUEST_GUARD_PEAK_OF"
)

func TestThePeakOfHostileRequestsAtOnceIsTheMemoryLimitAndAQuarter(t *testing.T) {
	if size := os.Getenv(peakChild); size != "" {
		t.Skip("this is the process that is looked at")
	}
	for name, size := range map[string]string{"too much each": "16777000", "too much together": "1300000"} {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostileRequestsAtOnce$", "-test.v")
			child.Env = append(os.Environ(), peakChild+"="+size, fmt.Sprintf("GOMEMLIMIT=%dMiB", limitMiB))
			said, err := child.CombinedOutput()
			require.NoError(t, err, string(said))
			_, after, found := strings.Cut(string(said), "VmHWM:")
			require.True(t, found, string(said))
			var kibibytes int
			_, err = fmt.Sscan(after, &kibibytes)
			require.NoError(t, err)
			t.Logf("%d MiB", kibibytes>>10)
			require.Less(t, kibibytes>>10, limitMiB*5/4)
		})
	}
}

// TestHostileRequestsAtOnce runs in a process of its own.
func TestHostileRequestsAtOnce(t *testing.T) {
	size := 0
	if _, err := fmt.Sscan(os.Getenv(peakChild), &size); err != nil {
		t.Skip("run by the test above")
	}
	g := behindGuardOf(t, limitMiB)
	g.received.writes = true
	body := bomb(size)
	packed := compressed("gzip", body)
	var ends sync.WaitGroup
	for range 4 {
		ends.Go(func() {
			code, answer := g.post(t, "/v1/traces", protobufType, "gzip", packed)
			if code != http.StatusOK && code != http.StatusRequestEntityTooLarge && code != http.StatusServiceUnavailable {
				t.Errorf("%d %s", code, answer)
			}
		})
		ends.Go(func() {
			err := g.export(t, body, grpc.UseCompressor("gzip"))
			if code := status.Code(err); code != codes.OK && code != codes.ResourceExhausted && code != codes.Unavailable {
				t.Error(err)
			}
		})
	}
	ends.Wait()
	held, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	fmt.Println(string(held[bytes.Index(held, []byte("VmHWM:")):]))
}
