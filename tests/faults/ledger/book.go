package main

import (
	"slices"
	"sync"
	"time"
)

const maxRanges = 20

// book is the account of one run: what its ranks handed over, and what came out at the other end.
type book struct {
	run         string
	traceLength uint64

	mu       sync.Mutex
	ranks    map[uint64]*pages
	altered  uint64
	firstAck time.Time
	lastAck  time.Time
	acked    uint64
	received uint64
}

// pages are the account of one rank. copies counts how often each span arrived; origins says for each trace from where.
type pages struct {
	copies  []uint8
	origins []uint8
	batches []*batch
}

// batch is one export request and what became of it.
type batch struct {
	first, count uint64
	sent, acked  time.Time
	refused      bool
	retries      int
	ambiguous    int // attempts without an answer, which the collector may have accepted
}

// window is a stretch of spans of one rank.
type window struct {
	Rank  uint64 `json:"rank"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// report is the state of a book. Lost: acknowledged to the sender and not seen at the backend.
type report struct {
	Run            string   `json:"run"`
	Sent           uint64   `json:"sent"`
	Acked          uint64   `json:"acked"`
	Refused        uint64   `json:"refused"`
	Pending        uint64   `json:"pending"`
	Retries        int      `json:"retries"`
	AmbiguousSpans uint64   `json:"ambiguous_spans"`
	Received       uint64   `json:"received"`
	Lost           uint64   `json:"lost"`
	LostWindows    []window `json:"lost_windows"`
	FirstLostAck   float64  `json:"first_lost_ack"`
	LastLostAck    float64  `json:"last_lost_ack"`
	Duplicates     uint64   `json:"duplicates"`
	MostCopies     uint8    `json:"most_copies"`
	Altered        uint64   `json:"altered"`
	SplitTraces    uint64   `json:"split_traces"`
	SpansPerSecond float64  `json:"spans_per_second"`
}

func newBook(run string, traceLength uint64) *book {
	return &book{run: run, traceLength: traceLength, ranks: map[uint64]*pages{}}
}

// opened enters a batch before its first attempt.
func (b *book) opened(rank, first, count uint64) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	made := &batch{first: first, count: count, sent: time.Now()}
	rankPages := b.pagesOf(rank)
	rankPages.batches = append(rankPages.batches, made)
	return made
}

func (b *book) attempted(which *batch, ambiguous bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	which.retries++
	if ambiguous {
		which.ambiguous++
	}
}

func (b *book) closed(which *batch, accepted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !accepted {
		which.refused = true
		return
	}
	which.acked = time.Now()
	b.acked += which.count
	if b.firstAck.IsZero() {
		b.firstAck = which.sent
	}
	b.lastAck = which.acked
}

// arrived enters spans that the backend accepted; origin is the number of the gateway they came from.
func (b *book) arrived(spans []received, origin uint8) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, span := range spans {
		rankPages := b.pagesOf(span.rank)
		rankPages.copies = grown(rankPages.copies, span.sequence)
		copies := &rankPages.copies[span.sequence]
		if *copies == 0 {
			b.received++
		}
		if *copies < 255 {
			*copies++
		}
		trace := span.sequence / b.traceLength
		rankPages.origins = grown(rankPages.origins, trace)
		rankPages.origins[trace] |= 1 << origin
		if span.trace != span.traceOf(b.traceLength) || span.span != span.spanID() ||
			span.note != notes[span.sequence%uint64(len(notes))] {
			b.altered++
		}
	}
}

func (b *book) pagesOf(rank uint64) *pages {
	if b.ranks[rank] == nil {
		b.ranks[rank] = &pages{}
	}
	return b.ranks[rank]
}

func grown(slice []uint8, index uint64) []uint8 {
	if missing := int(index) + 1 - len(slice); missing > 0 {
		return append(slice, make([]uint8, missing)...)
	}
	return slice
}

// progress returns two of the report's sums without adding the book up.
func (b *book) progress() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return map[string]uint64{"acked": b.acked, "received": b.received}
}

// report adds the book up.
func (b *book) report() report {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := report{Run: b.run, Altered: b.altered, LostWindows: []window{}}
	numbers := make([]uint64, 0, len(b.ranks))
	for rank := range b.ranks {
		numbers = append(numbers, rank)
	}
	slices.Sort(numbers)
	for _, rank := range numbers {
		rankPages := b.ranks[rank]
		rankPages.addArrivals(&sum)
		for _, each := range rankPages.batches {
			rankPages.addBatch(&sum, each, rank)
		}
	}
	if seconds := b.lastAck.Sub(b.firstAck).Seconds(); seconds > 0 {
		sum.SpansPerSecond = float64(sum.Acked) / seconds
	}
	return sum
}

func (p *pages) addArrivals(sum *report) {
	for _, copies := range p.copies {
		if copies > 0 {
			sum.Received++
			sum.Duplicates += uint64(copies - 1)
			sum.MostCopies = max(sum.MostCopies, copies)
		}
	}
	for _, origins := range p.origins {
		if origins&(origins-1) != 0 {
			sum.SplitTraces++
		}
	}
}

func (p *pages) addBatch(sum *report, each *batch, rank uint64) {
	sum.Sent += each.count
	sum.Retries += each.retries
	sum.AmbiguousSpans += each.count * uint64(each.ambiguous)
	switch {
	case each.refused:
		sum.Refused += each.count
		return
	case each.acked.IsZero():
		sum.Pending += each.count
		return
	}
	sum.Acked += each.count
	before := sum.Lost
	for sequence := each.first; sequence < each.first+each.count; sequence++ {
		if sequence < uint64(len(p.copies)) && p.copies[sequence] > 0 {
			continue
		}
		sum.Lost++
		sum.addLost(rank, sequence)
	}
	if acked := float64(each.acked.UnixNano()) / 1e9; sum.Lost > before {
		if sum.FirstLostAck == 0 || acked < sum.FirstLostAck {
			sum.FirstLostAck = acked
		}
		sum.LastLostAck = max(sum.LastLostAck, acked)
	}
}

func (r *report) addLost(rank, sequence uint64) {
	if last := len(r.LostWindows) - 1; last >= 0 && r.LostWindows[last].Rank == rank && r.LostWindows[last].Last+1 == sequence {
		r.LostWindows[last].Last = sequence
	} else if len(r.LostWindows) < maxRanges {
		r.LostWindows = append(r.LostWindows, window{Rank: rank, First: sequence, Last: sequence})
	}
}
