"""Restarts: how earlier attempts of a run ended, and what the one that followed has lost."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.health.curves import Curves
from otel_rl.report.core import human
from otel_rl.report.core.finding import Finding, Severity
from otel_rl.report.core.levels import noise
from otel_rl.report.core.links import Link, is_curve, link_of
from otel_rl.report.core.loops import written
from otel_rl.report.subjects.endings import process_end, words
from otel_rl.report.subjects.health import replay
from otel_rl.store.reader.end_states import EndState
from otel_rl.training.guessed_records import PREFIX

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.endings.process_end import ProcessEnd

    #: Values of a key in two attempts.
    _Logged = tuple[list[float], list[float]]

EARLIER, LOST_SCHEDULE = "earlier_attempt", "resume_lost_state"
LOST_WEIGHTS, LOST_STATE = "resume_lost_weights", "resume_other_level"
_SHOWN = 2
#: Third numbers of attempts from here on are the moments at which they began.
_MOMENT = 10**9
#: First log calls that are compared, and the fewest of the attempt before; relative difference that is rounding, and
#: the one from which a learning rate has moved.
_COMPARED, _FEWEST, _SAME, _MOVED = 3, 8, 1e-6, 0.2
#: Log calls that show a level, and deviations from which on it has moved.
_OF_LEVEL, _CLEARLY = 4, 2.0
#: Deviations, and ratio, from which on two levels across a restart differ.
_FAR, _MANIFOLD = 10.0, 3.0
#: Deviations by which the clearest value must have gone back; the share of its way that is all of it, and beyond which
#: something else has happened.
_BACK, _WHOLE_WAY, _BEYOND = 7.0, 0.75, 1.25
#: Links of values that depend on the weights.
_OF_WEIGHTS = (Link.SCORE, Link.REWARD, Link.POLICY, Link.LOSS)
_STEPS = """
SELECT attempt, min(step) AS first, max(step) AS last, max(source = 'guessed') AS guessed
FROM step JOIN process USING (process) WHERE NOT is_root AND step IS NOT NULL GROUP BY attempt"""
_LAST_STEP = """
SELECT max(step) FROM step WHERE NOT is_root AND process = (SELECT process FROM process WHERE key = ?)"""
_KEYS = """
SELECT logged_key, attempt, start, k.key FROM logged_key k JOIN process USING (process) ORDER BY start, logged_key"""
_FIRST = "SELECT min(step) FROM scalar WHERE logged_key = ?"
_LOGGED = "SELECT value FROM scalar WHERE logged_key = ? AND value IS NOT NULL ORDER BY time, step"


class _Steps(NamedTuple):
    first: int
    last: int
    guessed: bool


def findings(collected: Collected) -> list[Finding]:
    """Return how the attempts before the present one ended, and that its schedule begins anew where it does."""
    if not collected.superseded:
        return []
    rows = collected.tables.rows(_STEPS)
    steps = {row["attempt"]: _Steps(row["first"], row["last"], bool(row["guessed"])) for row in rows}
    return [
        *_earlier_attempts(collected, steps),
        *_fresh_schedule(collected, steps),
        *_compared_attempts(collected),
    ]


def _earlier_attempts(collected: Collected, steps: dict[str, _Steps]) -> list[Finding]:
    """Return a notice for each of the latest attempts that another one followed: what ended it first."""
    ends: dict[tuple[int, ...], list[ProcessEnd]] = {}
    for end in process_end.every_end(collected).values():
        ends.setdefault(end.process.attempt, []).append(end)
    found = []
    for attempt in sorted(collected.superseded & ends.keys(), reverse=True)[:_SHOWN]:
        first = min(ends[attempt], key=lambda end: (not end.is_bad, end.state is not EndState.STOPPED, end.time))
        later = sorted(other for other in ends if other > attempt)
        text = f"{_name(attempt)} ended before this one: {first.process.label} {first.words}{_after(collected, first)}"
        if later:
            text += _followed(first, ends[later[0]], steps.get(written(later[0])))
        section = "processes" if first.exception is None else "errors"
        found.append(Finding(EARLIER, Severity.NOTICE, f"{text}.", section, look_at=_look_at(first)))
    return found


def _name(attempt: tuple[int, ...]) -> str:
    moment = f"{attempt[-1]}"
    if attempt[-1] < _MOMENT:
        return f"Attempt {written(attempt)}"
    return f"The attempt that began at {moment[8:10]}:{moment[10:12]}:{moment[12:14]} UTC"


def _after(collected: Collected, end: ProcessEnd) -> str:
    """Return the last known step of a process, for an end whose words name none: its ring may be gone or outdated."""
    if " step " in end.words or end.exception is not None:
        return ""
    recorded = collected.tables.value(_LAST_STEP, end.process.key)
    last = max((step for step in (recorded, end.iteration) if step is not None), default=None)
    return "" if last is None else f", after step {last}"


def _followed(end: ProcessEnd, next_ends: list[ProcessEnd], steps: _Steps | None) -> str:
    began = min((one.process.number("started_unix_nano") or one.process.first for one in next_ends), default=0)
    later = f" {human.duration((began - end.time) / 1e9)} later" if began > end.time > 0 else ""
    # Guessed steps are numbered from 1 in each process.
    number = "" if steps is None or steps.guessed else f" with step {steps.first}"
    return f"; the next one began{later}{number}"


def _look_at(end: ProcessEnd) -> list[str]:
    if end.exception is not None:
        return words.next_steps(end.exception)
    return words.next_steps_of_signal(end.exit.signal, end.exit.oom_kills) if end.exit is not None else []


# -- what a resume has lost --------------------------------------------------------------------------------------------


def _fresh_schedule(collected: Collected, steps: dict[str, _Steps]) -> list[Finding]:
    """Return a warning where the latest attempt goes on, and its learning rate begins as that of the first one did."""
    curves = Curves(replay.rules(collected)[0].keys)
    inputs = {"learning_rate": "rate", "guessed_learning_rate": "rate", "loss": "loss"}
    keys: dict[str, dict[str, tuple[str, int]]] = {}
    for row in collected.tables.rows(_KEYS):
        known = curves.input_of(row["key"])
        if known is not None and known[0] in inputs:
            keys.setdefault(row["attempt"], {}).setdefault(inputs[known[0]], (row["key"], row["logged_key"]))
    attempts = list(keys)[-2:]
    if len(attempts) < 2 or any("rate" not in keys[attempt] for attempt in attempts):  # noqa: PLR2004 - two of them
        return []
    (old, new), (old_loss, new_loss) = (
        [_values(collected, keys[attempt].get(what)) for attempt in attempts] for what in ("rate", "loss")
    )
    before, now = (steps.get(attempt) for attempt in attempts)
    if not _begins_anew(old, new) or before is None or now is None or not _goes_on(before, now, old_loss, new_loss):
        return []
    return [_finding(keys[attempts[1]]["rate"][0], old, new)]


def _values(collected: Collected, key: tuple[str, int] | None) -> list[float]:
    return [] if key is None else [row[0] for row in collected.tables.rows(_LOGGED, key[1])]


def _begins_anew(old: list[float], new: list[float]) -> bool:
    """Return whether the first rates are the first ones of before, though the rate had moved since then."""
    if len(old) < _FEWEST or len(new) < _COMPARED:
        return False
    has_moved = abs(old[-1] - old[0]) > _MOVED * max(abs(old[-1]), abs(old[0]))
    return has_moved and all(
        abs(a - b) <= _SAME * max(abs(a), abs(b)) for a, b in zip(old, new[:_COMPARED], strict=False)
    )


def _goes_on(before: _Steps, now: _Steps, old: list[float], new: list[float]) -> bool:
    """Return whether an attempt went on from a checkpoint: by its step numbers, of guessed steps by its loss."""
    if not now.guessed:
        return now.first > before.first
    if len(old) < 2 * _COMPARED or len(new) < _COMPARED:
        return False
    begin, end, again = median(old[:_COMPARED]), median(old[-_COMPARED:]), median(new[:_COMPARED])
    return abs(again - end) < abs(again - begin) / 2


def _compared_attempts(collected: Collected) -> list[Finding]:
    """Return a warning if the latest attempt resumed, but its logged values do not continue those of the one before."""
    keys: dict[str, dict[str, int]] = {}
    for row in collected.tables.rows(_KEYS):
        if is_curve(row["key"]) and link_of(row["key"])[0] not in (Link.RATE, Link.TOKENS):
            keys.setdefault(row["attempt"], {})[row["key"]] = row["logged_key"]
    attempts = list(keys)[-2:]
    if len(attempts) < 2:  # noqa: PLR2004 - two of them
        return []
    old, new = (keys[attempt] for attempt in attempts)
    # Guessed steps are numbered from 1 in each process.
    both = [key for key in new if key in old and not key.startswith(PREFIX)]
    logged = {key: (_values(collected, (key, old[key])), _values(collected, (key, new[key]))) for key in both}
    before, begin = (_first_step(collected, [of_attempt[key] for key in both]) for of_attempt in (old, new))
    if begin <= before:
        return []
    return _older_weights(logged, begin) or _other_levels(logged, begin)


def _first_step(collected: Collected, keys: list[int]) -> int:
    """Return the first step at which one of these keys was logged; 0 if they have no steps."""
    firsts = (collected.tables.value(_FIRST, key) for key in keys)
    return min((step for step in firsts if step is not None), default=0)


def _older_weights(logged: dict[str, _Logged], begin: int) -> list[Finding]:
    """Return a warning if values that depend on the weights went back: to their begin, or to some steps before."""
    weights = {key: both for key, both in logged.items() if link_of(key)[0] in _OF_WEIGHTS}
    ways = {key: way for key, both in weights.items() if (way := _way_back(*both)) is not None}
    back = [key for key, (way, far) in ways.items() if _MOVED <= way <= _BEYOND and far >= _CLEARLY]
    clear = [key for key in back if ways[key][1] >= _BACK]
    # A divergence may begin anew as its reference does; what comes of the weights is the reward and the loss.
    outcomes = [key for key in ways if link_of(key)[0] is not Link.POLICY] or list(ways)
    if not clear or 2 * sum(key in back for key in outcomes) <= len(outcomes):
        return []
    first = max(clear, key=lambda key: (link_of(key)[0] is Link.REWARD, ways[key][1]))
    old, new = logged[first]
    of_begin, end, again = map(median, _compared_values(old, new))
    now = f"{first} is {human.number(again)} in its first log calls, as"
    if ways[first][0] >= _WHOLE_WAY:
        text = (
            f"The attempt that went on with step {begin} does not have the weights of the one before: {now} at the"
            f" first begin ({human.number(of_begin)}); the one before had come to {human.number(end)}."
        )
    else:
        windows = [median(old[at : at + _OF_LEVEL]) for at in range(len(old) - _OF_LEVEL + 1)]
        calls = len(old) - max(range(len(windows)), key=lambda at: (-abs(windows[at] - again), at)) - _OF_LEVEL
        text = (
            f"The attempt that went on with step {begin} has older weights than the one before had at its end: {now}"
            f" about {human.amount(calls, 'log call')} before the end, where it was {human.number(end)}."
        )
    return [_lost(LOST_WEIGHTS, text, first, begin, [key for key in back if key != first])]


def _way_back(old: list[float], new: list[float]) -> tuple[float, float] | None:
    """Return what share of its way a value went back at a restart, and by how many deviations.

    None if it had not moved before the restart.
    """
    if len(old) < 2 * _OF_LEVEL or len(new) < _OF_LEVEL:
        return None
    begin, end, again = map(median, _compared_values(old, new))
    spread = max(noise(old), 1e-9 * (1 + abs(end)))
    if abs(end - begin) < max(_CLEARLY * spread, _MOVED * abs(begin)):
        return None
    return (again - end) / (begin - end), abs(again - end) / spread


def _other_levels(logged: dict[str, _Logged], begin: int) -> list[Finding]:
    """Return a warning if values are several times larger or smaller than at the end of the attempt before."""
    sizes = {key: size for key, both in logged.items() if (size := _times(*both)) >= _MANIFOLD}
    if not sizes:
        return []
    first = min(sizes, key=lambda key: (link_of(key)[0], -sizes[key]))
    _, end, again = (human.number(median(values)) for values in _compared_values(*logged[first]))
    text = f"After the restart with step {begin} {first} is {again}; it was {end} at the end of the attempt before."
    return [_lost(LOST_STATE, text, first, begin, [key for key in sizes if key != first])]


def _times(old: list[float], new: list[float]) -> float:
    """Return the ratio of the larger to the smaller level across the restart; 1 if the difference is noise."""
    if len(old) < 2 * _OF_LEVEL or len(new) < _OF_LEVEL:
        return 1.0
    end, again = median(old[-2 * _OF_LEVEL :]), median(new[:_OF_LEVEL])
    low, high = sorted((abs(end), abs(again)))
    if abs(again - end) < _FAR * max(noise(old), 1e-9):
        return 1.0
    return high / low if low and end * again > 0 else _MANIFOLD


def _lost(code: str, text: str, key: str, begin: int, others: list[str]) -> Finding:
    more = [f"The same of {human.listed(others)}."] if others else []
    finding = Finding(code, Severity.WARNING, text, "training", key, chart=key, onset=begin, evidence=more)
    finding.look_at.append("what the checkpoint holds and what is loaded from it: weights, scalers, running means")
    return finding


def _compared_values(old: list[float], new: list[float]) -> tuple[list[float], list[float], list[float]]:
    """Return the first and last values of an attempt, and the first ones of the next."""
    return old[:_OF_LEVEL], old[-_OF_LEVEL:], new[:_OF_LEVEL]


def _finding(key: str, old: list[float], new: list[float]) -> Finding:
    text = (
        f"The attempt went on with a fresh schedule: {key} began at {new[0]:.3g} again, as it did at first, where the"
        f" attempt before had reached {old[-1]:.3g}."
    )
    finding = Finding(LOST_SCHEDULE, Severity.WARNING, text, "training", subject=key, chart=key)
    finding.evidence.append("Whether the optimizer's state was restored is not recorded.")
    finding.look_at += [
        "what the checkpoint holds, and whether the optimizer and the schedule are loaded from it (`load_state_dict`)",
        "resume_from_checkpoint of the trainer",
    ]
    return finding
