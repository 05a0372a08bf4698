"""A decorated function that waits keeps nothing alive that the plain one would let go."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

import otel_rl
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE

DECORATORS = [
    lambda function: function,
    otel_rl.rollout(),
    otel_rl.reward_function("f"),
    otel_rl.tool("t"),
    otel_rl.span("s"),
    otel_rl.llm("m"),
    otel_rl.phase("sample"),
]


class Batch:
    """Stands for tensors."""


@pytest.fixture(params=["off", "NO_CONTENT", "SPAN_ONLY"], autouse=True)
def _content(request, monkeypatch, recorded):
    if request.param == "off":
        monkeypatch.setattr(otel_rl, "_enabled", lambda: False)
    else:
        monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, request.param)


def is_alive(reference):
    gc.collect()
    return reference() is not None


@pytest.mark.parametrize("decorate", DECORATORS)
def test_an_argument_ends_where_a_generator_lets_it_go(decorate):
    @decorate
    def generator(batch, *more, **named):
        yield 1
        del batch, more, named
        yield 2

    batches = [Batch(), Batch(), Batch()]
    references = list(map(weakref.ref, batches))
    pieces = generator(batches.pop(), batches.pop(), last=batches.pop())
    assert next(pieces) == 1
    assert all(map(is_alive, references))
    assert next(pieces) == 2
    assert not any(map(is_alive, references))


@pytest.mark.parametrize("decorate", DECORATORS)
def test_an_item_ends_with_its_consumer_and_what_is_sent_with_the_generator(decorate):
    @decorate
    def generator():
        sent = yield Batch()
        del sent
        yield 2

    pieces = generator()
    item = weakref.ref(next(pieces))
    assert not is_alive(item)
    batch = Batch()
    reference = weakref.ref(batch)
    pieces.send(batch)
    del batch
    assert not is_alive(reference)


@pytest.mark.parametrize("decorate", DECORATORS)
def test_arguments_and_items_of_asynchronous_functions_end_likewise(decorate):
    @decorate
    async def generator(batch):
        yield Batch()
        del batch
        yield 2

    @decorate
    async def coroutine(batch):
        reference = weakref.ref(batch)
        del batch
        await asyncio.sleep(0)
        return is_alive(reference)

    async def main():
        batch = Batch()
        reference = weakref.ref(batch)
        pieces = generator(batch)
        del batch
        item = weakref.ref(await anext(pieces))
        found = [is_alive(item), is_alive(reference)]
        await anext(pieces)
        found.append(is_alive(reference))
        await pieces.aclose()
        return [*found, await coroutine(Batch())]

    assert asyncio.run(main()) == [False, True, False, False]
