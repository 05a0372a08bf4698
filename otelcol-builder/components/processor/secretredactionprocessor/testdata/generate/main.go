// Command generate writes the suites of this folder from the shapes: go run ./testdata/generate
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

const valuesPerShape = 3

// line is one object of a suite, as redaction-score reads it.
type line struct {
	Text      string   `json:"text"`
	Secrets   []string `json:"secrets"`
	Class     string   `json:"class"`
	Placement string   `json:"placement"`
}

// frames are what a vendor's token is put into when its shape is nothing but the token.
var frames = []string{
	"%s", "export TOKEN=%s", `{"level":"info","message":"using %s now"}`, "auth failed for '%s', retrying",
	`{\"credential\": \"%s\"}`, "https://judge.internal/cb?x=1&v=%s", "a: 1\nb: %s\nc: 3",
}

func main() {
	log.SetFlags(0)
	folder := "testdata"
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	shapes, err := filepath.Glob(filepath.Join(folder, "shapes", "*.txt"))
	if err != nil || len(shapes) == 0 {
		log.Fatalf("no shapes in %s: run it in the module's folder", folder)
	}
	for _, file := range shapes {
		if err := generate(file, suiteOf(file, folder)); err != nil {
			log.Fatal(err)
		}
	}
	spans, err := filepath.Glob(filepath.Join(folder, "shapes", "personal", "*.txt"))
	if err != nil || len(spans) == 0 {
		log.Fatalf("no shapes of personal data in %s", folder)
	}
	for _, file := range spans {
		if err := generateSpans(file, suiteOf(file, filepath.Join(folder, "personal"))); err != nil {
			log.Fatal(err)
		}
	}
}

func suiteOf(shapes, folder string) string {
	return filepath.Join(folder, strings.TrimSuffix(filepath.Base(shapes), ".txt")+".jsonl")
}

func generate(source, target string) error {
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
	for number, shape := range strings.Split(string(content), "\n") {
		if shape == "" || strings.HasPrefix(shape, "#") {
			continue
		}
		class, template, found := strings.Cut(shape, " | ")
		if !found {
			return fmt.Errorf("%s:%d: no ' | ' between class and text", source, number+1)
		}
		for count := range valuesPerShape {
			if err := writeLine(writer, expand(class, template, count)); err != nil {
				return fmt.Errorf("%s:%d: %w", source, number+1, err)
			}
		}
	}
	return writer.Flush()
}

func expand(class, template string, count int) line {
	seed := fnv.New64a()
	fmt.Fprintf(seed, "%s %d", template, count)
	maker := &maker{rand.New(rand.NewPCG(seed.Sum64(), 1))}
	if strings.HasPrefix(template, "«") && strings.HasSuffix(template, "»") {
		template = fmt.Sprintf(frames[maker.IntN(len(frames))], template)
	}
	result := line{Class: class, Secrets: []string{}, Placement: []string{"body", "attribute"}[count%2]}
	var text strings.Builder
	for rest := unescape(template); rest != ""; {
		before, after, found := strings.Cut(rest, "«")
		text.WriteString(maker.fill(before))
		if !found {
			break
		}
		var secret string
		secret, rest, _ = strings.Cut(after, "»")
		secret = maker.fill(secret)
		text.WriteString(secret)
		result.Secrets = append(result.Secrets, secret)
	}
	result.Text = text.String()
	return result
}

func unescape(template string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n").Replace(template)
}

// writeLine writes an object whose tokens are broken up by JSON escapes, so that no scanner of a hosting site takes
// the made-up values for somebody's.
func writeLine(writer *bufio.Writer, object line) error {
	var buffer strings.Builder
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		return err
	}
	encoded := strings.TrimSuffix(buffer.String(), "\n")
	for _, secret := range object.Secrets {
		quoted := quote(secret)
		encoded = strings.ReplaceAll(encoded, quoted, breakUp(quoted))
	}
	_, err := fmt.Fprintln(writer, encoded)
	return err
}

func quote(text string) string {
	var buffer strings.Builder
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return text
	}
	return strings.Trim(strings.TrimSuffix(buffer.String(), "\n"), `"`)
}

// breakUp escapes every eighth letter or digit, beginning with the second.
func breakUp(text string) string {
	var result strings.Builder
	escaped, since := false, 6
	for _, character := range text {
		since++
		plain := character >= '0' && character <= '9' || character >= 'A' && character <= 'Z' || character >= 'a' && character <= 'z'
		switch {
		case escaped:
			escaped, since = false, 2
			if character == 'u' {
				since = 2
			}
			result.WriteRune(character)
		case character == '\\':
			escaped = true
			result.WriteRune(character)
		case plain && since >= 8:
			fmt.Fprintf(&result, `\u%04x`, character)
			since = 0
		default:
			result.WriteRune(character)
		}
	}
	return result.String()
}
