"""Programs that gevent patches: before the first record, and after it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from process_support import Programs

pytest.importorskip("gevent")

PATCH = "from gevent import monkey; monkey.patch_all()\n"
RECORD = """
with trace.get_tracer("program").start_as_current_span("work"): pass
metrics.get_meter("program").create_counter("made").add(1)
"""
FLUSH = """
for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()): getattr(provider, "force_flush", bool)()
"""
GREENLETS = """
import gevent, threading, time
def job(number):
    with trace.get_tracer("program").start_as_current_span("work"), otel_rl.rollout(sample_id=number):
        gevent.sleep(0.01)
    print("job", number)
gevent.joinall([gevent.spawn(job, number) for number in range(3)])
thread = threading.Thread(target=job, args=(3,)); thread.start(); thread.join()
"""
IMPORTS = "import otel_rl\nfrom opentelemetry import metrics, trace\n"


@pytest.mark.parametrize("order", ["patched first", "patched after the first record", "patched after an export"])
def test_output_and_status_are_those_without_us_and_everything_is_recorded(programs: Programs, order: str) -> None:
    text = {
        "patched first": PATCH + IMPORTS + RECORD,
        "patched after the first record": IMPORTS + RECORD + PATCH,
        "patched after an export": IMPORTS + RECORD + FLUSH + PATCH,
    }[order]
    text += GREENLETS

    plain, instrumented = programs.plain(text), programs.instrumented(text, OTEL_RL_QUIET="1")

    assert (instrumented.code, instrumented.out, instrumented.err) == (0, plain.out, plain.err)
    assert plain.out.count("job") == 4
    assert programs.store.span_names().count("work") == 5


def test_a_program_that_is_patched_first_ends_by_sigterm_after_a_delivery(programs: Programs) -> None:
    text = "import os, signal, time, otel_rl\nwith otel_rl.step(1): pass\n"
    text += "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(600)\nprint('went on')\n"

    done = programs.instrumented(PATCH + text, OTEL_RL_QUIET="1")

    assert (done.code, done.out, done.err) == (-signal.SIGTERM, "", "")
    assert programs.store.span_names() == ["rl.loop", "rl.rank.step"]
