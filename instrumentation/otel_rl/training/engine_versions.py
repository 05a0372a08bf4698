"""Versions of the weights by engine, as its answers say them, and how far each engine is behind.

An engine is a server and the model that it was asked for: a judge beside the policy counts versions of its own. Only
sources that count alike are compared. A source is an engine, or the trainer: its version is known where this process
names it to an engine, or for a rollout (``policy_version``). Two sources count alike once both have had one version
at the same time, for two different versions; an engine that this process has given a version counts as the trainer
does. So an engine that a sync left out is behind the others, and one alone is behind the trainer.

A version that falls and stays lower begins anew, as after a resume; of the trainer's own it is known at once.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.semconv import attributes
from otel_rl.telemetry import lifecycle
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

#: Engines that are known at once; of more the one that has been silent for longest is forgotten.
MAXIMUM_ENGINES = 64
#: Engines of one trajectory that are told apart.
MAXIMUM_IN_TRAJECTORY = 16
#: Versions of one engine in one trajectory whose tokens are counted.
_MAXIMUM_VERSIONS = 64
#: Servers whose versions this process sets.
_MAXIMUM_GIVEN = 1024
#: Lower answers in a row that are a fall and no late answers. Two servers behind one address answer by turns.
FALLEN = 32
#: Longest name of an engine, in characters, and what stands between two.
_NAME, SEPARATOR = 120, ", "
#: Longest version that is read as a number, in digits.
_DIGITS = 18


class Engine(NamedTuple):
    """A server and a model; without an address, an engine in this process."""

    address: str
    port: int | None
    model: str

    @property
    def name(self) -> str:
        """How a record names it: without a comma, which stands between names."""
        where = self.address if self.port is None else f"{self.address}:{self.port}"
        return text(" ".join(part for part in (where, self.model) if part).replace(",", "_"), _NAME)


class AnsweredVersions:
    """Versions that one engine has answered one trajectory with."""

    __slots__ = ("calls", "highest", "lowest", "tokens")

    def __init__(self, version: int) -> None:
        self.lowest = self.highest = version
        self.calls = 0
        #: Output tokens by version, of as many versions as an engine has had lately.
        self.tokens: dict[int, int] = {}

    def add(self, version: int, tokens: int) -> None:
        """Take in the version of an answer, or of a part of it."""
        self.calls += 1
        if version in self.tokens or len(self.tokens) < _MAXIMUM_VERSIONS:
            self.tokens[version] = self.tokens.get(version, 0) + tokens
        self.lowest = min(self.lowest, version)
        self.highest = max(self.highest, version)


class _Source:
    """An engine, or the trainer: the newest version that it has had."""

    __slots__ = ("_fall_since", "_lower", "_lower_highest", "family", "heard", "met", "newest")

    def __init__(self) -> None:
        self.newest: int | None = None
        #: When it was heard last.
        self.heard = 0.0
        #: Sources that count alike have the same one.
        self.family = object()
        #: Other sources -> the version in which both have met.
        self.met: dict[Any, int] = {}
        self._lower, self._lower_highest, self._fall_since = 0, 0, 0.0

    def hear(self, version: int) -> bool:
        """Take in a version; return True where the newest one has changed."""
        self.heard = time.monotonic()
        if self.newest is not None and version < self.newest:
            return self._has_fallen(version)
        self._lower = 0
        is_new = version != self.newest
        self.newest = version
        return is_new

    def _has_fallen(self, version: int) -> bool:
        if not self._lower:
            self._lower_highest, self._fall_since = version, self.heard
        self._lower += 1
        self._lower_highest = max(self._lower_highest, version)
        if self._lower < FALLEN:
            return False
        self._lower, self.newest = 0, self._lower_highest
        # Others that have been silent since the fall are of the time before it.
        for other in _related(self):
            if other.heard < self._fall_since:
                other.newest = None
        return True


#: A signal handler may end a rollout while its thread is in here; so copies of the table are gone through.
_lock = threading.RLock()
_engines: dict[Engine, _Source] = {}
_trainer = _Source()
#: Servers that this process has given a version.
_given: set[tuple[str, int | None]] = set()


def answered(trajectory: OpenTrajectory, engine: Engine, version: str | None, tokens: int = 0) -> None:
    """Note that ``engine`` has made output tokens of ``trajectory`` with this version, unless that is no number."""
    number = _number(version)
    if number is None:
        return
    source = _engines.get(engine)
    if source is not None and source.newest == number:
        source.hear(number)
    else:
        with _lock:
            _hear(engine, number)
    versions = trajectory.versions.get(engine)
    if versions is None:
        if len(trajectory.versions) >= MAXIMUM_IN_TRAJECTORY:
            return
        versions = trajectory.versions.setdefault(engine, AnsweredVersions(number))
    versions.add(number, tokens)


def given(address: str, port: int | None, version: object) -> None:
    """Note that this process has brought the server weights of this version: it is the trainer's."""
    number = _number(str(version)) if isinstance(version, str | int) else None
    if number is None:
        return
    with _lock:
        if len(_given) < _MAXIMUM_GIVEN:
            _given.add((address, port))
        for engine, source in list(_engines.items()):
            if (engine.address, engine.port) == (address, port):
                _join(source, _trainer)
        if _trainer.newest is not None and number < _trainer.newest:
            for source in _related(_trainer):
                if source.newest is not None and source.newest > number:
                    source.newest = None
        _trainer.newest, _trainer.heard = number, time.monotonic()


