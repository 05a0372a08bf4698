package detect

// automaton finds all words in a text in one pass (Aho-Corasick with a full transition table).
type automaton struct {
	fold        [256]uint8
	width       int
	next        []uint16
	outputs     [][]int
	firstOutput int // the states from this one on have outputs
}

// newAutomaton builds the table. Words are in lower case; the text's ASCII letters are folded.
func newAutomaton(words []word) *automaton {
	a := &automaton{}
	a.assignColumns(words)
	a.outputs = [][]int{nil}
	a.next = make([]uint16, a.width)
	for index, word := range words {
		a.insert(word.text, index)
	}
	a.link()
	a.sortStates()
	return a
}

// holdsWord says whether any of the words stands in a text.
func (a *automaton) holdsWord(text string) bool {
	state := 0
	for position := range len(text) {
		if state = int(a.next[state*a.width+int(a.fold[text[position]])]); state >= a.firstOutput {
			return true
		}
	}
	return false
}

// assignColumns gives each byte that occurs in a word a column; column 0 is for all others.
func (a *automaton) assignColumns(words []word) {
	a.width = 1
	for _, word := range words {
		for position := range len(word.text) {
			character := word.text[position]
			if a.fold[character] == 0 {
				a.fold[character] = uint8(a.width)
				a.width++
			}
		}
	}
	for character := byte('A'); character <= 'Z'; character++ {
		a.fold[character] = a.fold[character+'a'-'A']
	}
}

func (a *automaton) insert(text string, index int) {
	state := 0
	for position := range len(text) {
		cell := state*a.width + int(a.fold[text[position]])
		if a.next[cell] == 0 {
			a.next[cell] = uint16(len(a.outputs))
			a.outputs = append(a.outputs, nil)
			a.next = append(a.next, make([]uint16, a.width)...)
		}
		state = int(a.next[cell])
	}
	a.outputs[state] = append(a.outputs[state], index)
}

// link fills the missing transitions breadth first with those of the longest proper suffix.
func (a *automaton) link() {
	suffix := make([]uint16, len(a.outputs))
	queue := make([]int, 0, len(a.outputs))
	for column := range a.width {
		if child := a.next[column]; child != 0 {
			queue = append(queue, int(child))
		}
	}
	for head := 0; head < len(queue); head++ {
		state := queue[head]
		fallback := int(suffix[state])
		a.outputs[state] = append(a.outputs[state], a.outputs[fallback]...)
		for column := range a.width {
			cell := state*a.width + column
			target := a.next[fallback*a.width+column]
			if child := a.next[cell]; child != 0 {
				suffix[child] = target
				queue = append(queue, int(child))
			} else {
				a.next[cell] = target
			}
		}
	}
}

// sortStates puts those with outputs last: a comparison then says whether a word ends, without a look into memory.
func (a *automaton) sortStates() {
	var order []int
	for _, wanted := range []bool{false, true} {
		a.firstOutput = len(order)
		for state, outputs := range a.outputs {
			if (outputs != nil) == wanted {
				order = append(order, state)
			}
		}
	}
	numbers := make([]uint16, len(order))
	for number, state := range order {
		numbers[state] = uint16(number)
	}
	next, outputs := make([]uint16, 0, len(a.next)), make([][]int, 0, len(order))
	for _, state := range order {
		for _, target := range a.next[state*a.width : (state+1)*a.width] {
			next = append(next, numbers[target])
		}
		outputs = append(outputs, a.outputs[state])
	}
	a.next, a.outputs = next, outputs
}
