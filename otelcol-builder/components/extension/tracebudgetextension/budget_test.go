package tracebudgetextension

import (
	"math"
	"testing"
	"time"
)

// clock is a time that only the test moves.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{at: time.Unix(1_000_000, 0)} }

func (c *clock) now() time.Time { return c.at }

func (c *clock) pass(duration time.Duration) { c.at = c.at.Add(duration) }

const window = 10 * time.Second

func TestWithoutABudgetTheFactorStaysAtOne(t *testing.T) {
	b := newBudget(0, window, newClock().now)
	for range 1000 {
		if factor := b.count(0, 1_000_000); factor != 1 {
			t.Fatalf("factor %v", factor)
		}
	}
}

func TestWithinItsBudgetTheFactorStaysAtOne(t *testing.T) {
	time := newClock()
	b := newBudget(10, window, time.now)
	for range 5 {
		for range 10 {
			if factor := b.count(0, 10); factor != 1 {
				t.Fatalf("factor %v", factor)
			}
		}
		time.pass(window)
	}
}

func TestWithinAWindowTheFactorOnlyFallsAndInSmallSteps(t *testing.T) {
	b := newBudget(10, window, newClock().now)
	previous := 1.0
	for range 1000 {
		factor := b.count(0, 1)
		if factor > previous {
			t.Fatalf("rose from %v to %v", previous, factor)
		}
		if previous-factor > 0.02 {
			t.Fatalf("fell at once from %v to %v", previous, factor)
		}
		previous = factor
	}
	if math.Abs(previous-0.1) > 1e-9 {
		t.Fatalf("1000 spans want to be kept and 100 may be: the factor is %v", previous)
	}
}

func TestASteadyOverloadIsKeptWithinItsBudgetFromTheSecondWindowOn(t *testing.T) {
	time := newClock()
	b := newBudget(10, window, time.now)
	for number := range 20 {
		kept := 0.0
		for range 1000 {
			kept += b.count(0, 1)
		}
		if number > 0 && kept > 1.5*100 {
			t.Fatalf("window %d: %v spans kept of the 100 allowed", number, kept)
		}
		if kept < 0.5*100 {
			t.Fatalf("window %d: only %v spans kept of the 100 allowed", number, kept)
		}
		time.pass(window)
	}
}

func TestWhatIsAlwaysKeptTakesItsPartOfTheBudgetFirst(t *testing.T) {
	b := newBudget(10, window, newClock().now)
	b.count(75, 0)
	b.count(0, 50)
	if factor := b.count(0, 0); factor != 0.5 {
		t.Fatalf("factor %v", factor)
	}
	b.count(1000, 0)
	if factor := b.count(0, 0); factor != 0 {
		t.Fatalf("factor %v although nothing is left", factor)
	}
}

func TestTheFactorRisesSlowlyAgainAndNeverBeyondOne(t *testing.T) {
	time := newClock()
	b := newBudget(10, window, time.now)
	b.count(0, 10_000)
	low := b.count(0, 0)
	previous := low
	for range 15 {
		time.pass(window)
		b.count(0, 1)
		factor := b.count(0, 0)
		if factor < previous || factor-previous > risePerWindow+1e-9 {
			t.Fatalf("from %v to %v in one window", previous, factor)
		}
		previous = factor
	}
	if previous != 1 {
		t.Fatalf("after 15 quiet windows the factor is %v", previous)
	}
}

func TestAnIdleTimeRaisesTheFactorAsItsWindowsWouldHave(t *testing.T) {
	time := newClock()
	b := newBudget(10, window, time.now)
	b.count(0, 1_000_000)
	low := b.count(0, 0)
	time.pass(3 * window)
	// The first of the three windows is the one with the load: it does not raise anything.
	if factor := b.count(0, 0); math.Abs(factor-(low+2*risePerWindow)) > 1e-9 {
		t.Fatalf("from %v to %v", low, factor)
	}
	time.pass(1000 * window)
	if factor := b.count(0, 0); factor != 1 {
		t.Fatalf("factor %v", factor)
	}
}
