package detect

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stepsIn returns how many steps a byte of a text costs.
func stepsIn(t *testing.T, d *Detector, key, text string) float64 {
	t.Helper()
	work := NewWork(len(text), func() error { return nil })
	before := work.left
	if _, err := d.FindWithin(key, text, work); err != nil {
		t.Fatalf("%v: %.100q", err, text)
	}
	return float64(before-work.left) / float64(len(text))
}

func detectorOfAll(t *testing.T) *Detector {
	t.Helper()
	d, err := New(Config{PersonalData: PersonalDataClasses})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestATextMayCostTwentyTimesAsMuchAsPlainText(t *testing.T) {
	plain := stepsIn(t, detectorOfAll(t), "", repeated(strings.Join(cleanTexts, "\n")+"\n", 64<<10))
	if share := mostSteps / plain; share < 15 || share > 20 {
		t.Errorf("a byte of plain text costs %.1f steps, one of any text may cost %.1f times as much", plain, share)
	}
}

// paragraphs returns those of our own pages, and pieces of our own code.
func paragraphs(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..", "..", "..", "..")
	var found []string
	for _, pattern := range []string{"docs/*.md", "*.md", "instrumentation/otel_rl/*/*.py", "otelcol-builder/components/*/*/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, strings.Split(string(text), "\n\n")...)
		}
	}
	if len(found) < 1000 {
		t.Skip("the pages are not here")
	}
	return found
}

// A core of half the speed, or one that is busy, changes nothing here: what counts are steps.
func TestPromptsOfMarkdownAndCodeCostHalfOfWhatTheyMay(t *testing.T) {
	d, pieces, draw := detectorOfAll(t), paragraphs(t), rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{8 << 10, 24 << 10} {
		for range 100 {
			text := ""
			for len(text) < size {
				text += pieces[draw.IntN(len(pieces))] + "\n\n"
			}
			message := []map[string]any{{"role": "user", "parts": []map[string]string{{"type": "text", "content": text[:size]}}}}
			asJSON, err := json.Marshal(message)
			if err != nil {
				t.Fatal(err)
			}
			for _, each := range []string{text[:size], string(asJSON)} {
				if steps := stepsIn(t, d, "gen_ai.input.messages", each); steps > mostSteps/2 {
					t.Errorf("%.0f steps for each of %d bytes: %.200q", steps, len(each), each)
				}
			}
		}
	}
}

func TestHostileTextsCostNoMoreThanTheyMay(t *testing.T) {
	d := detectorOfAll(t)
	for _, piece := range hostilePieces {
		stepsIn(t, d, "judge.api_key", repeated(piece, 128<<10))
	}
}

// allKeywords holds the keyword of every rule near something that looks like its value.
func allKeywords(d *Detector, size int) string {
	text := ""
	for _, rule := range d.rules {
		for _, keyword := range rule.keywords {
			if !strings.Contains(text, keyword) {
				text += keyword + " a8Kd03jfLs92mZqP "
			}
		}
	}
	return repeated(text, size)
}

func TestATextThatCostsMoreThanItMayEndsWithAnErrorWhereverTheWorkIs(t *testing.T) {
	d := detectorOfAll(t)
	hostile := allKeywords(d, 256<<10)
	for name, text := range map[string]string{"plain": hostile, "escaped": strings.ReplaceAll(hostile, " ", `\n`)} {
		work := NewWork(len(text), func() error { return nil })
		if found, err := d.FindWithin("", text, work); !errors.Is(err, ErrTooCostly) || found != nil {
			t.Errorf("%s: %d findings, %v, %d steps left", name, len(found), err, work.left)
		}
		if most := stepsOfPattern * len(text); work.left < -most {
			t.Errorf("%s: %d steps more than it may", name, -work.left)
		}
	}
}

func TestAScanEndsWithTheErrorOfARequestThatIsNoLongerWanted(t *testing.T) {
	gone := errors.New("gone")
	work := NewWork(1<<20, func() error { return gone })
	if _, err := detectorOfAll(t).FindWithin("", repeated("password=", 1<<20), work); !errors.Is(err, gone) {
		t.Error(err)
	}
}

func TestAKeyIsReadWithTheBeginningOfALongTextOnly(t *testing.T) {
	d, text := detectorOfAll(t), repeated(strings.Join(cleanTexts, "\n")+"\n", 64<<10)
	without, with := stepsIn(t, d, "", text), stepsIn(t, d, "sk.note", text)
	if with > 1.2*without {
		t.Errorf("a byte costs %.1f steps without a key and %.1f with one", without, with)
	}
	secret := strings.Repeat("Gravel-48x2Wq9", 3*keyReach/2/14)
	found, err := d.Find("db.password", "\""+secret+"\" "+text)
	if err != nil || !slices.ContainsFunc(found, func(each Finding) bool { return each.Start <= 1 && each.End > len(secret) }) {
		t.Errorf("%v %v: a long secret behind its key is not masked whole", found, err)
	}
}

func TestARuleLooksNoFurtherThanItsLongestMatch(t *testing.T) {
	link := "See https://twitter.com/jack7x/status/1234567890. " + strings.Repeat("Ordinary words of a page. ", 50)
	if steps := stepsIn(t, detectorOfAll(t), "", repeated(link, 64<<10)); steps > 30 {
		t.Errorf("a byte costs %.0f steps", steps)
	}
}

func TestWhatWasFoundIsNotLookedForAgainAmongManyFindings(t *testing.T) {
	d := detectorOfAll(t)
	few, many := repeated(secretTexts[0]+"\n", 2<<10), repeated(secretTexts[0]+"\n", 64<<10)
	if one, other := stepsIn(t, d, "", few), stepsIn(t, d, "", many); other > 1.2*one {
		t.Errorf("a byte costs %.1f steps among few findings and %.1f among many", one, other)
	}
}
