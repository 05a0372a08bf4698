"""Ids that a program's own samples carry: in arguments and results of the functions that the environment names.

A class that makes trajectories hands its samples to one that scores them, in this process or another. Where that scores
outside of the rollout, the ids of its sample name the rollout that the score is for. They are looked for as arguments,
as keys of dictionaries and as attributes of objects, and in what arguments hold under names of Model Studio. No code
of the program runs. An object that a rollout has returned is known by itself; one that several rollouts return, as the
environment that they share, is the sample of none.
"""

from __future__ import annotations

import types
import weakref
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.api.user_messages import say_once
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH
from otel_rl.training.trajectory_shares import TrajectoryName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.trace import SpanContext

#: Names of an id, the best first.
_ROLLOUT, _SAMPLE, _GROUP, _ATTEMPT = ("rollout_id", "trajectory_id"), ("sample_id",), ("group_id",), ("attempt_id",)
#: Names under which inputs of Model Studio's processors hold their ids, and what a rollout has returned.
_HELD = ("request_metadata", "agent_output", "agent_outputs")
#: Arguments of a call, and items of a list that is returned, that are looked at.
_MOST_ARGUMENTS, _MOST_ITEMS = 16, 512
#: Most samples, and most objects, that are remembered.
MAXIMUM = 8192
#: Longest number that is an id, in bits.
_BITS = 256


class SampleIds(NamedTuple):
    """Ids of a sample, each None where it has none."""

    rollout: str | None = None
    sample: str | None = None
    group: str | None = None
    attempt: str | None = None


class _OfSample:
    """The rollout that has a sample id; None where several have it that nobody has scored."""

    __slots__ = ("is_scored", "name")

    def __init__(self, name: TrajectoryName | None) -> None:
        self.name = name
        self.is_scored = False


class _OfObject:
    """The rollout that has returned an object; None where several have that nobody has scored by it."""

    __slots__ = ("is_scored", "is_shared", "name", "reference")

    def __init__(self, reference: weakref.ref[Any], name: TrajectoryName | None, *, is_shared: bool) -> None:
        self.reference = reference
        self.name = name
        self.is_shared = is_shared
        self.is_scored = False


#: What the named rollouts of this process had: their samples, the oldest first, ids in their results, and the results.
_by_sample: dict[str, _OfSample] = {}
_by_rollout: dict[str, TrajectoryName] = {}
#: Spans that stand for them, by their ids.
_roots: dict[str, SpanContext] = {}
_by_object: dict[int, _OfObject] = {}


def of_arguments(arguments: object) -> SampleIds:
    """Return the ids among the arguments of a call, by name."""
    if type(arguments) is not dict:
        return SampleIds()
    return _first([arguments, *_subjects(arguments)])


def of_value(value: object) -> SampleIds:
    """Return the ids that an object or dictionary carries."""
    return _first([value])


def _subjects(arguments: Mapping[str, Any]) -> Iterable[Any]:
    """Return what the arguments hold; those of a function with any arguments lie one deeper."""
    values = list(islice(arguments.values(), _MOST_ARGUMENTS))
    for name, value in islice(arguments.items(), _MOST_ARGUMENTS):
        if name == "args" and type(value) is tuple:
            values += value[:_MOST_ARGUMENTS]
        elif name == "kwargs" and type(value) is dict:
            values += islice(value.values(), _MOST_ARGUMENTS)
    held = (read(value, name) for value in values for name in _HELD)
    return [*values, *(value for value in held if value is not None)]


def _first(holders: Iterable[Any]) -> SampleIds:
    holders = list(holders)
    found = (
        next((known for holder in holders for name in names if (known := _id(read(holder, name))) is not None), None)
        for names in (_ROLLOUT, _SAMPLE, _GROUP, _ATTEMPT)
    )
    return SampleIds(*found)


def _id(value: Any) -> str | None:
    # By its class: ``isinstance`` asks the object too.
    kind = type(value)
    if issubclass(kind, str):
        return text(str.__str__(value), MAXIMUM_LENGTH) or None
    if issubclass(kind, int) and kind is not bool and int.bit_length(value) <= _BITS:
        return int.__repr__(value)
    return None


def read(holder: Any, name: str) -> Any:
    """Return a key of a dictionary, or an attribute that the object itself holds; None if it has none."""
    if issubclass(type(holder), dict):
        return dict.get(holder, name)
    try:
        own = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        own = None
    if type(own) is dict and name in own:
        return own[name]
    for kind in type(holder).__mro__:
        slot = vars(kind).get(name)
        if isinstance(slot, types.MemberDescriptorType):
            return slot.__get__(holder) if _is_set(slot, holder) else None
    fields = getattr(type(holder), "_fields", None) if issubclass(type(holder), tuple) else None
    if type(fields) is tuple and name in fields:
        return tuple.__getitem__(holder, fields.index(name))
    return None


