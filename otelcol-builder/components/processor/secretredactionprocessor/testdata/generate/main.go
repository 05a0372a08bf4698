// Command generate writes the suites of this folder from the shapes: go run ./testdata/generate
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// expansion makes the lines of a suite from a shape, which has a head before its text.
type expansion func(head, template string) ([]string, error)

func main() {
	log.SetFlags(0)
	folder := "testdata"
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	for suites, expand := range map[string]expansion{"": examples, "personal": labelled} {
		shapes, err := filepath.Glob(filepath.Join(folder, "shapes", suites, "*.txt"))
		if err != nil || len(shapes) == 0 {
			log.Fatalf("no shapes in %s: run it in the module's folder", filepath.Join(folder, "shapes", suites))
		}
		for _, file := range shapes {
			name := strings.TrimSuffix(filepath.Base(file), ".txt") + ".jsonl"
			if err := generate(file, filepath.Join(folder, suites, name), expand); err != nil {
				log.Fatal(err)
			}
		}
	}
}

func generate(source, target string, expand expansion) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	var lines []string
	for number, shape := range strings.Split(string(content), "\n") {
		if shape == "" || strings.HasPrefix(shape, "#") {
			continue
		}
		head, template, found := strings.Cut(shape, " | ")
		if !found {
			return fmt.Errorf("%s:%d: no ' | ' before the text", source, number+1)
		}
		made, err := expand(head, template)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", source, number+1, err)
		}
		lines = append(lines, made...)
	}
	return os.WriteFile(target, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// makerFor returns a maker that draws the same values for a template each time; what sets its lines apart is the other.
func makerFor(template string, other any) *maker {
	seed := fnv.New64a()
	fmt.Fprintf(seed, "%s %v", template, other)
	return &maker{rand.New(rand.NewPCG(seed.Sum64(), 1))}
}

// piece is what stood between « and »: in bytes of the text, with the label before its colon.
type piece struct {
	label      string
	start, end int
}

// expand fills a template, whose pieces are «value» or, with labels, «label:value».
func (m *maker) expand(template string, labels bool) (string, []piece, error) {
	var text strings.Builder
	var pieces []piece
	for rest := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(template); rest != ""; {
		before, after, found := strings.Cut(rest, "«")
		text.WriteString(m.fill(before))
		if !found {
			break
		}
		marked, behind, closed := strings.Cut(after, "»")
		label, value, labelled := "", marked, true
		if labels {
			label, value, labelled = strings.Cut(marked, ":")
		}
		if !closed || !labelled {
			return "", nil, errors.New("a piece is not closed, or has no label")
		}
		start := text.Len()
		text.WriteString(m.fill(value))
		pieces = append(pieces, piece{label, start, text.Len()})
		rest = behind
	}
	return text.String(), pieces, nil
}

func encode(object any) (string, error) {
	var buffer strings.Builder
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(object)
	return strings.TrimSuffix(buffer.String(), "\n"), err
}
