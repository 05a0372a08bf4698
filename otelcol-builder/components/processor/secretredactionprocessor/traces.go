package secretredactionprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

func (w *walk) traces(data ptrace.Traces) {
	data.ResourceSpans().RemoveIf(func(group ptrace.ResourceSpans) bool {
		return w.failed(func() {
			w.resource(group.Resource())
			group.SetSchemaUrl(w.name(group.SchemaUrl()))
			group.ScopeSpans().RemoveIf(w.scopeSpans)
		})
	})
}

func (w *walk) scopeSpans(group ptrace.ScopeSpans) bool {
	return w.failed(func() {
		w.scope(group.Scope())
		group.SetSchemaUrl(w.name(group.SchemaUrl()))
		group.Spans().RemoveIf(func(span ptrace.Span) bool {
			return w.failed(func() { w.span(span) })
		})
	})
}

func (w *walk) scope(scope pcommon.InstrumentationScope) {
	scope.SetName(w.name(scope.Name()))
	scope.SetVersion(w.name(scope.Version()))
	w.attributes(scope.Attributes())
}

func (w *walk) span(span ptrace.Span) {
	span.SetName(w.name(span.Name()))
	w.traceState(span.TraceState())
	w.attributes(span.Attributes())
	if message := span.Status().Message(); message != "" {
		span.Status().SetMessage(w.statusMessage(message, stringUnder(span.Attributes(), "error.type")))
	}
	for _, event := range span.Events().All() {
		event.SetName(w.name(event.Name()))
		w.entries(event.Attributes(), place{message: contentEvents.MatchString(event.Name())})
	}
	for _, link := range span.Links().All() {
		w.traceState(link.TraceState())
		w.attributes(link.Attributes())
	}
}

// statusMessage keeps a message that only repeats the error's type.
func (w *walk) statusMessage(message, errorType string) string {
	if !w.removes() {
		return w.cappedText(w.readable(message), place{budget: w.newBudget()})
	}
	kept := w.readable(message)
	if kept != errorType {
		kept = statusWithoutContent(kept)
	}
	if kept != message {
		w.counts.content++
	}
	return w.name(kept)
}

func (w *walk) traceState(state pcommon.TraceState) {
	if raw := state.AsRaw(); raw != "" {
		state.FromRaw(w.name(raw))
	}
}

// failed runs the cleaning of one item; true means that a panic ended it and the item must not pass.
func (w *walk) failed(clean func()) (failed bool) {
	defer func() {
		if recover() != nil {
			w.counts.drop(reasonPanic)
			failed = true
		}
	}()
	clean()
	return false
}
