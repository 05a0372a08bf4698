"""Trace and span ids that touch no random state of the program, and ids that several processes can derive alone."""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.sdk.trace.id_generator import IdGenerator as SdkIdGenerator

if TYPE_CHECKING:
    from collections.abc import Iterator


class SpanIds(NamedTuple):
    """A trace id (128 bit) and a span id (64 bit), both non-zero."""

    trace_id: int
    span_id: int


_pinned: ContextVar[SpanIds | None] = ContextVar("otel_rl_pinned_ids", default=None)


def derive(*parts: object) -> SpanIds:
    """Ids that every process computes alike from the same parts, e.g. run id, attempt and iteration.

    The hash is uniformly distributed, so ratio samplers treat these ids like random ones.
    """
    digest = blake2b("/".join(map(str, parts)).encode(), digest_size=24).digest()
    return SpanIds(int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:], "big") or 1)


@contextmanager
def pinned(ids: SpanIds) -> Iterator[None]:
    """The next root span started in this context gets exactly these ids (with our generator installed)."""
    token = _pinned.set(ids)
    try:
        yield
    finally:
        _pinned.reset(token)


class IdGenerator(SdkIdGenerator):
    """Ids from ``os.urandom``.

    The SDK's default draws from the ``random`` module: it would change a seeded program's numbers, and after
    ``random.seed(42)`` all ranks would produce the same ids.
    """

    def generate_trace_id(self) -> int:
        """128 random bits, or the pinned id."""
        pin = _pinned.get()
        if pin is not None:
            return pin.trace_id
        return int.from_bytes(os.urandom(16), "big") or 1

    def generate_span_id(self) -> int:
        """64 random bits, or the pinned id."""
        pin = _pinned.get()
        if pin is not None:
            return pin.span_id
        return int.from_bytes(os.urandom(8), "big") or 1

    def is_trace_id_random(self) -> bool:
        """Sets the W3C random-trace-id flag."""
        return True
