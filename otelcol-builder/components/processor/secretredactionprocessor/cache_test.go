package secretredactionprocessor

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

type countingFinder struct {
	fakeFinder
	calls atomic.Int64
}

func (c *countingFinder) FindWithin(key, text string, _ *detect.Work) ([]detect.Finding, error) {
	c.calls.Add(1)
	return c.fakeFinder.FindWithin(key, text, nil)
}

func TestARepeatedTextIsScannedOnce(t *testing.T) {
	finder := &countingFinder{}
	scan := scanner{finder: finder, cache: newCache(1024)}
	var counts tally
	for range 10 {
		text, err := scan.mask("note", sentence, false, &counts)
		failOn(t, err)
		equal(t, "text", text, "it used "+masked+" twice")
	}
	equal(t, "scans", finder.calls.Load(), 2) // the text, and the text with its mask
	equal(t, "misses", counts.misses, 2)
	equal(t, "hits", counts.hits, 18)
	if _, err := scan.mask("other key", sentence, false, &counts); err != nil || finder.calls.Load() == 2 {
		t.Error("the key is no part of what is remembered")
	}
}

func TestTheCacheHoldsNoTextAndNoMoreThanItsEntries(t *testing.T) {
	const entries = 1024
	cache := newCache(entries)
	for i := range 10 * entries {
		cache.put(cache.digest("key", planted+strconv.Itoa(i)), 20, []detect.Finding{{Start: 0, End: 5, Class: "planted"}})
	}
	if number := cache.entries(); number > entries || number < entries/4 {
		t.Errorf("%d entries", number)
	}
	for i := range cache.shards {
		if strings.Contains(fmt.Sprint(cache.shards[i].young, cache.shards[i].old), planted) {
			t.Fatal("a text in the cache")
		}
	}
}

func TestTheCacheIsBoundedInBytes(t *testing.T) {
	cache := newCache(1024)
	many := make([]detect.Finding, 16, 1000)
	for i := range 1 << 16 {
		cache.put(cache.digest("", strconv.Itoa(i)), 100, many)
	}
	kept := 0
	for i := range cache.shards {
		for _, findings := range cache.shards[i].young {
			kept += cap(findings)
		}
		for _, findings := range cache.shards[i].old {
			kept += cap(findings)
		}
	}
	if most := 1024 + 2*cacheShards*mostCached; kept > most || kept < 1024/4 {
		t.Errorf("room for %d findings, %d at most", kept, most)
	}
}

func TestLongTextsAndThoseWithManyFindingsAreNotRemembered(t *testing.T) {
	finder := &countingFinder{}
	scan := scanner{finder: finder, cache: newCache(1024)}
	for _, text := range []string{strings.Repeat("plain text ", 500), strings.Repeat("a@b.org ", mostCached+1)} {
		finder.calls.Store(0)
		var counts tally
		for range 2 {
			_, err := scan.find("", text, nil, &counts)
			failOn(t, err)
		}
		equal(t, "scans", finder.calls.Load(), 2)
	}
	equal(t, "entries", scan.cache.entries(), 0)
}

func TestTwoProcessesHashOneTextDifferently(t *testing.T) {
	if newCache(1).digest("a", planted) == newCache(1).digest("a", planted) {
		t.Error("no salt")
	}
	cache := newCache(1)
	if cache.digest("ab", "c") == cache.digest("a", "bc") {
		t.Error("key and text run together")
	}
}

func TestWithoutEntriesEverythingIsScanned(t *testing.T) {
	finder := &countingFinder{}
	scan := scanner{finder: finder, cache: newCache(0)}
	var counts tally
	for range 3 {
		_, err := scan.mask("", "a sentence", false, &counts)
		failOn(t, err)
	}
	equal(t, "scans", finder.calls.Load(), 3)
}

func TestOneCoreServesManyAtOnce(t *testing.T) {
	core := testCore(func(config *Config) { config.CacheEntries = 256 })
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 300 {
				data, span := oneSpan()
				span.Attributes().PutStr("key"+strconv.Itoa(i%50), sentence+strconv.Itoa(i*worker%100))
				cleanTraces(core, data)
				if strings.Contains(tracesJSON(t, data), planted) {
					t.Error("a secret stayed")
				}
			}
		})
	}
	group.Wait()
}

func TestKnownKeysAreBounded(t *testing.T) {
	book := newKeyBook()
	for i := range maximumKnownKeys + 100 {
		book.put("key"+strconv.Itoa(i), keyFacts{})
	}
	equal(t, "keys", len(*book.known.Load()), maximumKnownKeys)
}
