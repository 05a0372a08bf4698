package detect

import "strings"

// longestJudged is how much of a value is looked at to tell whether it is random: what is longer is judged by its beginning.
const longestJudged = 256

// judged returns the part of a value by which it is judged.
func judged(value string) string { return value[:min(len(value), longestJudged)] }

// reach remembers where a run of characters ends, so that words inside of the run do not walk over it once more each.
type reach span

// endOf returns where a run that holds the position ends: at the first byte that does not pass, or at the end of the text.
func (r *reach) endOf(text string, position int, pass func(byte) bool) int {
	if position >= r.start && position < r.end {
		return r.end
	}
	end := position
	for end < len(text) && pass(text[end]) {
		if end == r.start && r.end > end {
			end = r.end
			break
		}
		end++
	}
	r.start, r.end = position, end
	return end
}

// place remembers where a literal stands next.
type place struct{ from, at int }

// next returns where the literal stands at or behind a position; -1 for nowhere.
func (p *place) next(text, literal string, position int) int {
	if known := p.from >= 0 && p.from <= position && (p.at < 0 || p.at >= position); known {
		return p.at
	}
	p.from, p.at = position, strings.Index(text[position:], literal)
	if p.at >= 0 {
		p.at += position
	}
	return p.at
}
