"""The program's callbacks: all of them run, in their order, and none of ours is among them."""

from __future__ import annotations

from langchain_core.callbacks import CallbackManager
from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.language_models import FakeListLLM


class Names(BaseCallbackHandler):
    """A handler of the program."""

    def __init__(self):
        self.seen = []

    def on_llm_start(self, *_, **__):
        self.seen.append("on_llm_start")

    def on_llm_end(self, *_, **__):
        self.seen.append("on_llm_end")


def test_no_handler_of_ours_is_among_the_programs(ours, recorded):
    assert CallbackManager.configure().handlers == []


async def test_asynchronous_model_calls_reach_the_programs_handlers(ours, recorded):
    handler = Names()
    await FakeListLLM(responses=["x"]).ainvoke("q", {"callbacks": [handler]})
    assert handler.seen == ["on_llm_start", "on_llm_end"]


async def test_streamed_events_of_a_model_are_complete(ours, recorded):
    async def events():
        return [event["event"] async for event in FakeListLLM(responses=["abc"]).astream_events("q", version="v2")]

    watched = await events()
    ours.uninstrument()
    plain = await events()
    ours.instrument(skip_dep_check=True)
    assert watched == plain
    assert watched[0] == "on_llm_start"