def of_trajectory(trajectory: OpenTrajectory, policy_version: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a trajectory that ends says of versions: totals, and columns of its row.

    ``policy_version`` is the trainer's, as the program gave it. The totals are those of the policy's engines: of those
    that count as the trainer does, or else have answered most.
    """
    versions = dict(trajectory.versions)
    number = None if policy_version is None else _number(str(policy_version))
    with _lock:
        if number is not None:
            _hear_trainer(number, versions)
        # One that was forgotten meanwhile is known again.
        known = {engine: _engines.get(engine) or _hear(engine, versions[engine].highest) for engine in versions}
        if not known:
            return {}, {}
        policy = _policy(versions, known)
        lowest = min(versions[engine].lowest for engine in policy)
        newest = _newest(known[policy[0]])
        totals = {
            attributes.RL_ROLLOUT_POLICY_VERSION_MIN: lowest,
            attributes.RL_ROLLOUT_POLICY_VERSION_MAX: max(versions[engine].highest for engine in policy),
            attributes.RL_ROLLOUT_VERSIONS_BEHIND: max(newest - lowest, 0),
        }
        made = [item for engine in policy for item in versions[engine].tokens.items()]
        if any(tokens for _, tokens in made):
            totals[attributes.RL_ROLLOUT_TOKENS_BEHIND] = sum(tokens for version, tokens in made if version < newest)
        behind = [
            max(_newest(source) - (versions[engine].highest if source.newest is None else source.newest), 0)
            for engine, source in known.items()
        ]
    return totals, _columns(dict(zip(known, behind, strict=True)), versions)


def _columns(behind: Mapping[Engine, int], versions: Mapping[Engine, AnsweredVersions]) -> dict[str, Any]:
    """Return the columns with an entry per engine, as many as fit into a text; none for an engine without a name."""
    named: dict[str, Engine] = {}
    for engine in behind:
        name = engine.name
        if name and len(SEPARATOR.join([*named, name])) <= MAXIMUM_LENGTH:
            named.setdefault(name, engine)
    if not named:
        return {}
    return {
        attributes.RL_ROLLOUT_ENGINES: SEPARATOR.join(named),
        attributes.RL_ROLLOUT_ENGINE_VERSIONS: [versions[engine].highest for engine in named.values()],
        attributes.RL_ROLLOUT_ENGINE_VERSIONS_BEHIND: [behind[engine] for engine in named.values()],
    }


def _policy(versions: Mapping[Engine, AnsweredVersions], known: Mapping[Engine, _Source]) -> list[Engine]:
    """Return the engines that generate for the trainer, as far as that is known."""
    calls: dict[object, int] = {}
    for engine, source in known.items():
        calls[source.family] = calls.get(source.family, 0) + versions[engine].calls
    family = _trainer.family if _trainer.family in calls else max(calls, key=calls.__getitem__)
    return [engine for engine, source in known.items() if source.family is family]


def _number(version: str | None) -> int | None:
    is_number = version is not None and version.isdecimal() and len(version) <= _DIGITS
    return int(version) if version is not None and is_number else None


def _hear(engine: Engine, version: int) -> _Source:
    source = _engines.get(engine)
    if source is None:
        if len(_engines) >= MAXIMUM_ENGINES:
            _forget_one()
        source = _engines[engine] = _Source()
        if (engine.address, engine.port) in _given:
            _join(source, _trainer)
    if source.hear(version):
        for other in list(_engines.values()):
            if other.newest == version:
                _meet(source, other, version)
    return source


def _hear_trainer(version: int, versions: Mapping[Engine, AnsweredVersions]) -> None:
    """Take in the version that the program gave a rollout, and what engines answered it with."""
    # What this process gives an engine is what counts: a rollout may have begun long ago.
    if not _given:
        _trainer.hear(version)
    for engine, answers in versions.items():
        source = _engines.get(engine)
        if source is not None and answers.highest == version:
            _meet(source, _trainer, version)


def _meet(source: _Source, other: _Source, version: int) -> None:
    """Both have this version: sources that meet in two versions count alike."""
    if source.family is other.family:
        return
    if source.met.setdefault(id(other), version) != version or other.met.get(id(source), version) != version:
        _join(source, other)


def _join(source: _Source, other: _Source) -> None:
    family, joined = other.family, source.family
    for one in (*_engines.values(), source, _trainer):
        if one.family is joined:
            one.family = family
    source.met.pop(id(other), None)
    other.met.pop(id(source), None)


def _related(source: _Source) -> Iterable[_Source]:
    return [one for one in (*_engines.values(), _trainer) if one.family is source.family and one is not source]


def _newest(source: _Source) -> int:
    """Return the newest version of those that count alike; where this process gives versions, the last that it gave."""
    if _given and source.family is _trainer.family and _trainer.newest is not None:
        return _trainer.newest
    return max((one.newest for one in (source, *_related(source)) if one.newest is not None), default=0)


def _forget_one() -> None:
    engine, _ = min(list(_engines.items()), key=lambda one: one[1].heard)
    gone = id(_engines.pop(engine, None))
    for other in (*_engines.values(), _trainer):
        other.met.pop(gone, None)


def forget() -> None:
    """As if no engine had answered: a forked child asks engines of its own."""
    global _trainer, _lock
    _lock = threading.RLock()
    _engines.clear()
    _given.clear()
    _trainer = _Source()


lifecycle.after_fork_in_child(forget)
