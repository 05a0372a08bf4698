package detect

import "math"

// pairs says how much more often than by chance a letter follows another one in words: a row for the first letter, a column for the
// second, "m" for as often, a letter of the alphabet for half a bit. Counted in the distinct words and identifiers of libraries
// for machine learning.
const pairs = "" +
	"gmnoeglclbhpmpiobpopjkjnjd" +
	"piljojggpoeqjipkalnioelena" +
	"pglhoheomanohfrnanlpmeeeic" +
	"ngjprihcrdhjghnkdjqhmgfmha" +
	"lgnoikjchacllpkkkqoqfjllpc" +
	"nghhnohapadmkosljlmmmdkmia" +
	"mhjftfklnaenllknenlkkgbagb" +
	"rghhqocipceiifpkilklnejekg" +
	"kjmrlklcdadlnrnkblpockahal" +
	"ohhfqffhrkhfhksmffofnkjfff" +
	"jfehvcdfmaeliggicfmffmjaha" +
	"pfhlqigfqbeqocpkbfnlmhebma" +
	"sljipdjdpaflnfppaenjmiafjc" +
	"ninppkpfmdjiflojdgoppledia" +
	"immmlllcjdimnqkoaqonojmhdb" +
	"pbjhqbikoafnhgombqnpnabcna" +
	"nhkjhhhflfqlhpfjjjmfthjhff" +
	"pgllshmcoajmmkojbknmmhfbka" +
	"ndmjrhinoaijkgmmglnqohjalc" +
	"odkhqggmqadkjgrjbpnmkfijka" +
	"lnljljjbkadnrqfnaopqeebfaa" +
	"rhigsekbqfdojemjhhglegbjfd" +
	"rffnqfhmqdgkjnpggnnjdgmdgd" +
	"kfmhphhqnckoiilqcejocccrjc" +
	"mjlinkgeoeglqpnqeloolileej" +
	"qhhhthflpfflhhmkfhhfhihfjk"

// changes says the same of readKinds of characters in identifiers, in half bits: small letters, capitals, digits, signs.
var changes = [4][4]int{{0, -11, -16, -6}, {-2, -2, -13, -8}, {-6, -6, -2, -5}, {0, -8, -12, -8}}

// mostReadable is what a random value reaches by chance only.
const mostReadable = -20

// readable says how much more a value reads like words and identifiers than like the output of a generator, in half bits. The
// generator is one that uses small letters, capitals, digits and signs as often as the value does, so it may have any alphabet.
func readable(value string) float64 {
	value = judged(value)
	if value == "" {
		return 0
	}
	counted, likely := [4]int{}, 0
	first, before := value[0], readKinds[value[0]]
	counted[before]++
	for position := 1; position < len(value); position++ {
		second, kind := value[position], readKinds[value[position]]
		counted[kind]++
		likely += changes[before][kind]
		if before <= upperKind && kind <= upperKind {
			likely += int(pairs[int(first|0x20-'a')*26+int(second|0x20-'a')]) - 'm'
		}
		first, before = second, kind
	}
	total := float64(likely)
	for _, count := range counted { // the first character too, which hardly matters
		if count > 0 {
			total -= 2 * float64(count) * math.Log2(float64(count)/float64(len(value)))
		}
	}
	return total
}

// upperKind is the last kind of letters.
const upperKind = 1

// readKinds holds kindOf of each character.
var readKinds = func() (of [256]uint8) {
	for character := range of {
		of[character] = kindOf(byte(character))
	}
	return of
}()

func kindOf(character byte) uint8 {
	switch {
	case isLower(character):
		return 0
	case isUpper(character):
		return 1
	case isDigit(character):
		return 2
	}
	return 3
}
