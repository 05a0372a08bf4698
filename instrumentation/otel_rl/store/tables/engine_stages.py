"""Where the stages of a request lie in its call, as far as its engine reported their lengths.

An engine's clock is its own, so stages are placed by their lengths: those of a prefill server from the start of the
call, those of a decode server up to its end.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.semconv import attributes as names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_rl.store.reader.records import Span

NAMESPACE = names.RL_ENGINE_REQUESTS.removesuffix("requests")
PREFILL_SERVER, DECODE_SERVER = "P", "D"


class Kind(IntEnum):
    """What a stage is to the request."""

    WAIT = 0
    TRANSFER = 1
    PREFILL = 2
    DECODE = 3


class EngineStage(NamedTuple):
    """A stage of a request; times in ns since the epoch. ``server`` is empty if one server does both."""

    server: str
    name: str
    kind: Kind
    start: int
    end: int


_QUEUE, _FIRST, _PREFILL, _DECODE, _TRANSFER, _TRANSFER_QUEUE = (
    name.removeprefix(NAMESPACE)
    for name in (
        names.RL_ENGINE_QUEUE_TIME,
        names.RL_ENGINE_TIME_TO_FIRST_TOKEN,
        names.RL_ENGINE_PREFILL_TIME,
        names.RL_ENGINE_DECODE_TIME,
        names.RL_ENGINE_TRANSFER_TIME,
        names.RL_ENGINE_PREFILL_TRANSFER_QUEUE_TIME,
    )
)
#: Waits before the work of a server, in their order; the last one is the sum of those before it.
_PREFILL_WAITS, _DECODE_WAITS = (
    tuple(name.removeprefix(NAMESPACE) for name in waits)
    for waits in (
        (
            names.RL_ENGINE_PREFILL_BOOTSTRAP_TIME,
            names.RL_ENGINE_PREFILL_ALLOC_WAIT_TIME,
            names.RL_ENGINE_PREFILL_BOOTSTRAP_QUEUE_TIME,
        ),
        (
            names.RL_ENGINE_DECODE_BOOTSTRAP_TIME,
            names.RL_ENGINE_DECODE_ALLOC_WAIT_TIME,
            names.RL_ENGINE_DECODE_PREALLOC_TIME,
        ),
    )
)


def times_of(span: Span) -> dict[str, float]:
    """Return the times that an engine reported of a call; none of a batch in the process, which has means."""
    if span.attributes.get(names.RL_ENGINE_REQUESTS, 1) != 1:
        return {}
    return {
        name.removeprefix(NAMESPACE): value
        for name, value in span.attributes.items()
        if name.startswith(NAMESPACE) and isinstance(value, float)
    }


def of_call(start: int, end: int, times: Mapping[str, float]) -> Iterator[EngineStage]:
    """Yield the stages of a call of one request; ``times`` are its attributes without ``rl.engine.``, in s."""
    if not times.keys() & {_TRANSFER, _TRANSFER_QUEUE, *_PREFILL_WAITS, *_DECODE_WAITS}:
        prefill = [("queue", Kind.WAIT, times.get(_QUEUE, 0.0))]
        if _FIRST in times:
            prefill.append(("prefill", Kind.PREFILL, times[_FIRST] - times.get(_QUEUE, 0.0)))
        yield from _placed("", start, end, prefill)
        return
    transfer_queue = times.get(_TRANSFER_QUEUE, 0.0)
    yield from _placed(
        PREFILL_SERVER,
        start,
        end,
        [
            *_waits(times, _PREFILL_WAITS),
            # The forward pass ends with the transfer.
            ("prefill", Kind.PREFILL, times.get(_PREFILL, 0.0) - transfer_queue),
            ("transfer queue", Kind.TRANSFER, transfer_queue),
        ],
    )
    decode = [
        *_waits(times, _DECODE_WAITS),
        ("transfer", Kind.TRANSFER, times.get(_TRANSFER, 0.0)),
        ("decode", Kind.DECODE, times.get(_DECODE, 0.0)),
    ]
    took = round(sum(max(seconds, 0.0) for _, _, seconds in decode) * 1e9)
    yield from _placed(DECODE_SERVER, max(start, end - took), end, decode)


def _waits(times: Mapping[str, float], keys: tuple[str, ...]) -> list[tuple[str, Kind, float]]:
    *parts, whole = keys
    known = [key for key in parts if key in times] or [whole]
    return [(_title(key), Kind.WAIT, times.get(key, 0.0)) for key in known]


def _title(key: str) -> str:
    return key.partition(".")[2].removesuffix("_time").replace("_", " ")


def _placed(server: str, at: int, end: int, stages: list[tuple[str, Kind, float]]) -> Iterator[EngineStage]:
    for name, kind, seconds in stages:
        until = min(at + round(seconds * 1e9), end)
        if until > at:
            yield EngineStage(server, name, kind, at, until)
            at = until
