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
	taken := map[string]bool{}
	index := 0
	for key := range entries.All() {
		if _, renamed := c.renamed[index]; !renamed {
			taken[key] = true
		}
		index++
	}
	built := pcommon.NewMap()
	built.EnsureCapacity(entries.Len())
	index = 0
	for key, value := range entries.All() {
		name, renamed := c.renamed[index]
		if renamed {
			key = free(name, taken)
		}
		if !c.removed[index] {
			value.MoveTo(built.PutEmpty(key))
		}
		index++
	}
	built.MoveTo(entries)
}

// free returns the name, or the first of "name (2)", "name (3)" ... that is not taken, and takes it.
func free(name string, taken map[string]bool) string {
	candidate := name
	for number := 2; taken[candidate]; number++ {
		candidate = name + " (" + strconv.Itoa(number) + ")"
	}
	taken[candidate] = true
	return candidate
}
