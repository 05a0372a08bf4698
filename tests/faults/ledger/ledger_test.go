package main

import (
	"encoding/hex"
	"testing"
	"time"
)

const traceLength = 8

func roundTrip(t *testing.T, first entry, count uint64) []received {
	t.Helper()
	spans, err := decodeBatch(encodeBatch(first, count, traceLength))
	if err != nil {
		t.Fatal(err)
	}
	return spans
}

func sent(account *book, rank, first, count uint64) *batch {
	entered := account.opened(rank, first, count)
	account.closed(entered, true)
	return entered
}

func TestSpansComeBackAsTheyWereSent(t *testing.T) {
	spans := roundTrip(t, entry{"run", 3, 1000}, 20)
	if len(spans) != 20 {
		t.Fatal(len(spans))
	}
	for index, span := range spans {
		if span.run != "run" || span.rank != 3 || span.sequence != 1000+uint64(index) || span.trace != span.traceOf(traceLength) {
			t.Fatalf("%+v", span)
		}
	}
}

func TestAnUndisturbedRunBalances(t *testing.T) {
	account := newBook("run", traceLength)
	sent(account, 0, 0, 64)
	account.arrived(roundTrip(t, entry{"run", 0, 0}, 64), 1)
	sum := account.report()
	if sum.Acked != 64 || sum.Received != 64 || sum.Lost != 0 || sum.Duplicates != 0 || sum.Altered != 0 || sum.SplitTraces != 0 {
		t.Fatalf("%+v", sum)
	}
}

func TestLostDoubledAlteredAndSplitSpansAreFound(t *testing.T) {
	account := newBook("run", traceLength)
	sent(account, 0, 0, 64)
	spans := roundTrip(t, entry{"run", 0, 0}, 64)
	spans[7].note = "another text"
	account.arrived(spans[:10], 1)
	account.arrived(spans[8:12], 2)
	account.arrived(spans[20:], 1)
	sum := account.report()
	if sum.Lost != 8 || sum.LostWindows[0] != (window{0, 12, 19}) || sum.Duplicates != 2 || sum.MostCopies != 2 {
		t.Fatalf("%+v", sum)
	}
	if sum.Altered != 1 || sum.SplitTraces != 1 {
		t.Fatalf("%+v", sum)
	}
}

func TestASpanThatWasNotAcknowledgedIsNotLost(t *testing.T) {
	account := newBook("run", traceLength)
	account.closed(account.opened(0, 0, 10), false)
	account.opened(0, 10, 10)
	if sum := account.report(); sum.Lost != 0 || sum.Refused != 10 || sum.Pending != 10 {
		t.Fatalf("%+v", sum)
	}
}

func TestTheTimeOfALossIsThatOfItsAcknowledgement(t *testing.T) {
	account := newBook("run", traceLength)
	before := float64(time.Now().UnixNano()) / 1e9
	sent(account, 0, 0, 10)
	if sum := account.report(); sum.Lost != 10 || sum.FirstLostAck < before || sum.LastLostAck < sum.FirstLostAck {
		t.Fatalf("%+v", sum)
	}
}

func TestTraceIDsSpreadOverTheirLastTwoDigits(t *testing.T) {
	buckets := map[string]int{}
	for sequence := range uint64(256 * 100) {
		id := entry{"run", 1, sequence}.traceOf(1)
		buckets[hex.EncodeToString(id[15:])]++
	}
	for bucket, traces := range buckets {
		if traces < 50 || traces > 150 {
			t.Fatalf("%d of 25,600 traces in bucket %s", traces, bucket)
		}
	}
	if len(buckets) != 256 {
		t.Fatal(len(buckets))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encodeBatch(entry{"run", 1, 2}, 3, traceLength))
	f.Fuzz(func(_ *testing.T, content []byte) {
		_, _ = decodeBatch(content)
		_, _ = decodeSums(content)
	})
}
