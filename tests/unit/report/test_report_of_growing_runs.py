"""What is asked of a run that grows is what is asked of it at once, whenever it was asked before."""

from __future__ import annotations

import functools
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.reward_readers import tables_of
from unit.report.made_up_jobs import STARTED
from unit.report.synthetic_run import SECOND

from otel_rl.report.core import kept_answers
from otel_rl.report.core.loops import Loops
from otel_rl.report.subjects.state_timeline import asked, exact, timeline
from otel_rl.report.subjects.training import scalars
from otel_rl.semconv import events
from otel_rl.store.reader import Log, Process, Span
from otel_rl.store.tables import RunTables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_rl.report.core.steps import Steps

_LINES = ("phases", "parts", "at_once", "waiting", "gaps", "between", "by_rank", "own", "collecting")
_SPREADS = ("lengths", "uncovered", "waits")
_FACTS = ("whole", "ranks", "guessed", "logged", "last_iteration", "unseen", "seen", "loops", "slowest")


@functools.cache
def rank(number: int, attempt: str = "0.0.0") -> Process:
    return Process(f"{attempt} {number}", manifest={"rank": number, "attempt": attempt})


def span(of: Process, name: str, start: float, end: float, ids: tuple[str, str, str], **values: Any) -> Span:
    trace, own, parent = ids
    return Span(
        of, "s", name, start=STARTED + int(start * SECOND), end=STARTED + int(end * SECOND),
        attributes={key.replace("__", "."): value for key, value in values.items()}, failed=False, message="",
        dropped=0, trace_id=trace, span_id=own, parent_id=parent, events=[],
    )  # fmt: skip


def records_of(of: Process, step: int, at: float, dice: random.Random) -> Iterator[Span | Log]:
    """A step of a rank as it is written: what is inside of it, and what has a trace of its own, before the step."""
    # One rank has a span of its own around all of it.
    is_one = of.key == "0.0.0 1"
    trace, own, of_step = "one" if is_one else f"t{at}", f"{at}{of.key}", {"rl__loop__iteration": step}
    begin = at + dice.random()
    of_wait = trace if is_one else f"w{own}"
    yield span(of, "rl.data_wait", at - 0.5, at - 0.2, (of_wait, f"w{own}", ""), rl__phase="data_wait")
    yield span(of, "rl.generate", begin, begin + 2, (trace, f"i{own}", f"s{own}"), rl__phase="generate", **of_step)
    yield span(of, "rl.sample", begin + 1, begin + 2, (trace, f"a{own}", f"s{own}"), rl__phase="sample", **of_step)
    yield span(of, "rl.sample", begin, begin + 4, (trace, f"s{own}", own), rl__phase="sample", **of_step)
    yield span(
        of, "rl.train", begin + 3, begin + 6 + dice.random(), (trace, f"t{own}", own), rl__phase="train", **of_step
    )
    waited = {"torch__distributed__wait_time": dice.random(), "torch__distributed__unseen": int(dice.random() < 0.2)}
    yield span(of, "rl.rank.step", at, at + 8, (trace, own, f"l{trace}"), rl__loop__name="train", **of_step, **waited)
    if of.rank == 0:
        yield span(of, "rl.loop", at, at + 8, (trace, f"l{trace}", ""), rl__loop__name="train", **of_step)
        values = {"loss": dice.random(), "reward": dice.random() if step % 3 else float("nan")}
        told = {"rl.loop.iteration": step, "rl.loop.name": "train"}
        yield Log(of, "s", events.RL_STEP.name, STARTED + int((at + 8) * SECOND), 9, "INFO", values, told, "")


def run_of_two_attempts(dice: random.Random) -> list[Span | Log]:
    """Two ranks; the second attempt begins with earlier steps, and its numbers go back once more."""
    timed = []
    moment = 0.0
    for attempt, numbers in (("0.0.0", range(1, 20)), ("0.1.0", (*range(10, 25), *range(5, 30)))):
        for step in numbers:
            moment += 10
            for number in range(2):
                for record in records_of(rank(number, attempt), step, moment, dice):
                    end = record.end if isinstance(record, Span) else record.time
                    # Files of the ranks are read one after the other; a phase may come much later.
                    late = 12 * number + (dice.random() < 0.02 and record.attributes.get("rl.phase") == "train") * 200
                    timed.append((end / SECOND + late, len(timed), record))
    return [record for _, _, record in sorted(timed)]


def everything(steps: Steps) -> dict[str, Any]:
    said: dict[str, Any] = {
        name: {key: list(zip(*line.points(), strict=True)) for key, line in getattr(steps, name).items()}
        for name in _LINES
    }
    said |= {name: getattr(steps, name) for name in (*_SPREADS, *_FACTS)}
    met = steps.count_slowest()
    said |= {"inclusive": steps.inclusive, "met": met, "slowest ranks": [one.slowest for one in steps.ranks.values()]}
    return said


def plain(value: Any, number: Callable[[float], Any] = float) -> Any:
    """Nested dicts and lists of a value, each float passed through ``number``."""
    if isinstance(value, dict):
        return {key: plain(item, number) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, number) for item in value]
    if isinstance(value, float):
        return number(value)
    if hasattr(value, "__slots__") and not isinstance(value, (str, int)):
        return {name: plain(getattr(value, name), number) for name in value.__slots__}
    return value


def approximately(value: Any) -> Any:
    """The same, with floats that compare equal to sums in another order."""
    return plain(value, functools.partial(pytest.approx, nan_ok=True))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small runs keep what large ones do."""
    monkeypatch.setattr(kept_answers, "_LATE", 4)
    monkeypatch.setattr(exact, "LATEST", 60)
    monkeypatch.setattr(exact, "STEPS", 5)
    monkeypatch.setattr(asked, "STEPS", 5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("few")
def test_a_run_that_grows_gives_what_it_gives_at_once(seed):
    dice = random.Random(seed)  # noqa: S311 - repeatable on purpose
    records, growing, first = run_of_two_attempts(dice), RunTables(), 0
    loops, painted = Loops(growing), timeline.Painted()
    collected = SimpleNamespace(tables=growing, kept={}, answers={})
    kept_until = set()
    while first < len(records):
        more = dice.randrange(1, 60)
        for record in records[first : first + more]:
            growing.add(record)
        first += more
        growing.settle()
        loops.settle()
        collected.answers.clear()
        drawn, painted = timeline.of_tables(growing, painted)
        kept_until.add(painted.until)
        whole = tables_of(*records[:first])
        at_once = Loops(whole)
        assert [key for key, _ in loops.all()] == [key for key, _ in at_once.all()]
        for (_, steps), (_, same) in zip(loops.all(), at_once.all(), strict=True):
            assert plain(everything(steps)) == approximately(everything(same))
        curves = scalars.of_run(collected).logged
        others = scalars.of_run(SimpleNamespace(tables=whole, kept={}, answers={})).logged
        assert plain(curves) == approximately(others)
        expected, _ = timeline.of_tables(whole, timeline.Painted())
        assert plain(drawn.lanes) == approximately(expected.lanes)
        assert plain(drawn.latest.lanes) == plain(expected.latest.lanes)
        assert drawn.of_ranks == pytest.approx(expected.of_ranks)
        assert (drawn.earlier is None) == (expected.earlier is None)
        if drawn.earlier and expected.earlier:
            assert plain(drawn.earlier.lanes) == plain(expected.earlier.lanes)
        assert (drawn.steps, drawn.slowest, drawn.start, drawn.end) == (
            expected.steps, expected.slowest, expected.start, expected.end
        )  # fmt: skip
    assert len(kept_until) > 5
