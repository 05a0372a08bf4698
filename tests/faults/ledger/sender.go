package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	firstPause     = 100 * time.Millisecond
	longestPause   = 5 * time.Second
	attemptSeconds = 10 * time.Second // as OTEL_EXPORTER_OTLP_TIMEOUT
)

// order is what the ranks of a run shall send. They send until Spans are out, or until they are stopped.
type order struct {
	Run           string  `json:"run"`
	Endpoint      string  `json:"endpoint"`
	Ranks         uint64  `json:"ranks"`
	SpansPerRank  uint64  `json:"spans_per_rank"`
	SpansPerBatch uint64  `json:"spans_per_batch"`
	SpansPerTrace uint64  `json:"spans_per_trace"`
	Rate          float64 `json:"rate"`
}

// sending is a run under way: each rank exports one batch after the other, as an SDK's batch processor does.
type sending struct {
	order
	book   *book
	client *http.Client
	stop   context.CancelFunc
	ranks  sync.WaitGroup
}

func startSending(what order, account *book) *sending {
	running, stop := context.WithCancel(context.Background())
	made := &sending{
		order:  what,
		book:   account,
		client: &http.Client{Timeout: attemptSeconds, Transport: &http.Transport{MaxIdleConnsPerHost: int(what.Ranks)}},
		stop:   stop,
	}
	for rank := range what.Ranks {
		made.ranks.Go(func() { made.work(running, rank) })
	}
	return made
}

// work sends the spans of one rank at its share of the rate; what an outage delayed is caught up at full speed.
func (s *sending) work(running context.Context, rank uint64) {
	begin := time.Now()
	for first := uint64(0); first < s.SpansPerRank; first += s.SpansPerBatch {
		if s.Rate > 0 {
			due := begin.Add(time.Duration(float64(first) / (s.Rate / float64(s.Ranks)) * float64(time.Second)))
			select {
			case <-running.Done():
			case <-time.After(time.Until(due)):
			}
		}
		if running.Err() != nil {
			return
		}
		count := min(s.SpansPerBatch, s.SpansPerRank-first)
		entered := s.book.opened(rank, first, count)
		s.deliver(entered, encodeBatch(entry{s.Run, rank, first}, count, s.SpansPerTrace))
	}
}

// deliver repeats a request until it is answered for good. A stopped run still ends the batch it has begun.
func (s *sending) deliver(which *batch, request []byte) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		outcome, wait := s.attempt(request)
		if outcome == accepted || outcome == refused {
			s.book.closed(which, outcome == accepted)
			return
		}
		s.book.attempted(which, outcome == unanswered)
		time.Sleep(max(wait, time.Duration(float64(pause)*(0.8+0.4*rand.Float64()))))
	}
}

type outcome int

const (
	accepted   outcome = iota
	refused            // for good
	notNow             // to be sent again; the collector has not taken it
	unanswered         // to be sent again; the collector may have taken it
)

func (s *sending) attempt(request []byte) (outcome, time.Duration) {
	answer, err := s.client.Post(s.Endpoint+"/v1/traces", "application/x-protobuf", bytes.NewReader(request))
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return notNow, 0
		}
		return unanswered, 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	switch answer.StatusCode {
	case http.StatusOK:
		return accepted, 0
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return notNow, time.Duration(seconds) * time.Second
	}
	return refused, 0
}
