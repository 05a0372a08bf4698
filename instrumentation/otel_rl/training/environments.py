"""Episodes of environments that a program steps itself: their return, their length and whether they succeeded.

A step of a small environment takes microseconds. So a step adds to a few numbers of the open episode, without clock,
lock or call into the SDK. What has ended is added up: the last episodes for gauges, those since the end of a training
step for the record of the next one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakSet, ref

from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlPhaseValues
from otel_rl.telemetry import lifecycle
from otel_rl.telemetry.attribute_values import number, truth
from otel_rl.telemetry.scope import Scope
from otel_rl.training import phases, steps
from otel_rl.training.scalars import Source, sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from otel_rl.semconv.definitions import MetricDefinition

    Observations = Iterator[tuple[float, dict[str, Any]]]

_scope = Scope("environments")
#: Episodes that the gauges are about.
WINDOW = 100
#: NumPy's 64-bit floats among them; others are slower to read.
_NUMBERS = (float, int)
#: Key of an environment's information that says whether its task is done.
SUCCESS = "is_success"


class _Vector(Protocol):
    """Environments that are stepped together."""

    name: str

    @property
    def open_steps(self) -> int:
        """Return the steps of their open episodes."""


class _Episode(NamedTuple):
    """One that has ended; ``success`` is None where the environment does not say it."""

    gain: float
    length: int
    success: bool | None


class OpenEpisode:
    """The numbers of an environment since its last reset.

    ``owner`` is the class whose step counts: that may call the step of its base class, which is followed too.
    """

    __slots__ = ("gain", "length", "name", "owner", "success")

    def __init__(self, name: str, owner: type) -> None:
        self.name, self.owner = name, owner
        self._begin()

    def _begin(self) -> None:
        #: Sum of the rewards.
        self.gain = 0.0
        self.length = 0
        self.success: bool | None = None

    def add_reward(self, reward: Any) -> None:
        """Add a reward that is no float of Python; a tensor on a device is left alone, reading it would wait for it."""
        value = reward if isinstance(reward, _NUMBERS) else number(reward)
        if value is not None:
            self.gain += value

    def take_success(self, said: Any) -> None:
        """Note whether the environment says that its task is done; an answer on a device is left alone."""
        self.success = truth(said)

    def end_if(self, *reasons: Any) -> None:
        """End it where one of ``reasons``, of Python or NumPy, is true."""
        if any(truth(reason) for reason in reasons):
            self.end()

    def end(self) -> None:
        """Add it to the episodes that have ended, unless no step was made, and begin anew."""
        if self.length:
            ended(self.name, _Episode(float(self.gain), self.length, self.success))
        self._begin()


class _Tally:
    """Episodes of one environment, of the training or of evaluations."""

    __slots__ = ("episodes", "latest", "since_step")

    def __init__(self) -> None:
        self.episodes = 0
        self.latest: deque[_Episode] = deque(maxlen=WINDOW)
        self.since_step = _Sums()


class _Sums:
    """Sums over the episodes since the last training step ended."""

    __slots__ = ("gain", "highest", "judged", "length", "lowest", "number", "successes")

    def __init__(self) -> None:
        self.number = self.length = self.judged = self.successes = 0
        self.gain, self.lowest, self.highest = 0.0, float("inf"), float("-inf")

    def add(self, episode: _Episode) -> None:
        self.number += 1
        self.gain += episode.gain
        self.length += episode.length
        self.lowest, self.highest = min(self.lowest, episode.gain), max(self.highest, episode.gain)
        if episode.success is not None:
            self.judged += 1
            self.successes += episode.success

    def values(self) -> dict[str, float]:
        """Return what there is to say, by the last part of the key."""
        known = {
            "return_mean": self.gain / self.number,
            "return_min": self.lowest,
            "return_max": self.highest,
            "length_mean": self.length / self.number,
            "episodes": float(self.number),
        }
        if self.judged:
            known["success_rate"] = self.successes / self.judged
        return known


class _Counts:
    """What the environments of this process have done."""

    def __init__(self) -> None:
        #: What keeps these ids up to date.
        self.references: dict[int, ref[Any]] = {}
        self.tallies: dict[tuple[str, bool], _Tally] = {}
        self.vectors: WeakSet[_Vector] = WeakSet()
        #: Steps of episodes that have ended, by environment.
        self.steps: dict[str, int] = {}
        #: Steps when the last training step ended, and when that was; at first when an environment was first reset.
        self.last: tuple[int, float] | None = None
        #: False in a process that steps environments for another one, which counts them.
        self.is_followed = True
        self.is_observed = False
        #: Entered again by what the garbage collector removes.
        self.lock = threading.RLock()


class _OpenEpisodes(dict[int, OpenEpisode]):
    """Pickled as an empty dictionary: a class of the program that is pickled by value takes its wrapped step along."""

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ()


_counts = _Counts()
#: By the id of their environment.
open_episodes: dict[int, OpenEpisode] = _OpenEpisodes()


def is_followed() -> bool:
    """Return whether episodes of this process are counted here."""
    return _counts.is_followed and _scope.enabled


def leave_to_parent() -> None:
    """Count no episodes in this process: the one above steps the environments, and counts."""
    _counts.is_followed = False
    open_episodes.clear()
    _counts.references.clear()


def name_of(environment: Any) -> str:
    """Return the id under which an environment is registered, or the name of its class."""
    identifier = getattr(getattr(environment, "spec", None), "id", None)
    return identifier if isinstance(identifier, str) else type(environment).__name__


def began(environment: Any, owner: type) -> None:
    """Begin to follow an environment that is being reset; its steps are those of the class ``owner``."""
    key = id(environment)
    _observe()
    _counts.references[key] = ref(environment, lambda _: _gone(key))
    open_episodes[key] = OpenEpisode(name_of(environment), owner)


def _gone(key: int) -> None:
    """Keep the steps of an environment that nobody refers to any more; its last episode has not ended."""
    _counts.references.pop(key, None)
    episode = open_episodes.pop(key, None)
    if episode is not None:
        add_steps(episode.name, episode.length)


def add_steps(name: str, number_of_steps: int) -> None:
    """Count steps of episodes that have ended or never will."""
    with _counts.lock:
        _counts.steps[name] = _counts.steps.get(name, 0) + number_of_steps


def ended(name: str, episode: _Episode) -> None:
    """Count an episode that has ended."""
    key = (name, phases.is_inside(RlPhaseValues.EVALUATE))
    with _counts.lock:
        tally = _counts.tallies.get(key)
        if tally is None:
            tally = _counts.tallies[key] = _Tally()
        tally.episodes += 1
        tally.latest.append(episode)
        tally.since_step.add(episode)
    add_steps(name, episode.length)


def follow_vector(vector: _Vector) -> None:
    """Count the steps of environments that are stepped together, for as long as ``vector`` lives."""
    _observe()
    _counts.vectors.add(vector)


def count_episode(name: str, gain: float, length: int, success: bool | None) -> None:
    """Count an episode of one environment among several that are stepped together, or that a rollout was."""
    _observe()
    ended(name, _Episode(gain, length, success))


# -- the record of a training step -------------------------------------------------------------------------------------


def _step_closing(step: steps.Step) -> None:
    now = time.monotonic()
    before = _counts.last or (0, now)
    done = sum(_steps_by_name().values())
    _counts.last = (done, now)
    with _counts.lock:
        ended_since = [(key[1], tally) for key, tally in _counts.tallies.items() if tally.since_step.number]
        sums = {evaluation: [t.since_step for e, t in ended_since if e == evaluation] for evaluation, _ in ended_since}
        for _, tally in ended_since:
            tally.since_step = _Sums()
    for evaluation, parts in sums.items():
        prefix = "eval_environment" if evaluation else "environment"
        for key, value in _together(parts).items():
            sink.measure(_scope, Source.PRODUCER, step.iteration, f"{prefix}/{key}", value, step)
    if done > before[0] and now > before[1]:
        rate = (done - before[0]) / (now - before[1])
        sink.measure(_scope, Source.PRODUCER, step.iteration, "environment/steps_per_second", rate, step)


def _together(parts: Sequence[_Sums]) -> dict[str, float]:
    whole = _Sums()
    for part in parts:
        whole.number += part.number
        whole.gain += part.gain
        whole.length += part.length
        whole.judged += part.judged
        whole.successes += part.successes
        whole.lowest, whole.highest = min(whole.lowest, part.lowest), max(whole.highest, part.highest)
    return whole.values()


# -- metrics -----------------------------------------------------------------------------------------------------------


def _observe() -> None:
    steps.contributors.add(_step_closing)
    if _counts.last is None:
        _counts.last = (0, time.monotonic())
    if _counts.is_observed:
        return
    _counts.is_observed = True
    _scope.observe(metrics.RL_ENVIRONMENT_STEPS, _observe_steps)
    _scope.observe(metrics.RL_ENVIRONMENT_EPISODES, lambda: _of_tallies(lambda tally: tally.episodes))
    for metric, value in _GAUGES.items():
        _scope.observe(metric, _gauge(value))


def _observe_steps() -> Observations:
    for name, done in _steps_by_name().items():
        yield done, {names.RL_ENVIRONMENT_NAME: name}


def _steps_by_name() -> dict[str, int]:
    done = dict(_counts.steps)
    for episode in list(open_episodes.values()):
        done[episode.name] = done.get(episode.name, 0) + episode.length
    for vector in list(_counts.vectors):
        done[vector.name] = done.get(vector.name, 0) + vector.open_steps
    return done


def _gauge(value: Callable[[list[_Episode]], float | None]) -> Callable[[], Observations]:
    return lambda: _of_tallies(lambda tally: value(list(tally.latest)))


def _of_tallies(value: Callable[[_Tally], float | None]) -> Observations:
    for (name, evaluation), tally in list(_counts.tallies.items()):
        known = value(tally)
        if known is not None:
            yield known, {names.RL_ENVIRONMENT_NAME: name, names.RL_ENVIRONMENT_EVALUATION: evaluation}


def _mean(values: list[float] | list[int]) -> float:
    return sum(values) / len(values)


def _success_rate(episodes: list[_Episode]) -> float | None:
    judged = [episode.success for episode in episodes if episode.success is not None]
    return sum(judged) / len(judged) if judged else None


_GAUGES: dict[MetricDefinition, Callable[[list[_Episode]], float | None]] = {
    metrics.RL_ENVIRONMENT_EPISODE_RETURN_MEAN: lambda episodes: _mean([one.gain for one in episodes]),
    metrics.RL_ENVIRONMENT_EPISODE_RETURN_MIN: lambda episodes: min(one.gain for one in episodes),
    metrics.RL_ENVIRONMENT_EPISODE_RETURN_MAX: lambda episodes: max(one.gain for one in episodes),
    metrics.RL_ENVIRONMENT_EPISODE_STEPS_MEAN: lambda episodes: _mean([one.length for one in episodes]),
    metrics.RL_ENVIRONMENT_EPISODE_STEPS_MIN: lambda episodes: min(one.length for one in episodes),
    metrics.RL_ENVIRONMENT_EPISODE_STEPS_MAX: lambda episodes: max(one.length for one in episodes),
    metrics.RL_ENVIRONMENT_SUCCESS_RATIO: _success_rate,
}


def _forget() -> None:
    """Begin at zero in a forked child: the parent counts its own."""
    global _counts
    _counts = _Counts()
    open_episodes.clear()


lifecycle.after_fork_in_child(_forget)
