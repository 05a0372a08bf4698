package secretredactionprocessor

import (
	"context"
	"hash/maphash"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// core is what the three signals of one processor share.
type core struct {
	scanner
	content ContentConfig
	keys    *keyBook // facts of single keys, which were scanned as well
	paths   *keyBook // facts of dotted paths of nested keys
}

// whileWanted runs a pass; an error means that the request was given up and does not pass.
func (c *core) whileWanted(ctx context.Context, pass *walk, run func()) error {
	pass.counts.request = &request{ctx: ctx}
	run()
	return pass.counts.request.ended
}

// walk is one pass over one batch.
type walk struct {
	*core
	counts tally
	// constant: metric attributes get one mask for all classes.
	constant bool
	// origin is a hash of what was taken out of the attributes of the present data point, 0 for nothing.
	origin uint64
}

// place is where a value is.
type place struct {
	key, path string
	name      string // what the value is called: the path, or in a pair of a name and a value the name
	pair      string // the name in the pair that the value is of
	depth     int
	secret    bool
	plain     bool
	message   bool    // an attribute of an event that is a message of a model
	budget    *budget // not nil: content that passes, capped
}

func (w *walk) removes() bool { return w.content.Action == actionRemove }

func (w *walk) newBudget() *budget {
	return &budget{left: w.content.MaxBytes, lowest: -w.content.MaxBytes}
}

// attributes cleans the attributes of an item.
func (w *walk) attributes(attributes pcommon.Map) { w.entries(attributes, place{}) }

func (w *walk) entries(entries pcommon.Map, in place) {
	var changes mapChanges
	index := 0
	in.pair = pairName(entries)
	for key, value := range entries.All() {
		facts, name := w.key(key)
		if name != key {
			changes.rename(index, name)
		}
		if !w.entry(entries, withoutMarks(name), facts, value, in) {
			changes.remove(index)
		}
		index++
	}
	changes.apply(entries)
}

// key returns the facts of an attribute key and the key with masks. The facts are those of the key without masks, so that the
// name of a class ("token") says nothing on the next hop.
func (w *walk) key(key string) (keyFacts, string) {
	if facts, known := w.keys.get(key); known {
		return facts, key
	}
	name := w.scanned("", w.readable(key))
	facts := w.factsOf(withoutMarks(name))
	if name == key {
		w.keys.put(key, facts)
	} else {
		w.changed(key)
	}
	return facts, name
}

func (w *walk) factsOf(key string) keyFacts {
	return keyFacts{treatment: treatmentOf(key), secret: w.secretKey(key), plain: isPlainKey(key)}
}

func (w *walk) pathFacts(path string) keyFacts {
	facts, known := w.paths.get(path)
	if !known {
		facts = w.factsOf(path)
		w.paths.put(path, facts)
	}
	return facts
}

// entry cleans the value under a key; false means that the entry is to be removed.
func (w *walk) entry(siblings pcommon.Map, key string, facts keyFacts, value pcommon.Value, in place) bool {
	if in.budget.usedUp() {
		w.counts.content++
		return false
	}
	in.budget.take(bytesPerNumber)
	at := place{key: key, path: key, depth: in.depth, secret: in.secret || facts.secret, plain: facts.plain, budget: in.budget}
	if in.path != "" {
		at.path = in.path + "." + key
		byPath := w.pathFacts(at.path)
		at.secret = at.secret || byPath.secret
		if facts.treatment == ordinary {
			facts.treatment = byPath.treatment
		}
	}
	at.name = at.path
	if in.pair != "" && pairValues[strings.ToLower(key)] {
		at.name = in.pair
		at.secret = at.secret || w.secretKey(in.pair)
	}
	if in.message && messageKeys[key] {
		facts.treatment = contentValue
	}
	if facts.treatment != ordinary {
		if !w.removes() && at.budget == nil {
			at.budget = w.newBudget()
		}
		if w.removes() && !w.withoutContent(siblings, facts.treatment, value, at) {
			return false
		}
	}
	w.value(value, at)
	return true
}

// withoutContent applies the content policy to a value; false means that the entry is to be removed.
func (w *walk) withoutContent(siblings pcommon.Map, kind treatment, value pcommon.Value, at place) bool {
	text := value.Type() == pcommon.ValueTypeStr
	switch {
	case text && kind != contentValue && isMark(value.Str()):
	case kind == contentValue && holdsContent(value):
		w.changedValue(value)
		w.counts.content++
		return false
	case kind == exceptionMessage && holdsContent(value):
		if text && isInfrastructure(typeBeside(siblings, at.key), value.Str()) {
			return true
		}
		w.replaceContent(value, contentRemoved)
	case kind == stackTrace && holdsContent(value):
		frames := contentRemoved
		if text {
			frames = framesOf(value.Str())
		}
		w.replaceContent(value, frames)
	}
	return true
}

func (w *walk) replaceContent(value pcommon.Value, text string) {
	if value.Type() == pcommon.ValueTypeStr && value.Str() == text {
		return
	}
	w.changedValue(value)
	w.counts.content++
	value.SetStr(text)
}

// holdsContent: a number is no content, whatever its key.
func holdsContent(value pcommon.Value) bool {
	switch value.Type() {
	case pcommon.ValueTypeStr:
		return value.Str() != ""
	case pcommon.ValueTypeBytes, pcommon.ValueTypeMap, pcommon.ValueTypeSlice:
		return true
	default:
		return false
	}
}

// value cleans a value of any type in its place. Values that hold nothing to be masked keep their type.
func (w *walk) value(value pcommon.Value, at place) {
	switch value.Type() {
	case pcommon.ValueTypeStr:
		text := value.Str()
		if result := w.text(text, at); result != text {
			w.changed(text)
			value.SetStr(result)
		}
	case pcommon.ValueTypeBytes:
		w.bytes(value, at)
	case pcommon.ValueTypeMap, pcommon.ValueTypeSlice:
		w.container(value, at)
	case pcommon.ValueTypeInt, pcommon.ValueTypeDouble, pcommon.ValueTypeBool:
		at.budget.take(bytesPerNumber)
		if at.secret && value.Type() != pcommon.ValueTypeBool {
			text := value.AsString()
			w.changed(text)
			value.SetStr(w.secretText(text, at.name))
		}
	}
}

func (w *walk) container(value pcommon.Value, at place) {
	if at.depth >= maximumDepth {
		w.changed("")
		value.SetStr(w.drop(reasonDepth))
		at.budget.take(len(value.Str()))
		return
	}
	at.depth++
	if value.Type() == pcommon.ValueTypeMap {
		w.entries(value.Map(), at)
		return
	}
	w.jointly(value.Slice(), at)
	if at.budget != nil {
		w.cappedItems(value.Slice(), at)
		return
	}
	for _, item := range value.Slice().All() {
		w.value(item, at)
	}
}

// changed notes what was taken out of a data point, so that points that become alike can be told apart.
func (w *walk) changed(original string) {
	if w.constant {
		w.origin = w.origin*31 + maphash.String(originSeed, original) | 1
	}
}

// changedValue is changed for a value of any type; what it reads is costly, so only where it is needed.
func (w *walk) changedValue(value pcommon.Value) {
	if w.constant {
		w.changed(value.AsString())
	}
}

var originSeed = maphash.MakeSeed()
