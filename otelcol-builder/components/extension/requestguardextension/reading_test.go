package requestguardextension

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// large is the size of a batch that eight senders send at once, where the received pool is 85 MiB.
const large, senders = 12 << 20, 8

// soon fails where the senders wait for each other.
func soon[T any](t *testing.T, answers <-chan T) T {
	t.Helper()
	select {
	case answer := <-answers:
		return answer
	case <-time.After(time.Minute):
		require.FailNow(t, "requests wait for each other")
		panic("not reached")
	}
}

func TestLargeBatchesAtOnceAreAnsweredWithoutWaitingForEachOther(t *testing.T) {
	g := behindGuardOf(t, 512)
	memory := g.guard.memory
	memory.received.patience, memory.decoded.patience = time.Hour, time.Hour
	body := honestSpans(large)
	for _, encoding := range []string{"", "gzip"} {
		packed, codes := compressed(encoding, body), make(chan int, senders)
		for range senders {
			go func() {
				code, _ := g.post(t, "/v1/traces", protobufType, encoding, packed)
				codes <- code
			}()
		}
		taken := 0
		for range senders {
			switch code := soon(t, codes); code {
			case http.StatusOK:
				taken++
			case http.StatusServiceUnavailable:
				require.NotEmpty(t, encoding, "what announces its length is waited for")
			default:
				require.Fail(t, "refused for good", code)
			}
		}
		require.Positive(t, taken)
	}
	g.holdsNothing(t)
}

// together reads a body, and at its gate waits until all have come so far.
type together struct {
	io.Reader
	gate *sync.WaitGroup
	rest io.Reader
}

func (b *together) Read(into []byte) (int, error) {
	if read, err := b.Reader.Read(into); err != io.EOF {
		return read, err
	}
	if b.gate == nil {
		return 0, io.EOF
	}
	b.gate.Done()
	b.gate.Wait()
	b.Reader, b.gate = b.rest, nil
	return b.Read(into)
}

func TestWhoHoldsMemoryForABodyDoesNotWaitForMore(t *testing.T) {
	memory := newMemory(512 << 20)
	memory.received.patience = time.Hour
	const soFar = 10 << 20 // for which each holds 10.3 MiB, and nobody gets half of that again
	var gate sync.WaitGroup
	gate.Add(senders)
	ends := make(chan error, senders)
	for range senders {
		go func() {
			held, _ := memory.holding()
			defer held.release()
			body := &together{io.LimitReader(zeros{}, soFar), &gate, io.LimitReader(zeros{}, large-soFar)}
			_, err := readReserved(t.Context(), &held, body, nil, -1)
			ends <- err
		}()
	}
	for range senders {
		if err := soon(t, ends); err != nil {
			require.ErrorIs(t, err, errNoRoom)
		}
	}
}

func TestABodyThatThePoolHoldsIsTaken(t *testing.T) {
	memory := newMemory(30 << 20)
	size := memory.received.total - 1
	for _, announced := range []int64{-1, int64(size)} {
		held, _ := memory.holding()
		body, err := readReserved(t.Context(), &held, io.LimitReader(zeros{}, int64(size)), nil, announced)
		require.NoError(t, err)
		require.Len(t, body, size)
		held.release()
	}
}

func TestWhatASenderAnnouncesIsNotReservedBeyondTheLongestRequest(t *testing.T) {
	memory := newMemory(512 << 20)
	held, _ := memory.holding()
	_, err := readReserved(t.Context(), &held, strings.NewReader("short"), nil, 80<<20)
	require.NoError(t, err)
	require.LessOrEqual(t, held.bytes, largestAnnounced)
}

func TestWithoutAMemoryLimiterAnyBodyIsRead(t *testing.T) {
	body, err := readReserved(t.Context(), &reservation{}, io.LimitReader(zeros{}, large), nil, -1)
	require.NoError(t, err)
	require.Len(t, body, large)
}

// probe tells at the first byte that is read whether memory is held.
type probe struct {
	of         *pool
	read, free bool
}

func (p *probe) Read([]byte) (int, error) {
	if !p.read {
		p.read, p.free = true, p.of.free.TryAcquire(int64(p.of.total))
	}
	return 0, errors.New("the end")
}

func TestARefusedRequestHoldsNothingWhileTheRestOfItArrives(t *testing.T) {
	g, _ := newTestGuard(t)
	g.memory = newMemory(30 << 20)
	received := g.memory.received
	rest := &probe{of: received}
	body := io.MultiReader(io.LimitReader(zeros{}, int64(received.total)), rest)
	answer, _ := served(t, g, "/v1/traces", protobufType, body)
	require.Equal(t, http.StatusRequestEntityTooLarge, answer.Code)
	require.True(t, rest.read)
	require.True(t, rest.free, "memory is held")
}
