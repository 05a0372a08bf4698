package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/internal/suite"
)

// ratio is a share with what it is made of.
type ratio struct{ part, whole int }

func (r *ratio) add(counts bool) {
	r.whole++
	if counts {
		r.part++
	}
}

func (r ratio) below(least float64) bool { return float64(r.part) < least*float64(r.whole) }

func (r ratio) String() string {
	if r.whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f (%d/%d)", float64(r.part)/float64(r.whole), r.part, r.whole)
}

// recall counts the spans of a class: found from start to end, and touched by any finding.
type recall struct{ exact, touched ratio }

type score struct {
	recalls    map[string]*recall // by class and form
	precisions map[string]*ratio  // by class
	untouched  map[string]*ratio  // by kind of look-alike
	misses     []string
}

func newScore() *score {
	return &score{recalls: map[string]*recall{}, precisions: map[string]*ratio{}, untouched: map[string]*ratio{}}
}

// of returns the entry of a name, made when there is none.
func of[T any](entries map[string]*T, name string) *T {
	if entries[name] == nil {
		entries[name] = new(T)
	}
	return entries[name]
}

func (s *score) count(place string, one suite.Labelled, found []detect.Finding) {
	wrong := false
	for _, span := range one.Spans {
		counted := of(s.recalls, nameOf(span))
		exact := slices.ContainsFunc(found, func(finding detect.Finding) bool {
			return finding.Start == span.Start && finding.End == span.End && finding.Class == span.Class
		})
		counted.exact.add(exact)
		counted.touched.add(slices.ContainsFunc(found, func(finding detect.Finding) bool { return overlap(finding, span) }))
		wrong = wrong || !exact
	}
	for _, finding := range found {
		right := slices.ContainsFunc(one.Spans, func(span suite.Span) bool {
			return finding.Class == span.Class && overlap(finding, span)
		})
		of(s.precisions, finding.Class).add(right)
		wrong = wrong || !right
	}
	if len(one.Spans) == 0 {
		of(s.untouched, one.Kind).add(len(found) == 0)
	}
	if wrong {
		s.misses = append(s.misses, fmt.Sprintf("%s %s %q: %s", place, one.Kind, one.Text, described(one, found)))
	}
}

func overlap(finding detect.Finding, span suite.Span) bool {
	return finding.Start < span.End && span.Start < finding.End
}

func described(one suite.Labelled, found []detect.Finding) string {
	var wanted, got []string
	for _, span := range one.Spans {
		wanted = append(wanted, fmt.Sprintf("%s %q", span.Class, one.Text[span.Start:span.End]))
	}
	for _, finding := range found {
		got = append(got, fmt.Sprintf("%s %q", finding.Class, one.Text[finding.Start:finding.End]))
	}
	return fmt.Sprintf("wanted %v, found %v", wanted, got)
}

func (s *score) printMisses(output io.Writer) {
	for _, miss := range s.misses {
		fmt.Fprintln(output, miss)
	}
}

// table returns the scores in Markdown.
func (s *score) table() string {
	var text strings.Builder
	text.WriteString("| class | found exactly | touched | precision |\n|---|---|---|---|\n")
	var whole recall
	for _, name := range slices.Sorted(maps.Keys(s.recalls)) {
		counted := s.recalls[name]
		class, _, _ := strings.Cut(name, ",")
		fmt.Fprintf(&text, "| `%s`%s | %s | %s | %s |\n", class, strings.TrimPrefix(name, class), counted.exact, counted.touched, s.precision(class))
		whole.exact.part, whole.exact.whole = whole.exact.part+counted.exact.part, whole.exact.whole+counted.exact.whole
		whole.touched.part, whole.touched.whole = whole.touched.part+counted.touched.part, whole.touched.whole+counted.touched.whole
	}
	fmt.Fprintf(&text, "| all | %s | %s | %s |\n", whole.exact, whole.touched, sum(s.precisions))
	text.WriteString("\n| look-alikes | untouched |\n|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(s.untouched)) {
		fmt.Fprintf(&text, "| %s | %s |\n", strings.ReplaceAll(kind, "_", " "), s.untouched[kind])
	}
	fmt.Fprintf(&text, "| all | %s |\n", sum(s.untouched))
	return text.String()
}

// precision is that of a class; a class without findings has none.
func (s *score) precision(class string) ratio {
	if counted := s.precisions[class]; counted != nil {
		return *counted
	}
	return ratio{}
}

func sum(ratios map[string]*ratio) ratio {
	var whole ratio
	for _, each := range ratios {
		whole.part, whole.whole = whole.part+each.part, whole.whole+each.whole
	}
	return whole
}

// below names the classes that miss a threshold. What has nothing to measure cannot meet one.
func (s *score) below(chosen options, problems io.Writer) bool {
	missed := false
	report := func(what string, counted ratio, least float64) {
		if counted.whole == 0 && least > 0 || counted.below(least) {
			fmt.Fprintf(problems, "span-score: %s is %s, wanted at least %v\n", what, counted, least)
			missed = true
		}
	}
	if len(s.recalls) == 0 {
		report("exact recall", ratio{}, chosen.minRecall)
	}
	for _, name := range slices.Sorted(maps.Keys(s.recalls)) {
		report("exact recall of "+name, s.recalls[name].exact, chosen.minRecall)
	}
	for _, class := range slices.Sorted(maps.Keys(s.precisions)) {
		report("precision of "+class, *s.precisions[class], chosen.minPrecision)
	}
	report("untouched share", sum(s.untouched), chosen.minUntouched)
	return missed
}
