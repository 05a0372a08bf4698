package detect

import (
	"math/rand/v2"
	"strings"
	"testing"
)

const printable = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+/.~="

func TestEveryShapeOfTheTablesIsFound(t *testing.T) {
	d := newTestDetector(t)
	random := rand.New(rand.NewPCG(5, 5))
	count := 0
	for _, table := range vendorTables {
		shapes, err := parseShapes(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, shape := range shapes {
			count++
			missed := 0
			for range 20 {
				token := tokenOf(shape, random)
				if !hides(t, d, "seen '"+token+"' today", token) {
					missed++
				}
			}
			if missed > 2 { // chance makes a few that read like words
				t.Errorf("%s: %d of 20 missed, such as %q", shape.class, missed, tokenOf(shape, random))
			}
		}
	}
	if count < 300 {
		t.Errorf("only %d shapes", count)
	}
}

// tokenOf makes a token of a shape.
func tokenOf(shape tokenShape, random *rand.Rand) string {
	var token strings.Builder
	for _, piece := range shape.pieces {
		token.WriteString(piece.literal)
		if piece.literal != "" {
			continue
		}
		length := min(piece.max, piece.min+8)
		for end := token.Len() + length; token.Len() < end; {
			if character := printable[random.IntN(len(printable))]; kinds[piece.kind](character) {
				token.WriteByte(character)
			}
		}
	}
	return token.String()
}

func TestTokensInsideOfLongerTextsAreNone(t *testing.T) {
	d := newTestDetector(t)
	token := "KG" + "AT_f0e1d2c3b4a59687" + "78695a4b3c2d1e0f"
	for _, text := range []string{"x" + token, token + "x1", strings.ToLower(token)} {
		if masked := maskAll(t, d, "", text); masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	}
	if !hides(t, d, `line\n`+token, token) {
		t.Error("the token behind an escaped line break is missed")
	}
}

func TestAVendorsTokenMayReadLikeWordsAndANameMayBeginLikeAToken(t *testing.T) {
	d := newTestDetector(t)
	if token := "sk-" + "proj-Zq81mPlantedKeyThatMustNotLeave42"; !hides(t, d, "used "+token+" today", token) {
		t.Error("a key whose letters read like words is missed")
	}
	for _, name := range []string{"sk-proj-data-loader-version-2024", "sk-proj-MeanRewardOfTheLastStep"} {
		if masked := maskAll(t, d, "", name); masked != name {
			t.Errorf("%q became %q", name, masked)
		}
	}
}

func TestABadTableIsRefused(t *testing.T) {
	for _, table := range []string{"a b{A}", "a {A10}", "a {A1-9}b", "a b{?9}", "a b{A9"} {
		if _, err := parseShapes(table); err == nil {
			t.Errorf("%q is accepted", table)
		}
	}
}
