package secretredactionprocessor

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// mapChanges are the entries of a map to be removed or renamed, by their index. Most maps have none.
type mapChanges struct {
	removed map[int]bool
	renamed map[int]string
}

func (c *mapChanges) remove(index int) {
	if c.removed == nil {
		c.removed = map[int]bool{}
	}
	c.removed[index] = true
}

func (c *mapChanges) rename(index int, name string) {
	if c.renamed == nil {
		c.renamed = map[int]string{}
	}
	c.renamed[index] = name
}

func (c *mapChanges) apply(entries pcommon.Map) {
	if c.renamed != nil {
		c.rebuild(entries)
		return
	}
	if c.removed == nil {
		return
	}
	index := -1
	entries.RemoveIf(func(string, pcommon.Value) bool {
		index++
		return c.removed[index]
	})
}

// rebuild makes the map anew, in the same order. Keys that became equal are numbered: no value is lost.
func (c *mapChanges) rebuild(entries pcommon.Map) {
	taken := names{}
	index := 0
	for key := range entries.All() {
		if _, renamed := c.renamed[index]; !renamed {
			taken[key] = 1
		}
		index++
	}
	built := pcommon.NewMap()
	built.EnsureCapacity(entries.Len())
	index = 0
	for key, value := range entries.All() {
		name, renamed := c.renamed[index]
		if renamed {
			key = taken.free(name)
		}
		if !c.removed[index] {
			value.MoveTo(built.PutEmpty(key))
		}
		index++
	}
	built.MoveTo(entries)
}

// names are the keys of a map, each with the last number that was tried behind it.
type names map[string]int

// free returns the name, or the first of "name (2)", "name (3)" ... that is not taken, and takes it.
func (n names) free(name string) string {
	candidate := name
	for n[candidate] > 0 {
		n[name]++
		candidate = name + " (" + strconv.Itoa(n[name]) + ")"
	}
	n[candidate] = 1
	return candidate
}
