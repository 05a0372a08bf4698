package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strings"
)

// spanLine is one object of a suite with spans, as span-score reads it.
type spanLine struct {
	Text      string      `json:"text"`
	Spans     []textRange `json:"spans"`
	Kind      string      `json:"kind"`
	Placement string      `json:"placement"`
}

// textRange is a labelled piece of a text, in bytes.
type textRange struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Class string `json:"class"`
	Form  string `json:"form,omitempty"`
}

// spanPlacements are the places of a shape's lines; a kind that names a key has that one.
var spanPlacements = []string{"body", "attribute"}

// generateSpans writes a suite with spans from shapes of the form `kind | text «class/form:value»`.
func generateSpans(source, target string) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	output, err := os.Create(target)
	if err != nil {
		return err
	}
	defer output.Close()
	writer := bufio.NewWriter(output)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for number, shape := range strings.Split(string(content), "\n") {
		if shape == "" || strings.HasPrefix(shape, "#") {
			continue
		}
		kind, template, found := strings.Cut(shape, " | ")
		if !found {
			return fmt.Errorf("%s:%d: no ' | ' between kind and text", source, number+1)
		}
		for _, placement := range spanPlacements {
			made, err := expandSpans(kind, template, placement)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", source, number+1, err)
			}
			if err := encoder.Encode(made); err != nil {
				return err
			}
		}
	}
	return writer.Flush()
}

func expandSpans(kind, template, placement string) (spanLine, error) {
	seed := fnv.New64a()
	fmt.Fprintf(seed, "%s %s", template, placement)
	maker := &maker{rand.New(rand.NewPCG(seed.Sum64(), 1))}
	kind, key, named := strings.Cut(kind, ":")
	if named {
		placement = "key:" + key
	}
	made := spanLine{Kind: kind, Spans: []textRange{}, Placement: placement}
	var text strings.Builder
	for rest := strings.ReplaceAll(unescape(template), `\t`, "\t"); rest != ""; {
		before, after, found := strings.Cut(rest, "«")
		text.WriteString(maker.fill(before))
		if !found {
			break
		}
		marked, behind, closed := strings.Cut(after, "»")
		label, value, labelled := strings.Cut(marked, ":")
		if !closed || !labelled {
			return made, fmt.Errorf("%q is not «class:value»", marked)
		}
		class, form, _ := strings.Cut(label, "/")
		start := text.Len()
		text.WriteString(maker.fill(value))
		made.Spans = append(made.Spans, textRange{Start: start, End: text.Len(), Class: class, Form: form})
		rest = behind
	}
	made.Text = text.String()
	return made, nil
}
