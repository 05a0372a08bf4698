package main

import (
	"encoding/binary"
	"time"
)

// Field numbers of the OTLP trace messages.
const (
	requestResources  = 1
	resourceItself    = 1
	resourceScopes    = 2
	scopeItems        = 2
	resourceAttribute = 1
	spanTraceID       = 1
	spanID            = 2
	spanParent        = 4
	spanName          = 5
	spanKind          = 6
	spanStart         = 7
	spanEnd           = 8
	spanAttribute     = 9
	attributeKey      = 1
	attributeValue    = 2
	valueString       = 1
	valueInt          = 3
)

// Attributes by which the receiver knows a span again.
const (
	runKey      = "ledger.run"
	rankKey     = "ledger.rank"
	sequenceKey = "ledger.sequence"
)

// What an engineer writes into spans: few texts, repeated.
var notes = [...]string{
	"reward model scored the rollout, next token batch is waiting",
	"weights synced to the engine after 12 buckets",
	"tool call finished: 3 files changed, tests passed",
	"prompt was truncated to fit the context window",
}

// entry names a span: the run and rank that sent it and its place in that rank's sequence.
type entry struct {
	run      string
	rank     uint64
	sequence uint64
}

// traceOf returns the trace id of a span; `length` neighbours share one.
func (e entry) traceOf(length uint64) [16]byte {
	seed := textSeed(e.run) ^ mixed(e.rank+1)
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], mixed(seed^mixed(e.sequence/length)))
	binary.BigEndian.PutUint64(id[8:], mixed(seed+mixed(e.sequence/length+1)))
	return id
}

func (e entry) spanID() [8]byte {
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], mixed(textSeed(e.run)+mixed(e.rank<<40|e.sequence)))
	return id
}

// mixed is the finalizer of splitmix64: neighbouring numbers become unlike ones.
func mixed(number uint64) uint64 {
	number += 0x9e3779b97f4a7c15
	number = (number ^ number>>30) * 0xbf58476d1ce4e5b9
	number = (number ^ number>>27) * 0x94d049bb133111eb
	return number ^ number>>31
}

func textSeed(text string) (seed uint64) {
	for _, letter := range []byte(text) {
		seed = mixed(seed ^ uint64(letter))
	}
	return seed
}

// encodeBatch returns an export request with `count` spans of one rank that ended now.
func encodeBatch(first entry, count, traceLength uint64) []byte {
	var scope []byte
	now := uint64(time.Now().UnixNano())
	for number := range count {
		each := first
		each.sequence += number
		scope = appendBytes(scope, scopeItems, encodeSpan(each, traceLength, now))
	}
	resource := appendBytes(nil, resourceAttribute, textAttribute("service.name", "ledger"))
	resource = appendBytes(resource, resourceAttribute, textAttribute(runKey, first.run))
	resource = appendBytes(resource, resourceAttribute, intAttribute(rankKey, first.rank))
	group := appendBytes(nil, resourceItself, resource)
	group = appendBytes(group, resourceScopes, scope)
	return appendBytes(nil, requestResources, group)
}

func encodeSpan(each entry, traceLength, now uint64) []byte {
	trace, own := each.traceOf(traceLength), each.spanID()
	span := appendBytes(nil, spanTraceID, trace[:])
	span = appendBytes(span, spanID, own[:])
	if place := each.sequence % traceLength; place != 0 {
		root := each
		root.sequence -= place
		parent := root.spanID()
		span = appendBytes(span, spanParent, parent[:])
	}
	span = appendBytes(span, spanName, "ledger.work")
	span = appendVarint(span, spanKind, 1)
	span = appendFixed64(span, spanStart, now-uint64(5*time.Millisecond))
	span = appendFixed64(span, spanEnd, now)
	span = appendBytes(span, spanAttribute, intAttribute(sequenceKey, each.sequence))
	return appendBytes(span, spanAttribute, textAttribute("ledger.note", notes[each.sequence%uint64(len(notes))]))
}

func textAttribute(key, value string) []byte {
	return appendBytes(appendBytes(nil, attributeKey, key), attributeValue, appendBytes(nil, valueString, value))
}

func intAttribute(key string, value uint64) []byte {
	return appendBytes(appendBytes(nil, attributeKey, key), attributeValue, appendVarint(nil, valueInt, value))
}

// received is a span as it came out of the collector.
type received struct {
	entry
	trace [16]byte
	span  [8]byte
	note  string
}

// decodeBatch returns the ledger's spans of an export request.
func decodeBatch(request []byte) (spans []received, err error) {
	for resource, err := range fields(request) {
		if err != nil {
			return nil, err
		}
		if resource.id != requestResources {
			continue
		}
		if spans, err = decodeResource(resource.content, spans); err != nil {
			return nil, err
		}
	}
	return spans, nil
}

func decodeResource(group []byte, spans []received) ([]received, error) {
	var origin entry
	start := len(spans)
	for part, err := range fields(group) {
		switch {
		case err != nil:
			return nil, err
		case part.id == resourceItself:
			attributes, err := decodeAttributes(part.content, resourceAttribute)
			if err != nil {
				return nil, err
			}
			origin = entry{run: string(attributes[runKey].content), rank: attributes[rankKey].number}
		case part.id == resourceScopes:
			if spans, err = decodeScope(part.content, spans); err != nil {
				return nil, err
			}
		}
	}
	for index := range spans[start:] {
		spans[start+index].run, spans[start+index].rank = origin.run, origin.rank
	}
	return spans, nil
}

func decodeScope(scope []byte, spans []received) ([]received, error) {
	for item, err := range fields(scope) {
		if err != nil {
			return nil, err
		}
		if item.id != scopeItems {
			continue
		}
		attributes, err := decodeAttributes(item.content, spanAttribute)
		if err != nil {
			return nil, err
		}
		span := received{note: string(attributes["ledger.note"].content)}
		span.sequence = attributes[sequenceKey].number
		for part, err := range fields(item.content) {
			switch {
			case err != nil:
				return nil, err
			case part.id == spanTraceID:
				copy(span.trace[:], part.content)
			case part.id == spanID:
				copy(span.span[:], part.content)
			}
		}
		spans = append(spans, span)
	}
	return spans, nil
}

// decodeAttributes returns the values of a message's attributes, which are its fields with the number `id`.
func decodeAttributes(message []byte, id int) (map[string]field, error) {
	found := map[string]field{}
	for part, err := range fields(message) {
		if err != nil {
			return nil, err
		}
		if part.id != id {
			continue
		}
		var key string
		var value field
		for half, err := range fields(part.content) {
			switch {
			case err != nil:
				return nil, err
			case half.id == attributeKey:
				key = string(half.content)
			case half.id == attributeValue && len(half.content) > 0:
				if value, _, err = readField(half.content); err != nil {
					return nil, err
				}
			}
		}
		found[key] = value
	}
	return found, nil
}
