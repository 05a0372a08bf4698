package detect

import "errors"

// What things cost, in steps. A step is about the time that the first passes take for one byte.
const (
	stepsOfLook    = 16   // a handler looks at a word, or a rule at a run of token characters
	stepsOfGroup   = 48   // a group of digits is compared with the forms of numbers
	stepsOfName    = 80   // a name and the value behind it are read, or a command line
	stepsOfContext = 200  // the words between a vendor's name and a value are compared with lists
	stepsOfPattern = 12   // for each byte that a pattern is tried on
	stepsOfMatch   = 2000 // what a pattern found is compared with the allowlists
)

// mostSteps is what a byte of a text may cost: just under twenty times as much as a byte of plain text, and more than twice as much as
// one of the costliest prompt of Markdown and code in JSON.
const mostSteps = 120

// leastSteps is what a text may cost beside that: a short one may be all secret.
const leastSteps = 64 << 10

// stepsPerQuestion: after so many steps a scan asks whether its result is still wanted.
const stepsPerQuestion = 64 << 10

// ErrTooCostly ends the scan of a text that costs more than a text of its length may.
var ErrTooCostly = errors.New("the text costs more to scan than a text of its length may")

// Work bounds what all scans of one text cost together. It counts steps and reads no clock: whether a text is scanned to its end must
// not depend on how fast or busy a core is.
type Work struct {
	left, untilQuestion int
	wanted              func() error
}

// NewWork returns the bound of a text of this size. The function says why the result is no longer wanted, or nil.
func NewWork(size int, wanted func() error) *Work {
	work := &Work{wanted: wanted}
	work.Renew(size)
	return work
}

// Renew makes it the bound of another text of this size.
func (w *Work) Renew(size int) {
	w.left, w.untilQuestion = leastSteps+mostSteps*size, stepsPerQuestion
}

// Spend notes steps, and says why there may be no more.
func (w *Work) Spend(steps int) error {
	if w.left -= steps; w.left < 0 {
		return ErrTooCostly
	}
	if w.untilQuestion -= steps; w.untilQuestion > 0 {
		return nil
	}
	w.untilQuestion = stepsPerQuestion
	return w.wanted()
}

// goOn notes what the scan is about to do, and says whether it may.
func (s *scan) goOn(steps int) bool {
	if s.stopped == nil && s.work != nil {
		s.stopped = s.work.Spend(steps)
	}
	return s.stopped == nil
}
