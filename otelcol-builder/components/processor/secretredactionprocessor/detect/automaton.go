package detect

// automaton finds all words in a text in one pass (Aho-Corasick with a full transition table).
type automaton struct {
	fold    [256]uint8
	width   int
	next    []uint16
	outputs [][]int
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
	return a
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
