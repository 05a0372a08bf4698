package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Ways in which the backend can fail.
const (
	modeServe  = "serve"
	modeRefuse = "refuse"  // nobody listens
	modeHang   = "hang"    // takes a request and never answers
	modeCut    = "cut"     // stores what it gets and closes the connection instead of answering
	modeNoGzip = "no_gzip" // 415 to compressed requests
	modeStatus = "status"  // answers with a status, and Retry-After when it is set
	modePoison = "poison"  // 400 to every request with a span whose sequence number Every divides
)

// firstOutgoingPort is where the system's range for outgoing connections begins, as Linux sets it.
const firstOutgoingPort = 32_768

// conduct is how the backend behaves; Every > 1 misbehaves at each such request only, or because of each such span.
type conduct struct {
	Mode       string `json:"mode"`
	Status     int    `json:"status"`
	RetryAfter int    `json:"retry_after"`
	Every      uint64 `json:"every"`
}

// backend receives OTLP/HTTP under /gateway_<n>/...: traces go to the ledger, span metrics to the counts.
type backend struct {
	address string
	store   *store

	mu       sync.Mutex
	conduct  conduct
	released chan struct{} // closed when the conduct changes: ends requests that hang
	server   *http.Server
	requests uint64
	failed   uint64
	cut      uint64 // spans of requests that were stored and not answered
}

func newBackend(store *store) (*backend, error) {
	listener, err := listenForGood()
	if err != nil {
		return nil, err
	}
	made := &backend{address: listener.Addr().String(), store: store, conduct: conduct{Mode: modeServe}, released: make(chan struct{})}
	made.listen(listener)
	return made, nil
}

// listenForGood takes a port that stays free while the backend refuses: outgoing connections get theirs from above.
func listenForGood() (listener net.Listener, err error) {
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(firstOutgoingPort-10_000))
		if listener, err = net.Listen("tcp", address); err == nil {
			return listener, nil
		}
	}
	return nil, err
}

func (b *backend) listen(listener net.Listener) {
	b.server = &http.Server{Handler: b}
	go func(server *http.Server) { _ = server.Serve(listener) }(b.server)
}

// behave changes the conduct; connections of a backend that refuses are cut.
func (b *backend) behave(wanted conduct) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.released)
	b.released = make(chan struct{})
	b.conduct = wanted
	if wanted.Mode == modeRefuse {
		if b.server != nil {
			_ = b.server.Close()
		}
		b.server = nil
		return nil
	}
	if b.server != nil {
		return nil
	}
	listener, err := net.Listen("tcp", b.address)
	if err != nil {
		return err
	}
	b.listen(listener)
	return nil
}

func (b *backend) counts() (requests, failed, cut uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests, b.failed, b.cut
}

// turn says how to treat the next request. Only requests with spans are cut: it is spans that the ledger counts, and the
// collectors' own metrics and logs come too.
func (b *backend) turn(path string) (conduct, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests++
	now := b.conduct
	others := now.Mode != modePoison && now.Every > 1 && b.requests%now.Every != 0
	if others || now.Mode == modeCut && !strings.HasSuffix(path, "/v1/traces") {
		now = conduct{Mode: modeServe}
	}
	if now.Mode != modeServe {
		b.failed++
	}
	return now, b.released
}

// ServeHTTP takes one export request.
func (b *backend) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	now, released := b.turn(request.URL.Path)
	switch now.Mode {
	case modeHang:
		_, _ = io.Copy(io.Discard, request.Body)
		select {
		case <-released:
		case <-request.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case modeNoGzip:
		if request.Header.Get("Content-Encoding") == "gzip" {
			http.Error(answer, "gzip is not accepted", http.StatusUnsupportedMediaType)
			return
		}
	case modeStatus:
		if now.RetryAfter > 0 {
			answer.Header().Set("Retry-After", strconv.Itoa(now.RetryAfter))
		}
		http.Error(answer, "not now", now.Status)
		return
	}
	if err := b.take(request, now); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	if now.Mode == modeCut {
		panic(http.ErrAbortHandler)
	}
	answer.Header().Set("Content-Type", "application/x-protobuf")
}

func (b *backend) take(request *http.Request, now conduct) error {
	var body io.Reader = request.Body
	if request.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unpacked
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	gateway, _, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/gateway_"), "/")
	origin, err := strconv.ParseUint(gateway, 10, 3)
	if err != nil {
		return fmt.Errorf("%s: the path has to begin with /gateway_<0..7>", request.URL.Path)
	}
	switch {
	case strings.HasSuffix(request.URL.Path, "/v1/traces"):
		return b.takeSpans(content, uint8(origin), now)
	case strings.HasSuffix(request.URL.Path, "/v1/metrics"):
		return b.store.addMetrics(content, gateway)
	}
	return nil
}

func (b *backend) takeSpans(content []byte, origin uint8, now conduct) error {
	spans, err := decodeBatch(content)
	if err != nil {
		return err
	}
	poisoned := func(span received) bool { return span.sequence%now.Every == 0 }
	if now.Mode == modePoison && slices.ContainsFunc(spans, poisoned) {
		return errors.New("one of the spans is not wanted")
	}
	b.store.addSpans(spans, origin)
	if now.Mode == modeCut {
		b.mu.Lock()
		b.cut += uint64(len(spans))
		b.mu.Unlock()
	}
	return nil
}
