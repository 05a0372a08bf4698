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

// changes says the same of kinds of characters in identifiers, in half bits: small letters, capitals, digits, signs.
var changes = [4][4]float64{{0, -11, -16, -6}, {-2, -2, -13, -8}, {-6, -6, -2, -5}, {0, -8, -12, -8}}

// mostReadable is what a random value reaches by chance only.
const mostReadable = -20

// readable says how much more a value reads like words and identifiers than like the output of a generator, in half bits. The
// generator is one that uses small letters, capitals, digits and signs as often as the value does, so it may have any alphabet.
func readable(value string) float64 {
	value = judged(value)
	counted := [4]float64{}
	for position := range len(value) {
		counted[kindOf(value[position])]++
	}
	total := 0.0
	for _, count := range counted { // the first character too, which hardly matters
		if count > 0 {
			total -= 2 * count * math.Log2(count/float64(len(value)))
		}
	}
	for position := 1; position < len(value); position++ {
		first, second := value[position-1], value[position]
		total += changes[kindOf(first)][kindOf(second)]
		if isLetter(first) && isLetter(second) {
			total += float64(pairs[int(first|0x20-'a')*26+int(second|0x20-'a')]) - 'm'
		}
	}
	return total
}

func kindOf(character byte) int {
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