def _is_set(slot: types.MemberDescriptorType, holder: Any) -> bool:
    try:
        slot.__get__(holder)
    except AttributeError:
        return False
    return True


def began(sample: str | None, name: TrajectoryName) -> None:
    """Note that a named rollout of this sample has begun."""
    if sample is None:
        return
    before = _by_sample.pop(sample, None)
    is_only = before is None or before.is_scored
    _keep(_by_sample, sample, _OfSample(name if is_only else None))


def remember_root(rollout: str, span: SpanContext) -> None:
    """Remember the span of a named rollout, for the links of what scores it later."""
    _keep(_roots, rollout, span)


def root_of(name: TrajectoryName | None) -> SpanContext | None:
    """Return the span of a named rollout of this process; None for any other."""
    return None if name is None or name.rollout is None else _roots.get(name.rollout)


def returned(value: Any, name: TrajectoryName) -> None:
    """Note what a named rollout has returned."""
    items = value[:_MOST_ITEMS] if type(value) in (list, tuple) else ()
    for item in (value, *items):
        known = _id(read(item, _ROLLOUT[0])) or _id(read(item, _ROLLOUT[1]))
        if known is not None and known != name.rollout:
            _keep(_by_rollout, known, name)
        if issubclass(type(item), type | types.ModuleType | types.FunctionType):
            continue
        place = id(item)
        try:
            reference = weakref.ref(item, partial(_drop, place))
        except TypeError:
            # Of a kind that has none, as a dictionary: it is known by its ids only.
            continue
        before = _by_object.get(place)
        if before is None or before.reference() is not item:
            _keep(_by_object, place, _OfObject(reference, name, is_shared=False))
        elif before.name != name:
            is_only = before.is_scored
            _keep(_by_object, place, _OfObject(reference, name if is_only else None, is_shared=True))


def _drop(place: int, dead: weakref.ref[Any]) -> None:
    known = _by_object.get(place)
    if known is not None and known.reference is dead:
        del _by_object[place]


def _keep(known: dict[Any, Any], key: Any, value: Any) -> None:
    known[key] = value
    if len(known) > MAXIMUM:
        known.pop(next(iter(known)), None)


def rollout_of(subject: Any) -> TrajectoryName | None:
    """Return the rollout of one sample: by itself, or by its ids; None where it has none."""
    return _by_objects_or_ids([subject], of_value(subject))


def rollout_of_call(arguments: object) -> TrajectoryName | None:
    """Return the rollout that the arguments of a call are a sample of."""
    if type(arguments) is not dict:
        return None
    return _by_objects_or_ids(_subjects(arguments), of_arguments(arguments))


def rollouts_of_batch(arguments: object) -> list[TrajectoryName | None]:
    """Return the rollout of each sample of the first list of samples among the arguments; empty for none."""
    for subject in _subjects(arguments) if type(arguments) is dict else ():
        if type(subject) in (list, tuple):
            found = [rollout_of(item) for item in islice(subject, MAXIMUM)]
            if any(name is not None for name in found):
                return found
    return []


def _by_objects_or_ids(subjects: Iterable[Any], ids: SampleIds) -> TrajectoryName | None:
    """Return the rollout that returned one of these, rather one that no other returned; else that of the ids."""
    found = [
        known
        for subject in subjects
        if (known := _by_object.get(id(subject))) is not None and known.reference() is subject
    ]
    known = min(found, key=lambda known: (known.is_shared, known.name is None), default=None)
    if known is not None and known.name is not None:
        known.is_scored = True
        return known.name
    name = _by_ids(ids)
    if known is not None and name is None:
        say_once(
            "object",
            "several rollouts have returned the same object, and nothing else says which of them a reward function"
            " scores: give it what only one of them returns, or an id",
        )
    return name


def _by_ids(ids: SampleIds) -> TrajectoryName | None:
    if ids.rollout is not None:
        return _by_rollout.get(ids.rollout) or TrajectoryName(None, ids.rollout)
    if ids.sample is None:
        return None
    known = _by_sample.get(ids.sample)
    if known is None:
        return TrajectoryName(None, None, ids.sample)
    if known.name is None:
        say_once(
            "sample",
            "several rollouts have the same sample_id, and none says which of them a reward function scores: give the"
            " sample a rollout_id",
        )
        return None
    known.is_scored = True
    return known.name
