package main

import (
	"fmt"
	"sync"
)

// store holds the books of all runs and what the collectors' own counts say.
type store struct {
	mu      sync.Mutex
	books   map[string]*book
	foreign uint64 // spans of runs that nobody opened
	counts  map[string]series
}

// series is the newest value of one counter since one start.
type series struct {
	name  string
	value float64
}

func newStore() *store {
	return &store{books: map[string]*book{}, counts: map[string]series{}}
}

func (s *store) open(run string, traceLength uint64) *book {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.books[run] == nil {
		s.books[run] = newBook(run, traceLength)
	}
	return s.books[run]
}

func (s *store) find(run string) (*book, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.books[run]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("no run %q", run)
}

// addSpans enters spans into the books of their runs.
func (s *store) addSpans(spans []received, origin uint8) {
	for begin := 0; begin < len(spans); {
		end := begin
		for end < len(spans) && spans[end].run == spans[begin].run {
			end++
		}
		if account, err := s.find(spans[begin].run); err == nil {
			account.arrived(spans[begin:end], origin)
		} else {
			s.mu.Lock()
			s.foreign += uint64(end - begin)
			s.mu.Unlock()
		}
		begin = end
	}
}

// addMetrics keeps the newest value of each sum, told apart by gateway, resource, attributes and start.
func (s *store) addMetrics(content []byte, gateway string) error {
	points, err := decodeSums(content)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, point := range points {
		key := fmt.Sprintf("%s|%s|%d", gateway, point.identity, point.start)
		s.counts[key] = series{point.name, max(point.value, s.counts[key].value)}
	}
	return nil
}

// sums adds the series of each metric up.
func (s *store) sums() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := map[string]float64{}
	for _, each := range s.counts {
		total[each.name] += each.value
	}
	return total
}
