package durableotlpexporter

import "context"

// finding is what the search through a refused batch came to.
type finding[T comparable] struct {
	bad      []part[T]
	rest     T // not decided: the next attempt goes on with it
	accepted bool
	waitKind verdict
	waitErr  error
}

// search halves a refused request until only the items are left that the endpoint does not want. The endpoint is taken to have
// stored nothing of a request that it refused.
func (d *delivery[T]) search(ctx context.Context, whole part[T]) finding[T] {
	found := finding[T]{rest: d.signal.empty()}
	if whole.kind == unreadableAnswer {
		found.bad = []part[T]{whole}
		return found
	}
	requests := 0
	// A single item is asked for once more: the endpoint may just have been repaired. The request itself stays as it is.
	stack := []T{d.signal.cut(whole.data, 0, 1)}
	if d.signal.count(whole.data) > 1 {
		stack = d.halves(whole, &found, true)
	}
	for len(stack) > 0 {
		next := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if found.waitErr == nil && (d.stopping.Load() || ctx.Err() != nil) {
			found.waitKind, found.waitErr = unavailable, whole.err
		}
		if found.waitErr != nil {
			d.signal.move(next, found.rest)
			continue
		}
		requests++
		kind, _, err := d.ask(ctx, next)
		switch {
		case kind == accepted:
			found.accepted = true
		case kind == unreadableAnswer:
			found.bad = append(found.bad, part[T]{next, kind, err}) // it may be stored: asking again would store it twice
		case kind.waits() && kind != whole.kind:
			found.waitKind, found.waitErr = kind, err
			d.signal.move(next, found.rest)
		default:
			inBudget := requests < coldSearchBudget || found.accepted && requests < searchBudget
			stack = append(stack, d.halves(part[T]{next, kind, err}, &found, inBudget)...)
		}
	}
	return found
}

// halves returns the two halves of a refused part; a single item, or a part for which no more may be spent, is a finding.
func (d *delivery[T]) halves(refusedPart part[T], found *finding[T], divide bool) []T {
	items := d.signal.count(refusedPart.data)
	if items < 2 || !divide {
		found.bad = append(found.bad, refusedPart)
		return nil
	}
	return []T{
		d.signal.cut(refusedPart.data, items/2, items),
		d.signal.cut(refusedPart.data, 0, items/2),
	}
}
