"""Trace and span ids that touch no random state of the program, and ids that several processes can derive alone."""

from __future__ import annotations

import os
import random
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from opentelemetry.sdk.trace.id_generator import IdGenerator as SdkIdGenerator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class SpanIds(NamedTuple):
    """A trace id (128 bit) and a span id (64 bit), both non-zero."""

    trace_id: int
    span_id: int


_pinned: ContextVar[SpanIds | None] = ContextVar("otel_rl_pinned_ids", default=None)


def derive(*parts: object) -> SpanIds:
    """Ids that every process computes alike from the same parts, e.g. run id, attempt and iteration.

    The hash is uniformly distributed, so ratio samplers treat these ids like random ones.
    """
    digest = blake2b("/".join(map(str, parts)).encode(errors="surrogateescape"), digest_size=24).digest()
    return SpanIds(int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:], "big") or 1)


def random_name() -> str:
    """Return a random id in the form of a UUID, for what the program does not name."""
    return str(UUID(int=IdGenerator().generate_trace_id()))


@contextmanager
def pinned(ids: SpanIds) -> Iterator[None]:
    """Give the next root span started in this context exactly these ids (with our generator installed)."""
    token = _pinned.set(ids)
    try:
        yield
    finally:
        _pinned.reset(token)


class _PrivateRandom:
    """Random bits of this process, seeded by ``os.urandom`` again after each fork.

    ``os.urandom`` for each id would release the interpreter lock. While an I/O thread encodes, the program's thread
    would then wait up to a switch interval (5 ms) for every span. The process id is compared at every draw, since code
    that runs early in a forked child, or forks without Python, would repeat the parent's ids.
    """

    def __init__(self) -> None:
        self._process = 0
        self._bits: Callable[[int], int] = int

    def __call__(self, bits: int) -> int:
        if self._process != os.getpid():
            self._bits = random.Random(os.urandom(32)).getrandbits  # noqa: S311 - ids are no secrets
            self._process = os.getpid()
        return self._bits(bits)


_random_bits = _PrivateRandom()


class IdGenerator(SdkIdGenerator):
    """Ids from a private generator.

    The SDK's default draws from the ``random`` module: it would change a seeded program's numbers, and after
    ``random.seed(42)`` all ranks would produce the same ids.
    """

    def generate_trace_id(self) -> int:
        """128 random bits, or the pinned id."""
        pin = _pinned.get()
        if pin is not None:
            return pin.trace_id
        return _random_bits(128) or 1

    def generate_span_id(self) -> int:
        """64 random bits, or the pinned id."""
        pin = _pinned.get()
        if pin is not None:
            return pin.span_id
        return _random_bits(64) or 1

    def is_trace_id_random(self) -> bool:
        """Return True, which sets the W3C random-trace-id flag."""
        return True
