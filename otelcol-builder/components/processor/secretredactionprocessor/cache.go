package secretredactionprocessor

import (
	"hash/maphash"
	"sync"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

const cacheShards = 64

// What is longer or has more findings is scanned again: the bound of the cache is one of bytes.
const (
	longestCached = 4 << 10
	mostCached    = 16
)

// cache remembers where findings are in texts seen before. It holds salted hashes of (key, text) and positions, never a
// text: a copy of its memory tells no secret without trying out all of them, and the salts are new in every process.
type cache struct {
	seeds  [2]maphash.Seed
	shards [cacheShards]cacheShard
}

// digest is 128 bits of two independently salted hashes: an accidental hit would let a secret through.
type digest [2]uint64

// cacheShard keeps two generations. What is asked for moves to the young one; when that is full the old one is let go.
type cacheShard struct {
	mutex      sync.Mutex
	young, old map[digest][]detect.Finding
	half       int      // entries of a generation, and findings of all of them
	findings   int      // of the young generation
	_          [64]byte // shards on different cache lines
}

func newCache(entries int) *cache {
	if entries == 0 {
		return nil
	}
	made := &cache{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range made.shards {
		made.shards[i].half = max(1, entries/(2*cacheShards))
		made.shards[i].young, made.shards[i].old = map[digest][]detect.Finding{}, map[digest][]detect.Finding{}
	}
	return made
}

func (c *cache) digest(key, text string) digest {
	if c == nil {
		return digest{}
	}
	var sum digest
	for i, seed := range c.seeds {
		// The key's hash is mixed in by an odd multiplication, so that ("ab", "c") is not ("a", "bc").
		sum[i] = maphash.String(seed, text) ^ (maphash.String(seed, key)*0x9e3779b97f4a7c15 + uint64(len(text)))
	}
	return sum
}

func (c *cache) get(sum digest) (findings []detect.Finding, known bool) {
	if c == nil {
		return nil, false
	}
	shard := &c.shards[sum[0]%cacheShards]
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	if findings, known = shard.young[sum]; known {
		return findings, true
	}
	if findings, known = shard.old[sum]; known {
		shard.put(sum, findings)
	}
	return findings, known
}

// put remembers the findings in a text of this size.
func (c *cache) put(sum digest, size int, findings []detect.Finding) {
	if c == nil || size > longestCached || len(findings) > mostCached {
		return
	}
	if len(findings) > 0 { // a copy of exactly their size: what was scanned may have left room for many more
		findings = append(make([]detect.Finding, 0, len(findings)), findings...)
	}
	shard := &c.shards[sum[0]%cacheShards]
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	shard.put(sum, findings)
}

func (s *cacheShard) put(sum digest, findings []detect.Finding) {
	if len(s.young) >= s.half || s.findings+len(findings) > s.half+mostCached {
		clear(s.old) // keeps its room: the next generation needs as much
		s.old, s.young, s.findings = s.young, s.old, 0
	}
	s.young[sum] = findings
	s.findings += len(findings)
}

// entries is the number of texts that are remembered now.
func (c *cache) entries() int {
	total := 0
	if c != nil {
		for i := range c.shards {
			c.shards[i].mutex.Lock()
			total += len(c.shards[i].young) + len(c.shards[i].old)
			c.shards[i].mutex.Unlock()
		}
	}
	return total
}
