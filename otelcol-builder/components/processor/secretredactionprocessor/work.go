package secretredactionprocessor

import (
	"context"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

// request is what the texts of one batch share: whether somebody still waits for it. What a text may cost is its own affair, so that
// one text takes nothing from another, which may be another sender's.
type request struct {
	ctx   context.Context
	ended error
}

// wanted says why nothing more is to be scanned: the request was given up. A nil request is wanted to its end.
func (r *request) wanted() error {
	if r == nil {
		return nil
	}
	if r.ended == nil {
		r.ended = r.ctx.Err()
	}
	return r.ended
}

// workOn returns what the scans of a text may cost together, until it is called for the next text.
func (t *tally) workOn(text string) *detect.Work {
	if t.work == nil {
		t.work = detect.NewWork(len(text), t.request.wanted)
	} else {
		t.work.Renew(len(text))
	}
	return t.work
}
