package requestguardextension

// kind is what a field of OTLP holds.
type kind uint8

const (
	nested kind = iota
	text
	octets // bytes; base64 in JSON
	hexadecimal
	boolean
	enumeration
	float
	int32Number
	uint32Number
	int64Number
	uint64Number
)

// held is how the decoder keeps a field in memory.
type held uint8

const (
	inPlace  held = iota // within the struct around it
	oneOf                // behind an interface, in a struct of its own
	pointers             // in a list of pointers
	values               // in a list
)

// field is one field of a message.
type field struct {
	number int32
	name   string // as in JSON
	kind   kind
	held   held
	of     *messageType
	// varints says that the numbers of a list are varints in protobuf; else they take eight bytes.
	varints bool
	// each is how much memory one more of it takes, what its text or its fields take aside.
	each int
}

func (f *field) isList() bool { return f.held == pointers || f.held == values }

// messageType is one of OTLP's messages as the decoder of pdata v1.64.0 reads it.
type messageType struct {
	size     int // of its struct, in bytes on 64-bit machines; a test compares it with pdata's
	byNumber [17]*field
	former   *field // of number 1000, where OTLP before 1.0 had its scopes
	byName   map[string]*field
}

const numberOfFormer = 1000

func (m *messageType) field(number int32) *field {
	switch {
	case uint32(number) < uint32(len(m.byNumber)):
		return m.byNumber[number]
	case number == numberOfFormer:
		return m.former
	}
	return nil
}

func (m *messageType) has(fields ...*field) {
	m.byName = make(map[string]*field, 2*len(fields))
	for _, each := range fields {
		each.each = each.memory()
		m.byName[each.name], m.byName[snakeCase(each.name)] = each, each
		if each.number == numberOfFormer {
			m.former = each
		} else {
			m.byNumber[each.number] = each
		}
	}
}

// A list that is appended to grows by a quarter, or doubles while it is small, and the former one is there until it is
// copied: up to 9/4 of what is in it.
const growthNumerator, growthDenominator = 9, 4

const pointerSize, interfaceSize, numberSize = 8, 16, 8

func (f *field) memory() int {
	size := 0
	switch f.kind {
	case nested:
		size = f.of.size
	case text:
		size = interfaceSize
	case int64Number, uint64Number, float:
		size = numberSize
	}
	switch f.held {
	case oneOf:
		return interfaceSize + allocated(size)
	case pointers:
		return allocated(size) + pointerSize*growthNumerator/growthDenominator
	case values:
		return size * growthNumerator / growthDenominator
	}
	return 0
}

// allocated rounds up to what Go's allocator gives.
func allocated(size int) int {
	const step = 16
	return (size + step - 1) / step * step
}

// snakeCase is the other spelling that the decoder takes in JSON.
func snakeCase(name string) string {
	var snake []byte
	for _, letter := range []byte(name) {
		if letter >= 'A' && letter <= 'Z' {
			snake = append(snake, '_', letter-'A'+'a')
		} else {
			snake = append(snake, letter)
		}
	}
	return string(snake)
}

func single(number int32, name string, kind kind) *field {
	return &field{number: number, name: name, kind: kind}
}

func choice(number int32, name string, kind kind) *field {
	return &field{number: number, name: name, kind: kind, held: oneOf}
}

func list(number int32, name string, kind kind) *field {
	return &field{number: number, name: name, kind: kind, held: values}
}

func listOfVarints(number int32, name string, kind kind) *field {
	return &field{number: number, name: name, kind: kind, held: values, varints: true}
}

func within(number int32, name string, of *messageType) *field {
	return &field{number: number, name: name, of: of}
}

func choiceOf(number int32, name string, of *messageType) *field {
	return &field{number: number, name: name, held: oneOf, of: of}
}

func listOf(number int32, name string, held held, of *messageType) *field {
	return &field{number: number, name: name, held: held, of: of}
}
